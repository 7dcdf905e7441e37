"""Arrays from NumPy's files, .npy and .npz, with every length checked before memory is taken.

A .npz is a zip archive of .npy files. NumPy's own reader allocates what a header says.
"""

import math
import os
import tokenize
import zipfile
import zlib
from collections.abc import Collection
from io import BufferedIOBase
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, cast

import numpy as np

from oddone.data.limits import LONGEST_REASON, DamagedFileError, is_plausible
from oddone.errors import DataError
from oddone.files import open_regular

CHUNK = 2**20
KINDS = "biufcUSmM"
"""The kinds of numbers, text and times: all but objects, which are pickles, and records."""
_PACKERS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 1


class _Header(NamedTuple):
    """What stands before the numbers."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype

    @property
    def order(self) -> Literal["C", "F"]:
        """NumPy's letter for which index changes fastest."""
        return "F" if self.fortran_order else "C"


def map_npy(path: Path) -> np.ndarray:
    """Return the array in a .npy file, memory-mapped."""
    try:
        with open_regular(path) as file:
            header = _read_header(file)
            start, size = file.tell(), os.fstat(file.fileno()).st_size
            _check_size(header, size - start)
            if size == start:
                return np.empty(header.shape, header.dtype)  # nothing cannot be mapped
            return np.memmap(file, header.dtype, "r", start, header.shape, header.order)
    except _DAMAGE as error:
        raise _unreadable(path, error) from error


def read_npz(path: Path, names: Collection[str]) -> dict[str, np.ndarray | None]:
    """Return the arrays of a .npz file by name; those that are not asked for are None."""
    held: dict[str, np.ndarray | None] = {}
    try:
        with open_regular(path) as file, zipfile.ZipFile(file) as archive:
            stored = os.fstat(file.fileno()).st_size
            for member in archive.infolist():
                name = member.filename.removesuffix(".npy")
                if name in held:  # to read one a thousand times takes a few bytes each
                    raise DamagedFileError(f"it holds {name!r} twice")
                if name in names:
                    held[name] = _read_member(archive, member, stored)
                else:
                    _check_name(archive, member)
                    held[name] = None
    except _DAMAGE as error:
        raise _unreadable(path, error) from error
    return held


def _check_name(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    """Raise an error if a member has another name where it begins than in the list of members.

    By damage, an array that is asked for would seem to be one that is not.
    """
    if not member.flag_bits & _ENCRYPTED and member.compress_type in _PACKERS:
        archive.open(member).close()


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, stored: int) -> np.ndarray:
    if member.flag_bits & _ENCRYPTED:
        raise DamagedFileError(f"{member.filename} is encrypted")
    if member.compress_type not in _PACKERS:
        raise DamagedFileError(f"{member.filename} is packed by method {member.compress_type}")
    if not is_plausible(member.file_size, min(member.compress_size, stored)):
        raise DamagedFileError(
            f"{member.filename} would unpack from {member.compress_size:,} bytes to "
            f"{member.file_size:,}; if that is right, save it unpacked"
        )
    with archive.open(member) as stream:
        header = _read_header(cast("BufferedIOBase", stream))
        size = member.file_size - stream.tell()
        _check_size(header, size)
        flat = np.empty(size, np.uint8)
        for start in range(0, size, CHUNK):
            part = stream.read(min(CHUNK, size - start))
            flat[start : start + CHUNK] = np.frombuffer(part, np.uint8)  # fails if it is cut short
    return flat.view(header.dtype).reshape(header.shape, order=header.order)


def _read_header(stream: BufferedIOBase | BinaryIO) -> _Header:
    version = np.lib.format.read_magic(stream)
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in readers:
        raise DamagedFileError(f"it has version {version} of the format")
    header = _Header(*readers[version](stream))
    if header.dtype.kind not in KINDS or header.dtype.itemsize == 0:
        raise DamagedFileError(f"it holds {header.dtype}, no plain numbers or text")
    return header


def _check_size(header: _Header, size: int) -> None:
    if min(header.shape, default=0) < 0:
        raise DamagedFileError(f"it has the shape {header.shape}")
    told = math.prod(header.shape) * header.dtype.itemsize
    if told != size:
        raise DamagedFileError(
            f"its shape {header.shape} takes {told:,} bytes, and it has {size:,}"
        )


# Unreadable; a header with other contents; an archive with other contents.
_DAMAGE = (
    OSError,
    DamagedFileError,
    ValueError,
    TypeError,
    KeyError,
    EOFError,
    OverflowError,
    RecursionError,
    NotImplementedError,  # how zipfile says that an archive is of a later version
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


def _unreadable(path: Path, error: Exception) -> DataError:
    reason = str(error)[:LONGEST_REASON] or type(error).__name__
    return DataError(
        f"cannot read {path} as NumPy arrays: {reason}; "
        f"save plain arrays with np.savez(path, images=..., labels=...) or np.save"
    )
