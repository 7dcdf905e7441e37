"""Which device computes, how its threads share the work, and what becomes of its memory."""

import ctypes
import os
import platform
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Literal, TypeVar

import torch

from oddone.errors import SettingsError

DeviceName = Literal["auto", "cpu", "cuda", "mps"]

Item = TypeVar("Item")
Result = TypeVar("Result")

# Parameters of glibc's mallopt.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT_BYTES = 2**30

with_gradients = torch.inference_mode(mode=False)
"""Decorates a function that trains, in which a caller's `no_grad` or `inference_mode` is off."""


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
    (docs/decisions/0009-rows-in-parts.md). A caller's autocast, which only his own thread has, is
    switched off: scores are compared with those of other days.
    """
    if not torch.amp.is_autocast_available(device.type):
        return _map_in_threads(function, batches, device)
    with torch.autocast(device.type, enabled=False):
        return _map_in_threads(function, batches, device)


def _map_in_threads(
    function: Callable[[Item], Result], batches: Sequence[Item], device: torch.device
) -> list[Result]:
    if device.type != "cpu" or len(batches) < 2:
        return [function(batch) for batch in batches]
    with _torch_threads.borrowed() as threads:
        n_workers = min(threads, len(batches))
        if n_workers < 2:
            return [function(batch) for batch in batches]
        with ThreadPoolExecutor(
            n_workers, initializer=torch.set_num_threads, initargs=(threads // n_workers,)
        ) as workers:
            return list(workers.map(function, batches))


class _TorchThreads:
    """Torch's threads, which callers in several threads may share out among workers.

    What a worker sets for itself, torch gives to every thread that begins later; so it has to be
    set back, and to what it was before the first of the callers came.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.callers = 0
        self.number = 1

    @contextmanager
    def borrowed(self) -> Iterator[int]:
        """Yield how many threads torch has, and let it have as many afterwards."""
        with self.lock:
            if self.callers == 0:
                self.number = torch.get_num_threads()
            self.callers += 1
            number = self.number
        try:
            yield number
        finally:
            with self.lock:
                self.callers -= 1
                if number > 1:
                    torch.set_num_threads(number)


_torch_threads = _TorchThreads()


def _begin_in_forked_child() -> None:
    """Let torch compute in one thread after a fork.

    The threads of its parent are not there, and OpenMP would wait for them for ever. Torch's own
    loaders of data do the same. A child that is spawned begins anew, and has all threads.
    """
    _torch_threads.lock, _torch_threads.callers = threading.Lock(), 0
    torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_in_forked_child)


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


def release_freed_memory() -> None:
    """Ask the C library to return freed memory to the system, also from between what is in use.

    What is freed and what is kept lie side by side. What is asked for next may not fit into the
    gaps, and the process would grow by them. The system clears every page that comes back.
    """
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)
