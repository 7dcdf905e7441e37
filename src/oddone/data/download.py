"""The official files of CIFAR-10, CIFAR-100 and SVHN, from their authors' own hosts.

A file is written as NAME.part, continued where an earlier attempt ended, and gets its name only
once its checksum is right: a file that is there is whole.
"""

import hashlib
import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from oddone.errors import DataError

Name = Literal["cifar10", "cifar100", "svhn"]
Progress = Callable[[int, int, str], None]
"""Told the bytes there are, the bytes there will be (0: unknown) and of which file."""

RETRIES = 3
PAUSE_SECONDS = 1.0
TIMEOUT_SECONDS = 30.0
CHUNK_BYTES = 2**18
LARGEST_BYTES = 10**9


class OfficialFile(NamedTuple):
    """A file as its authors publish it."""

    url: str
    md5: str

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]


OFFICIAL: dict[str, tuple[OfficialFile, ...]] = {
    "cifar10": (
        OfficialFile(
            "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
            "c58f30108f718f92721af3b95e74349a",
        ),
    ),
    "cifar100": (
        OfficialFile(
            "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
            "eb9058c3a382ffc7106e4002c42a8d85",
        ),
    ),
    "svhn": (
        OfficialFile(
            "http://ufldl.stanford.edu/housenumbers/train_32x32.mat",
            "e26dedcc434d2e4c54c9b2d4a06d8373",
        ),
        OfficialFile(
            "http://ufldl.stanford.edu/housenumbers/test_32x32.mat",
            "eb5a983be6a315427106f1b164d9cef3",
        ),
    ),
}


def get(
    name: Name,
    folder: Path,
    *,
    progress: Progress | None = None,
    base_urls: Mapping[str, str] | None = None,
) -> tuple[Path, ...]:
    """Return the official files of a dataset in the folder, downloaded where they are missing.

    `base_urls` names, by dataset, where else to ask for the files (a mirror); the checksums hold.
    """
    if name not in OFFICIAL:
        raise DataError(f"{name!r} cannot be downloaded; choose {', '.join(OFFICIAL)}")
    base_url = (base_urls or {}).get(name)
    return tuple(
        fetch(official, folder, progress=progress, base_url=base_url) for official in OFFICIAL[name]
    )


def fetch(
    official: OfficialFile,
    folder: Path,
    *,
    progress: Progress | None = None,
    base_url: str | None = None,
) -> Path:
    """Return where the file is in the folder, downloaded unless it is there and whole."""
    target = folder / official.name
    if target.is_file() and _md5(target) == official.md5:
        return target
    url = official.url if base_url is None else f"{base_url.rstrip('/')}/{official.name}"
    if urlsplit(url).scheme not in {"http", "https"}:
        raise DataError(f"{url}: only http and https are fetched; give such an address")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_write(folder, error) from error
    part = target.with_name(f"{target.name}.part")
    _download(_Request(official, url, folder, progress), part)
    md5 = _md5(part)
    if md5 != official.md5:
        part.unlink()
        raise DataError(
            f"{url} has the md5 {md5} and should have {official.md5}; what came was deleted: run "
            f"the command again, and if it stays wrong, tell the host's owner"
        )
    part.replace(target)
    return target


class _Request(NamedTuple):
    """One file on its way into a folder."""

    official: OfficialFile
    url: str
    folder: Path
    progress: Progress | None


class _CutError(Exception):
    """The connection ended before the file did."""


class _UnreachableError(_CutError):
    """There was no connection at all."""


def _download(request: _Request, part: Path) -> None:
    """Return once all of the part is there, asking again where it is cut."""
    for attempt in range(1 + RETRIES):
        if attempt:
            time.sleep(PAUSE_SECONDS * 2 ** (attempt - 1))
        try:
            _continue(request, part)
        except _CutError as error:
            if attempt == 0 and isinstance(error, _UnreachableError):
                raise _by_hand(request, str(error)) from error
            reason = str(error)
        else:
            return
    raise DataError(
        f"{request.url}: the connection was cut {1 + RETRIES} times ({reason}) and "
        f"{part.stat().st_size:,} bytes are kept in {part}; run the command again to go on there"
    )


def _continue(request: _Request, part: Path) -> None:
    """Return after the rest of the file was added to the part."""
    start = part.stat().st_size if part.exists() else 0
    try:
        response = _ask(request.url, start)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and start:
            return  # nothing is missing
        raise _by_hand(request, f"it answers {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException) as error:
        raise _UnreachableError(_reason(error)) from error
    with response:
        continued = start and response.status == HTTPStatus.PARTIAL_CONTENT
        _write(request, part, response, start=start if continued else 0)


def _ask(url: str, start: int) -> http.client.HTTPResponse:
    """Return the answer to a request for the file from the byte `start` on."""
    # Without the handlers of `urlopen` for files and FTP, no redirection leads there either.
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPRedirectHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPErrorProcessor,
        urllib.request.UnknownHandler,
    ):
        opener.add_handler(handler())
    headers = {"User-Agent": "oddone"} | ({"Range": f"bytes={start}-"} if start else {})
    request = urllib.request.Request(url, headers=headers)  # noqa: S310  # `fetch` saw the scheme
    response: http.client.HTTPResponse = opener.open(request, timeout=TIMEOUT_SECONDS)
    return response


def _write(
    request: _Request, part: Path, response: http.client.HTTPResponse, *, start: int
) -> None:
    """Return after the response was written to the part, from the byte `start` on."""
    length = response.headers["Content-Length"] or ""
    total = start + int(length) if length.isdigit() else 0
    _check_size(request.url, total)
    done = start
    try:
        with part.open("ab" if start else "wb") as file:
            while chunk := _read(response):
                file.write(chunk)
                done += len(chunk)
                _check_size(request.url, done)
                if request.progress is not None:
                    request.progress(done, total, request.official.name)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:  # not the connection's: `_read` has its own
        raise _cannot_write(part, error) from error
    if done < total:
        raise _CutError(f"{done:,} of {total:,} bytes arrived")


def _read(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read(CHUNK_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise _CutError(_reason(error)) from error


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, partial(hashlib.md5, usedforsecurity=False)).hexdigest()


def _check_size(url: str, size: int) -> None:
    if size > LARGEST_BYTES:
        raise DataError(
            f"{url} wants to send {size:,} bytes and no official file has over "
            f"{LARGEST_BYTES:,}; check the address"
        )


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", error)) or type(error).__name__


def _cannot_write(path: Path, error: OSError) -> DataError:
    return DataError(f"{path} cannot be written ({error.strerror}); choose another folder")


def _by_hand(request: _Request, reason: str) -> DataError:
    official = request.official
    return DataError(
        f"{request.url} cannot be downloaded ({reason}); get {official.name}, published at "
        f"{official.url} (md5 {official.md5}), some other way, put it into {request.folder} and "
        f"run the command again"
    )
