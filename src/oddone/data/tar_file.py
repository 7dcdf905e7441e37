"""Files from a .tar or .tar.gz, without extracting it.

Python's tarfile reads names of any length, and packers whose dictionaries take gigabytes. Here
names are those of the plain header, 255 characters at most, and gzip is the only packer.
"""

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO, UnsupportedOperation
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol, cast, runtime_checkable

from oddone.data.limits import MOST_RATIO, DamagedFileError, is_plausible
from oddone.errors import DataError
from oddone.files import open_regular

BLOCK = 512
CHUNK = 2**20
MOST_MEMBERS = 10_000
CUT_SHORT = "it is cut short"
_FILE = (b"0", b"\0")


class Member(NamedTuple):
    """A file, folder, link or note in an archive."""

    name: str
    is_file: bool
    size: int
    kind: bytes = b"0"
    """The letter that stands for it in the header."""


@runtime_checkable
class ByteStream(Protocol):
    """What bytes are read from: an open file, or what unpacks one."""

    def read(self, size: int = -1, /) -> bytes:
        """Return so many bytes, or fewer; at the end, none."""

    def seek(self, offset: int, whence: int = 0, /) -> object:
        """Go to another place."""


class Archive:
    """The members of an archive, one after the other."""

    def __init__(
        self, stream: ByteStream, stored: int, *, can_seek: bool, most_members: int
    ) -> None:
        self._stream, self._stored = stream, stored
        self._can_seek, self._most_members = can_seek, most_members
        self._read_bytes = 0
        self._left = 0  # bytes of the member, with what fills up its last block

    def __iter__(self) -> Iterator[Member]:
        for _ in range(self._most_members):
            self._skip()
            header = self._read(BLOCK)
            if not header.strip(b"\0"):
                return
            member = _parse_header(header)
            self._left = member.size + -member.size % BLOCK
            yield member
        raise DamagedFileError(f"it holds over {self._most_members:,} files")

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
        if self._can_seek and self._left:
            self._stream.seek(self._left, os.SEEK_CUR)
            self._left = 0
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
                raise DamagedFileError(CUT_SHORT)
            content.write(part)
        return content.getvalue()

    def _count(self, count: int) -> None:
        self._read_bytes += count
        if not is_plausible(self._read_bytes, self._stored):
            raise DamagedFileError(f"it unpacks to over {self._read_bytes:,} bytes")


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """Yield the archive of a data set. Damage is a DataError."""
    with _damage_named(str(path)), open_regular(path) as file:
        stored = os.fstat(file.fileno()).st_size
        with _archive(file, stored, can_seek=True, most_members=MOST_MEMBERS) as archive:
            yield archive


@contextmanager
def archive_in(
    file: ByteStream, stored: int, name: str, *, can_seek: bool = True
) -> Iterator[Archive]:
    """Yield the archive in an open file of so many bytes, of as many members as fit into it."""
    most = stored // BLOCK + 1
    with (
        _damage_named(name),
        _archive(file, stored, can_seek=can_seek, most_members=most) as archive,
    ):
        yield archive


@contextmanager
def _archive(
    file: ByteStream, stored: int, *, can_seek: bool, most_members: int
) -> Iterator[Archive]:
    start = file.read(2)
    packed = start == b"\x1f\x8b"
    stream: ByteStream = _Rejoined(start, file)
    if can_seek:
        file.seek(0)
        stream = file
    if not packed:
        yield Archive(stream, stored, can_seek=can_seek, most_members=most_members)
        return
    with gzip.open(cast("BinaryIO", stream)) as unpacked:
        members = max(MOST_MEMBERS, MOST_RATIO * most_members)
        yield Archive(unpacked, stored, can_seek=False, most_members=members)


class _Rejoined:
    """A stream that cannot go back, together with the bytes that were read of it already."""

    def __init__(self, start: bytes, rest: ByteStream) -> None:
        self._start, self._rest = start, rest

    def seek(self, offset: int, whence: int = 0, /) -> object:
        raise UnsupportedOperation(f"cannot go to {offset} ({whence}) in a stream")

    def read(self, size: int = -1, /) -> bytes:
        if not self._start:
            return self._rest.read(size)
        start, self._start = self._start, b""
        if 0 <= size < len(start):
            start, self._start = start[:size], start[size:]
            return start
        return start + self._rest.read(size - len(start) if size >= 0 else -1)


@contextmanager
def _damage_named(name: str) -> Iterator[None]:
    try:
        yield
    except (DamagedFileError, EOFError, OSError, zlib.error) as error:
        why = CUT_SHORT if isinstance(error, EOFError) else str(error) or type(error).__name__
        raise DataError(f"cannot read {name} as a tar: {why}; copy or download it again") from error


def _parse_header(header: bytes) -> Member:
    """Return what a header of the formats ustar, GNU and pax says."""
    checksum = sum(header) - sum(header[148:156]) + 8 * ord(" ")
    if _octal(header[148:156]) != checksum:
        raise DamagedFileError("it has a damaged header, or is no .tar")
    name = _text(header[:100])
    if header[257:263] == b"ustar\0" and header[345]:
        name = f"{_text(header[345:500])}/{name}"
    kind = header[156:157]
    return Member(name, kind in _FILE, _octal(header[124:136]), kind)


def _octal(field: bytes) -> int:
    digits = field.strip(b" \0")
    if not digits or digits.strip(b"01234567"):
        raise DamagedFileError("it has a damaged header, or is no .tar")
    return int(digits, 8)


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "replace")
