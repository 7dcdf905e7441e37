"""Files from a .tar or .tar.gz, without extracting it.

Python's tarfile reads names of any length, and packers whose dictionaries take gigabytes. Here
names are those of the plain header, 255 characters at most, and gzip is the only packer.
"""

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase, BytesIO
from pathlib import Path
from typing import NamedTuple

from oddone.data.limits import DamagedFileError, is_plausible
from oddone.errors import DataError

BLOCK = 512
CHUNK = 2**20
MOST_MEMBERS = 10_000
_FILE = (b"0", b"\0")


class Member(NamedTuple):
    """A file, folder, link or note in an archive."""

    name: str
    is_file: bool
    size: int


class Archive:
    """The members of an archive, one after the other."""

    def __init__(self, stream: BufferedIOBase, stored: int) -> None:
        self._stream, self._stored = stream, stored
        self._read_bytes = 0
        self._left = 0  # bytes of the member, with what fills up its last block

    def __iter__(self) -> Iterator[Member]:
        for _ in range(MOST_MEMBERS):
            self._skip()
            header = self._read(BLOCK)
            if not header.strip(b"\0"):
                return
            member = _parse_header(header)
            self._left = member.size + -member.size % BLOCK
            yield member
        raise DamagedFileError(f"it holds over {MOST_MEMBERS:,} files")

    def content(self, member: Member) -> bytes:
        """Return the content of the member that was given last."""
        if not is_plausible(member.size, self._stored):
            raise DamagedFileError(f"{member.name} would have {member.size:,} bytes")
        self._left -= member.size
        return self._read(member.size)

    def check_end(self) -> None:
        """Read what is left: at the end, gzip compares its checksum over all."""
        while part := self._stream.read(CHUNK):
            self._count(len(part))

    def _skip(self) -> None:
        while self._left:
            step = min(CHUNK, self._left)
            self._read(step)
            self._left -= step

    def _read(self, count: int) -> bytes:
        self._count(count)
        content = BytesIO()
        while content.tell() < count:
            part = self._stream.read(min(CHUNK, count - content.tell()))
            if not part:
                raise DamagedFileError("it is cut short")
            content.write(part)
        return content.getvalue()

    def _count(self, count: int) -> None:
        self._read_bytes += count
        if not is_plausible(self._read_bytes, self._stored):
            raise DamagedFileError(f"it unpacks to over {self._read_bytes:,} bytes")


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """Yield the archive. Damage is a DataError."""
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            stored = os.fstat(file.fileno()).st_size
            with gzip.open(file) if packed else file as stream:
                yield Archive(stream, stored)
    except (DamagedFileError, EOFError, OSError, zlib.error) as error:
        raise DataError(
            f"cannot read {path} as a .tar.gz: {error or type(error).__name__}; download it again"
        ) from error


def _parse_header(header: bytes) -> Member:
    """Return what a header of the formats ustar, GNU and pax says."""
    checksum = sum(header) - sum(header[148:156]) + 8 * ord(" ")
    if _octal(header[148:156]) != checksum:
        raise DamagedFileError("it has a damaged header, or is no .tar")
    name = _text(header[:100])
    if header[257:263] == b"ustar\0" and header[345]:
        name = f"{_text(header[345:500])}/{name}"
    return Member(name, header[156:157] in _FILE, _octal(header[124:136]))


def _octal(field: bytes) -> int:
    digits = field.strip(b" \0")
    if not digits or digits.strip(b"01234567"):
        raise DamagedFileError("it has a damaged header, or is no .tar")
    return int(digits, 8)


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "replace")
