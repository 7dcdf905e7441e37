"""Which device computes, how its threads share the work, and what becomes of its memory."""

import ctypes
import platform
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, TypeVar

import torch

from oddone.errors import SettingsError

DeviceName = Literal["auto", "cpu", "cuda", "mps"]

Item = TypeVar("Item")
Result = TypeVar("Result")

# Parameters of glibc's mallopt.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT_BYTES = 2**30


def choose_device(name: DeviceName = "auto") -> torch.device:
    """Return the device of that name, or with "auto" the fastest that is available."""
    available = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        return torch.device(next(name for name, there in available.items() if there))
    if not available[name]:
        raise SettingsError(f"device={name!r} is not available; choose 'auto' or 'cpu'")
    return torch.device(name)


def map_in_threads(
    function: Callable[[Item], Result], batches: Sequence[Item], device: torch.device
) -> list[Result]:
    """Return what the function makes of each batch, in order.

    On a CPU each thread takes one batch. That is faster than one batch at a time on all threads,
    because torch then has to wait for all of them in every operation
    (docs/decisions/0009-rows-in-parts.md).
    """
    threads = torch.get_num_threads()
    n_workers = min(threads, len(batches)) if device.type == "cpu" else 1
    if n_workers < 2:
        return [function(batch) for batch in batches]
    with ThreadPoolExecutor(
        n_workers, initializer=torch.set_num_threads, initargs=(threads // n_workers,)
    ) as workers:
        return list(workers.map(function, batches))


def keep_freed_memory() -> bool:
    """Ask the C library to keep up to a gigabyte of freed memory; return whether it does.

    A training step frees buffers of many megabytes and asks for the same again a moment later.
    glibc returns them to the system at once, which then has to clear every page anew
    (docs/decisions/0005-keep-freed-memory.md). This changes the whole process, so programs call
    it (the command line does) and library functions do not.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(M_MMAP_THRESHOLD, KEPT_BYTES)) and bool(
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
    )
