"""Batches side by side: on a CPU two threads take one each, instead of sharing every operation.

Why that is faster is said in training/halves.py.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch
from torch import Tensor

Result = TypeVar("Result")


def side_by_side(
    work: Callable[[Tensor], Result], batches: Sequence[Tensor], device: torch.device
) -> list[Result]:
    """Return what is made of each batch by a network on that device, in order."""
    threads = torch.get_num_threads()
    if device.type != "cpu" or threads < 2 or len(batches) < 2:
        return [work(batch) for batch in batches]
    with ThreadPoolExecutor(
        2, initializer=torch.set_num_threads, initargs=(threads // 2,)
    ) as workers:
        return list(workers.map(work, batches))
