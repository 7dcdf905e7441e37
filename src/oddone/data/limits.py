"""How much memory files may take: whoever sends them must not choose it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition

SMALL_BYTES = 64 * 2**20
"""What any file may unpack to."""
MOST_RATIO = 50
"""How many times its own length a file may unpack to beyond that; images shrink to a half."""
DECODING_BYTES = 2**30
"""What all pictures that are decoded at a time may take, or a quarter of a smaller memory."""

MOST_PICTURE_BYTES = 32 * 2**20
"""Of a picture that is read as a whole: from an archive, a table, or another machine."""
CONTENTS_BYTES = 16 * MOST_PICTURE_BYTES
"""Of all such pictures that are in memory at a time and not decoded yet."""

LONGEST_REASON = 300
"""Characters that people are shown of what a library says of a file, as it may quote the file."""


class DamagedFileError(Exception):
    """A file is not what it should be, or not whole; the message says why, and not yet of which."""


def is_plausible(unpacked: int, stored: int) -> bool:
    """Return whether so many stored bytes may be taken for so many unpacked ones.

    Formats such as zlib reach a thousand to one, but not with images that anybody would keep.
    """
    return unpacked <= max(SMALL_BYTES, MOST_RATIO * stored)


class MemoryBudget:
    """Memory that threads share: who wants some waits until it is free."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._free = total
        self._changed = Condition()

    @contextmanager
    def reserve(self, wanted: int) -> Iterator[None]:
        """Hold so many bytes, at most the total."""
        self.take(wanted)
        try:
            yield
        finally:
            self.give_back(wanted)

    def take(self, wanted: int) -> None:
        """Wait until so many bytes are free, and hold them until they are given back."""
        with self._changed:
            self._changed.wait_for(lambda: self._free >= wanted)
            self._free -= wanted

    def give_back(self, taken: int) -> None:
        with self._changed:
            self._free += taken
            self._changed.notify_all()


def too_long(size: int) -> str | None:
    """Return why a picture of so many bytes is not read as a whole, if so."""
    if size <= MOST_PICTURE_BYTES:
        return None
    return f"it has over {MOST_PICTURE_BYTES:,} bytes, and is no file of its own on this machine"


def decoding_budget() -> MemoryBudget:
    """Return the budget of this machine for decoding pictures."""
    if not hasattr(os, "sysconf") or "SC_PHYS_PAGES" not in os.sysconf_names:  # Windows
        return MemoryBudget(DECODING_BYTES)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return MemoryBudget(min(DECODING_BYTES, memory // 4))
