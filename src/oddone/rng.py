"""From one seed to many independent random streams, each known by its name."""

import hashlib
import operator

import torch


def stream(seed: int, *name: str | int) -> torch.Generator:
    """Return a CPU generator that depends on the seed and the name alone.

    A stream named by the step it serves needs no place in a checkpoint: going on at that step
    makes the same stream again.
    """
    # NumPy's integers are written in another way than Python's, and are the same numbers.
    parts = (part if isinstance(part, str) else operator.index(part) for part in (seed, *name))
    digest = hashlib.sha256(repr(tuple(parts)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big", signed=True))
