"""Arrays of numbers from the files of Matlab (level 5, which Matlab 5 to 7.2 write).

After a header of 128 bytes come elements: their type, their length, their content. One of type
COMPRESSED holds another one in zlib. One of type MATRIX holds four more: flags, shape, name and
numbers. No length is believed before it is compared with what the file can hold.
"""

import math
import os
import struct
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol, runtime_checkable

import numpy as np

from oddone.data.limits import DamagedFileError, is_plausible
from oddone.errors import DataError
from oddone.files import open_regular

HEADER = 128
MOST_VARIABLES = 1000
MOST_DIMENSIONS = 8
LONGEST_NAME = 63  # characters, as in Matlab
LONGEST_END = 16  # bytes after the numbers
CHUNK = 2**20
_INT8, _INT32, _UINT32, _MATRIX, _COMPRESSED = 1, 5, 6, 14, 15
_NUMBERS = {
    1: "i1",
    2: "u1",
    3: "<i2",
    4: "<u2",
    5: "<i4",
    6: "<u4",
    7: "<f4",
    9: "<f8",
    12: "<i8",
    13: "<u8",
}


@runtime_checkable
class _Readable(Protocol):
    """A file, or what is packed in a part of it."""

    def read(self, count: int, /) -> bytes:
        """Return so many bytes, or fewer where it ends."""


class _Tag(NamedTuple):
    """What stands before the content of an element."""

    type: int
    length: int
    content: bytes | None
    """Up to four bytes fit into the tag itself."""


def read_mat_arrays(path: Path, names: Collection[str]) -> dict[str, np.ndarray]:
    """Return those of the named arrays that the file holds, as it stores their numbers."""
    try:
        with open_regular(path) as file:
            _check_header(file.read(HEADER))
            return _read_arrays(file, os.fstat(file.fileno()).st_size, names)
    # A ValueError: a name that is no text, or an empty array with sides beyond any memory.
    except (OSError, ValueError, DamagedFileError, struct.error, zlib.error) as error:
        raise DataError(f"cannot read {path} ({error}); get it from its authors") from error


def _check_header(header: bytes) -> None:
    if header.startswith(b"MATLAB 7.3"):
        raise DamagedFileError("it is HDF5, which Matlab writes with -v7.3")
    if len(header) < HEADER or header[124:] != b"\x00\x01IM":
        raise DamagedFileError("it does not begin like a file of Matlab 5 to 7.2")


def _read_arrays(file: BinaryIO, size: int, names: Collection[str]) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    for content, tag in _variables(file, size):
        if tag.type == _MATRIX:
            named = _read_matrix(content, tag.length, names)
            if named is not None:
                if named[0] in arrays:
                    raise DamagedFileError(f"it holds {named[0]} twice")
                arrays[named[0]] = named[1]
                if isinstance(content, _Unpacked):
                    content.check_end()
        if len(arrays) == len(names):
            break
    return arrays


def _variables(file: BinaryIO, size: int) -> Iterator[tuple[_Readable, _Tag]]:
    """Yield the tags of the variables, unpacked, and what reads on after each."""
    place = HEADER
    for _ in range(MOST_VARIABLES):
        if place == size:
            return
        file.seek(place)
        tag = _read_tag(file)
        place += 8 + tag.length
        if place > size:
            raise DamagedFileError(f"it is cut short: {place} bytes are told, and there are {size}")
        if tag.type != _COMPRESSED:
            yield file, tag
            continue
        unpacked = _Unpacked(file, tag.length)
        inner = _read_tag(unpacked)
        if not is_plausible(inner.length, tag.length):
            raise DamagedFileError(f"{tag.length} bytes are told to unpack to {inner.length}")
        yield unpacked, inner
    raise DamagedFileError(f"it holds over {MOST_VARIABLES} variables")


class _Unpacked:
    """The content of a packed element, unpacked as it is read."""

    def __init__(self, file: BinaryIO, stored: int) -> None:
        self._file, self._stored = file, stored
        self._unpack = zlib.decompressobj()

    def read(self, count: int, /) -> bytes:
        """Return so many bytes, or fewer where it ends."""
        parts: list[bytes] = []
        while count > 0 and not self._unpack.eof:
            packed = self._unpack.unconsumed_tail or self._file.read(min(CHUNK, self._stored))
            if not self._unpack.unconsumed_tail:
                self._stored -= len(packed)
            part = self._unpack.decompress(packed, count)
            if not packed and not part:
                break
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def check_end(self) -> None:
        """Read what is left, a few bytes to fill up, and with it the checksum over all."""
        self.read(LONGEST_END)
        if not self._unpack.eof:
            raise DamagedFileError("it goes on after its numbers")


def _read_matrix(
    content: _Readable, size: int, names: Collection[str]
) -> tuple[str, np.ndarray] | None:
    """Return name and numbers of a matrix; None if its name is not asked for."""
    _read_small(content, _UINT32, 8)  # flags
    sides = _read_small(content, _INT32, 4 * MOST_DIMENSIONS)
    shape = struct.unpack(f"<{len(sides) // 4}i", sides)
    name = _read_small(content, _INT8, LONGEST_NAME).decode("ascii")
    if name not in names:
        return None
    tag = _read_tag(content)
    if tag.type not in _NUMBERS:
        raise DamagedFileError(f"{name} holds no plain numbers")
    numbers = np.dtype(_NUMBERS[tag.type])
    if min(shape, default=0) < 0 or math.prod(shape) * numbers.itemsize != tag.length:
        raise DamagedFileError(f"{name} of shape {shape} has {tag.length} bytes")
    if tag.length > size:
        raise DamagedFileError(f"{name} has {tag.length} bytes in an element of {size}")
    if tag.content is not None:
        flat = np.frombuffer(tag.content, numbers)
    else:
        flat = _read_numbers(content, tag.length).view(numbers)
    return name, flat.reshape(shape, order="F")


def _read_small(content: _Readable, wanted: int, longest: int) -> bytes:
    """Return the content of an element that must be of this type and not long."""
    tag = _read_tag(content)
    if tag.type != wanted or tag.length > longest:
        raise DamagedFileError(
            f"an element of type {tag.type} and {tag.length} bytes is out of place"
        )
    if tag.content is not None:
        return tag.content
    padded = tag.length + -tag.length % 8
    return _read_exactly(content, padded)[: tag.length]


def _read_tag(content: _Readable) -> _Tag:
    tag = _read_exactly(content, 8)
    first, length = struct.unpack("<II", tag)
    if first >> 16 == 0:
        return _Tag(first, length, None)
    length = first >> 16
    if length > 4:
        raise DamagedFileError(f"a short element has {length} bytes")
    return _Tag(first & 0xFFFF, length, tag[4 : 4 + length])


def _read_numbers(content: _Readable, size: int) -> np.ndarray:
    flat = np.empty(size, np.uint8)
    for start in range(0, size, CHUNK):
        part = flat[start : start + CHUNK]
        part[:] = np.frombuffer(_read_exactly(content, len(part)), np.uint8)
    return flat


def _read_exactly(content: _Readable, count: int) -> bytes:
    part = content.read(count)
    if len(part) < count:
        raise DamagedFileError("it is cut short")
    return part
