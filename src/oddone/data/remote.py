"""Files behind URLs such as s3://bucket/photos/, through fsspec.

What stands behind a URL belongs to somebody else: nothing is read beyond a bound, and whatever its
library raises becomes one line. `file:///photos` is a path of this machine and is read as one.
"""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import unquote

from oddone.data.file_tree import NO_ENDING, ending_of, is_hidden
from oddone.data.formats import ENDINGS
from oddone.data.limits import LONGEST_REASON, MOST_PICTURE_BYTES, too_long
from oddone.data.tar_file import ByteStream
from oddone.errors import DataError, OddOneError

CONNECT_SECONDS, READ_SECONDS = 30, 60
BLOCK = 4 * 2**20  # bytes that are asked for at a time of a file that is read in parts
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_FILE_URL = re.compile(r"((?:[a-z0-9]+:)?)(?:file|local)://")
_WEB = ("http", "https")


class RemoteFile(NamedTuple):
    """A file behind a URL, and what its store tells of it."""

    url: str
    size: int | None
    version: str
    """What changes with its content, such as an ETag; empty if the store tells nothing."""


class RemoteFolder(NamedTuple):
    """What lies directly in a folder behind a URL. Hidden files are not there."""

    files: list[RemoteFile]
    folders: list[str]


class OpenFile(NamedTuple):
    """A file that is open to be read."""

    file: ByteStream
    size: int
    version: str
    can_seek: bool


def is_url(place: str) -> bool:
    """Return whether a place is a URL, and not a path."""
    return _URL.match(place) is not None


def without_file_scheme(source: str) -> str:
    """Return a source with the path instead of a URL of this machine: /a for file:///a."""
    return _FILE_URL.sub(r"\1", source, count=1)


def list_url(url: str) -> RemoteFolder:
    """Return what lies directly in a folder, in the order of names."""
    system, path = _open_system(url)
    folder = f"{path.rstrip('/')}/"
    with errors_explained(url):
        entries = system.ls(folder if _is_web(url) else path, detail=True)
    files, folders = [], []
    for entry in entries:
        # A page of the web may link anywhere; what is not below it is not in it.
        name = str(entry["name"]).removeprefix(folder)
        if name == entry["name"] or not name.strip("/") or "/" in name.rstrip("/"):
            continue
        place = f"{url.rstrip('/')}/{name.rstrip('/')}"
        if is_hidden(name):
            continue
        if entry["type"] == "directory":
            folders.append(place)
        else:
            files.append(RemoteFile(place, entry.get("size"), _version(entry)))
    if not files and not folders and not _is_web(url) and not system.exists(path):
        raise DataError(f"{url} does not exist; name a file or folder that does")
    return RemoteFolder(sorted(files, key=lambda file: file.url), sorted(folders))


def pictures_of(url: str, left_out: Counter[str]) -> Iterator[RemoteFile]:
    """Yield the pictures below a folder, folder by folder, as they are asked for.

    Files come before what is in folders, as in a folder of this machine.
    """
    folders = [url.rstrip("/")]
    while folders:
        found = list_url(folders.pop())
        for file in found.files:
            ending = ending_of(file.url)
            if ending in ENDINGS:
                yield file
            else:
                left_out[ending or NO_ENDING] += 1
        folders += reversed(found.folders)


def described(url: str) -> RemoteFile:
    """Return what the store tells of one file."""
    system, path = _open_system(url)
    with errors_explained(url):
        info = system.info(path)
    return RemoteFile(url, info.get("size"), _version(info))


def read_remote(file: RemoteFile) -> bytes | str:
    """Return the content of a picture, or why it is not read."""
    reason = too_long(file.size or 0)
    if reason is not None:
        return reason
    try:
        with open_url(file.url, whole=True) as opened:
            content = _read_up_to(opened.file, MOST_PICTURE_BYTES + 1)
    except DataError as error:
        return str(error)
    return too_long(len(content)) or content


@contextmanager
def open_url(url: str, *, whole: bool = False, from_the_start: bool = True) -> Iterator[OpenFile]:
    """Yield a file behind a URL.

    Who reads it from the start does so in one request of the web, and in blocks from elsewhere.
    `whole` asks for all of it at once.
    """
    system, path = _open_system(url)
    streamed = _is_web(url) and from_the_start
    options: dict[str, Any] = {"block_size": 0 if streamed else BLOCK}
    if whole and not streamed:
        options["cache_type"] = "none"
    with errors_explained(url):
        info = system.info(path)
        with system.open(path, "rb", **options) as file:
            size = int(info.get("size") or 0)
            yield OpenFile(file, size, _version(info), not streamed)


@contextmanager
def errors_explained(url: str) -> Iterator[None]:
    """Turn whatever a store's library raises into a DataError of one line.

    A list of what they raise would never be complete: each store has exceptions of its own.
    """
    try:
        yield
    except OddOneError:
        raise
    except FileNotFoundError as error:
        raise DataError(f"{url} does not exist; name a file or folder that does") from error
    except Exception as error:
        what = " ".join(str(error).split())[:LONGEST_REASON] or type(error).__name__
        raise DataError(
            f"cannot read {url}: {what}; check the address, and that you may read it"
        ) from error


def _read_up_to(file: ByteStream, most: int) -> bytes:
    """Return what is in a file, but no more bytes than that; a stream gives them in parts."""
    content = b""
    while len(content) < most and (part := file.read(most - len(content))):
        content = content + part if content else part
    return content


@cache
def _file_system(protocol: str) -> Any:
    import fsspec  # noqa: PLC0415, slow to import

    options: dict[str, Any] = {}
    if protocol in _WEB:
        timeout = _aiohttp().ClientTimeout(
            total=None, sock_connect=CONNECT_SECONDS, sock_read=READ_SECONDS
        )
        options["client_kwargs"] = {"timeout": timeout}
    return fsspec.filesystem(protocol, **options)


def _aiohttp() -> Any:
    try:
        import aiohttp  # noqa: PLC0415  (an extra)
    except ImportError as error:
        raise DataError(
            "http:// needs a package that is not here: pip install 'oddone[remote]'"
        ) from error
    return aiohttp


def _open_system(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it."""
    protocol = url.partition("://")[0]
    try:
        system = _file_system(protocol)
        return system, system._strip_protocol(url)  # noqa: SLF001, as fsspec's own functions do
    except OddOneError:
        raise
    except ImportError as error:  # fsspec says which package
        package = re.search(r"[Ii]nstall (?:the )?([\w-]+)", str(error))
        name = package[1] if package else protocol
        raise DataError(f"{url} needs a package that is not here: pip install {name}") from error
    except ValueError as error:
        raise DataError(
            f"nobody here knows {protocol}:// in {url}; write s3://, gs://, http:// or a path"
        ) from error


def _is_web(url: str) -> bool:
    return url.partition("://")[0] in _WEB


def _version(info: dict[str, Any]) -> str:
    """Return what changes with the content of a file, under any of the names that stores use."""
    names = ("ETag", "etag", "md5Hash", "Content-MD5", "Digest", "LastModified", "Last-Modified")
    found = [
        info[name]
        for name in (*names, "last_modified", "updated", "mtime", "created")
        if info.get(name) is not None
    ]
    return str(found[0]) if found else ""


def name_in(url: str) -> str:
    """Return the last part of a URL, for people."""
    return unquote(url.rstrip("/").rpartition("/")[2])
