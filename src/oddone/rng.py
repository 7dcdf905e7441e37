"""From one seed to many independent random streams, each known by its name."""

import hashlib
import operator
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch

_ONE_AT_A_TIME = threading.RLock()


def stream(seed: int, *name: str | int) -> torch.Generator:
    """Return a CPU generator that depends on the seed and the name alone.

    A stream named by the step it serves needs no place in a checkpoint: going on at that step
    makes the same stream again.
    """
    # NumPy's integers are written in another way than Python's, and are the same numbers.
    parts = (part if isinstance(part, str) else operator.index(part) for part in (seed, *name))
    digest = hashlib.sha256(repr(tuple(parts)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big", signed=True))


@contextmanager
def drawing_from(
    generator: torch.Generator, device: torch.device | None = None
) -> Iterator[Callable[[], bool]]:
    """Let all that draws of torch's own generators, as dropout does, draw of this stream meanwhile.

    Yield a function that tells whether anything was drawn. Torch has one generator for all threads
    of the CPU, so threads take turns here.
    """
    gpu = device if device is not None and device.type == "cuda" else None
    read = torch.get_rng_state if gpu is None else partial(torch.cuda.get_rng_state, gpu)
    with _ONE_AT_A_TIME, torch.random.fork_rng(devices=[] if gpu is None else [gpu]):
        torch.manual_seed(generator.initial_seed())
        before = read()
        yield lambda: not torch.equal(read(), before)
