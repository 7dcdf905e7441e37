"""Files that are whole or not there: written under another name, flushed, then renamed."""

import errno
import hashlib
import json
import os
import platform
import re
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from oddone.errors import ArtifactError, InUseError, SettingsError

if sys.platform != "win32":
    import fcntl

ENCODER_NAME = "encoder.safetensors"
DETECTOR_NAME = "detector.oddone"
LOCK_NAME = ".lock"
YOUNG_SECONDS = 60.0
_SHA256 = re.compile("[0-9a-f]{64}")
_BESIDE = re.compile(r"\.oddone-[0-9a-f]{16}\.part")


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file so that a reader, or a restart, finds the old content or the new."""
    with os_errors_named(path):
        with file_beside(path) as part:
            _write_through(part, content)
            part.replace(path)
        sync_folder(path.parent)


def write_new(path: Path, content: bytes) -> None:
    """Write a file alike, or raise a FileExistsError if there is one of that name already."""
    with os_errors_named(path):
        with file_beside(path) as part:
            _write_through(part, content)
            move_to_free_name(part, path)
        sync_folder(path.parent)


def _write_through(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def move_to_free_name(part: Path, free: Path) -> None:
    """Rename a file, or raise a FileExistsError if anything is there, even a link to nowhere."""
    try:
        os.link(part, free)  # unlike a rename, it never replaces a file
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if os.path.lexists(free):
            raise FileExistsError(free) from None
        part.replace(free)


@contextmanager
def os_errors_named(path: Path) -> Iterator[None]:
    """Let an OSError name this file: one while writing names none, or one that nobody knows."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        error.filename2 = None
        raise


def sync_folder(folder: Path) -> None:
    """Wait until the disk knows which files there are in a folder."""
    if os.name == "posix":
        directory = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


@contextmanager
def file_beside(path: Path) -> Iterator[Path]:
    """Yield a new file in the folder of `path`, to be written and then renamed.

    No other file has its name, not even that of another process that writes the same `path`. If it
    is still there in the end, it is removed. Meanwhile it is locked, for `remove_leftovers`.
    """
    part = _name_beside(path)
    descriptor = os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
    try:
        if sys.platform == "win32":  # where a file that is open cannot be renamed
            os.close(descriptor)
        else:
            _try_to_lock(descriptor)
        yield part
    finally:
        part.unlink(missing_ok=True)  # on a full disk it would be in the way
        if sys.platform != "win32":
            os.close(descriptor)


@contextmanager
def folder_beside(path: Path) -> Iterator[Path]:
    """Yield a new folder beside `path`, to be filled and then renamed; the same holds for it."""
    part = _name_beside(path)
    part.mkdir()
    descriptor = None
    try:
        if sys.platform != "win32":
            descriptor = os.open(part, os.O_RDONLY)
            _try_to_lock(descriptor)
        yield part
    finally:
        shutil.rmtree(part, ignore_errors=True)
        if descriptor is not None:
            os.close(descriptor)


def _name_beside(path: Path) -> Path:
    return path.with_name(f".oddone-{secrets.token_hex(8)}.part")


def _try_to_lock(descriptor: int) -> None:
    if sys.platform != "win32":
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_leftover(name: str) -> bool:
    """Return whether a file or folder of that name is, or was, being written beside another."""
    return _BESIDE.fullmatch(name) is not None


def remove_leftovers(folder: Path) -> None:
    """Remove what `file_beside` and `folder_beside` have left in a folder when they were killed."""
    if sys.platform == "win32" or not folder.is_dir():
        return
    for part in [path for path in folder.iterdir() if is_leftover(path.name)]:
        with suppress(OSError):  # it is locked, so somebody writes it; or it is gone
            if time.time() - part.stat().st_mtime < YOUNG_SECONDS:
                continue  # and is perhaps not locked yet
            descriptor = os.open(part, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(part) if part.is_dir() else part.unlink()
            finally:
                os.close(descriptor)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Keep others who call this out of a folder; raise an InUseError if one of them is there.

    The operating system holds the lock, so it ends with its process, however that ends. Where it
    knows no locks (Windows, some network drives), nobody is kept out.
    """
    if sys.platform == "win32":
        yield
        return
    path = folder / LOCK_NAME
    with os_errors_named(path):
        file = _open_locked(path)
    try:
        with os_errors_named(path):
            os.write(file.fileno(), f"process {os.getpid()} on {platform.node()}".encode())
        yield
    finally:
        path.unlink(missing_ok=True)
        file.close()


def _open_locked(path: Path) -> TextIO:
    """Return a file that nobody else has locked."""
    while True:
        file = path.open("a+", errors="replace")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            owner = file.read(100) or "another process"
            file.close()
            raise InUseError(
                f"{path.parent} is in use by {owner}; wait until that has ended, or choose another "
                f"folder"
            ) from error
        except OSError:
            return file  # a file system without locks
        if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
            file.truncate(0)
            return file
        file.close()  # who had it before has just removed it


def write_json(path: Path, content: object) -> None:
    """Write a JSON file, indented for people."""
    write_atomic(path, _as_json(content))


def _as_json(content: object) -> bytes:
    return (json.dumps(content, indent=2) + "\n").encode()


def write_dated_json(folder: Path, name: str, content: Mapping[str, Any]) -> Path:
    """Write a JSON file whose content has a "date", put that into its name, and return its path.

    In the order of their names, such files are in the order of their dates. None replaces another:
    of those of one second, the second is named by the next second, and so on.
    """
    date = datetime.fromisoformat(content["date"])
    folder.mkdir(parents=True, exist_ok=True)
    while True:
        path = folder / f"{date:%Y-%m-%d-%H%M%S}-{name}.json"
        try:
            write_new(path, _as_json(content))
        except FileExistsError:
            date += timedelta(seconds=1)
        else:
            return path


def open_regular(path: Path) -> BinaryIO:
    """Open a file to be read; what is no file with an end, a pipe or a device, is an OSError."""
    # To open a pipe without O_NONBLOCK waits until somebody writes into it.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    file = open(os.open(path, flags), "rb")  # noqa: PTH123, SIM115  (a descriptor has no path)
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return file


def read_regular(path: Path, most: int) -> bytes:
    """Return what is in a file of at most so many bytes; anything else is an OSError."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        content = file.read(min(size, most) + 1)  # Python makes room for all that it is asked for
        if len(content) > size:  # it grows, or its file system does not say how long it is
            content += file.read(most + 1 - len(content))
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it has over {most:,} bytes", str(path))
    return content


def check_sha256(path: Path, content: bytes, wanted: str) -> None:
    """Raise an ArtifactError unless a file's content has the SHA-256 that is wanted."""
    compare_sha256(path, hashlib.sha256(content).hexdigest(), wanted)


def compare_sha256(path: Path, found: str, wanted: str) -> None:
    """Raise an ArtifactError unless the SHA-256 of a file, which was found, is the one wanted."""
    digits = wanted.strip().lower()
    if not _SHA256.fullmatch(digits):
        raise SettingsError(
            f"sha256={wanted!r}: give the 64 hexadecimal digits that sha256sum prints"
        )
    if found != digits:
        raise ArtifactError(
            f"{path} has the SHA-256 {found}, not {digits}; do not use it, and get it again"
        )


def file_or_in_run(path: Path, name: str) -> Path:
    """Return the path of a file, or of the file of that name where a run's directory is given."""
    if not path.is_dir():
        return path
    file = path / name
    if not file.is_file():
        raise ArtifactError(
            f"{path} holds no {name}; name the file, or the directory of a run that oddone train "
            f"has finished"
        )
    return file
