"""Paths from a pipe, as in `find photos -newer last -print0 | oddone score run -`."""

import os
from collections.abc import Iterator
from io import BufferedIOBase
from typing import BinaryIO, cast

from oddone.errors import DataError

CHUNK = 65_536
LONGEST = 1_000_000  # bytes; no path of any system is that long


def read_paths(pipe: BinaryIO | BufferedIOBase) -> Iterator[str]:
    """Yield paths as they come, separated by null bytes or, if there are none, by line ends."""
    buffered = cast("BufferedIOBase", pipe)  # every open file is one, whatever its declared type
    separator, rest = None, b""
    while chunk := _read(buffered):
        rest += chunk
        if separator is None:
            separator = next((mark for mark in (b"\0", b"\n") if mark in rest), None)
        if separator is not None:
            *whole, rest = rest.split(separator)
            yield from _names(whole, separator)
        if len(rest) > LONGEST:
            raise DataError(
                f"stdin holds {len(rest):,} bytes without an end of line; give one path a line"
            )
    yield from _names([rest], separator)


def _read(pipe: BufferedIOBase) -> bytes:
    """Return what there is, without waiting for more; at the end, nothing."""
    try:
        return pipe.read1(CHUNK)
    except OSError as error:
        raise DataError(f"stdin cannot be read: {error.strerror}; let it name pictures") from error


def _names(parts: list[bytes], separator: bytes | None) -> Iterator[str]:
    for part in parts:
        name = part if separator == b"\0" else part.removesuffix(b"\r")
        if name:
            yield os.fsdecode(name)
