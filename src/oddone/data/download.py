"""The official files of CIFAR-10, CIFAR-100 and SVHN, from their authors' own hosts.

pooch downloads into a temporary file in the same folder and renames it once its checksum is right:
an interrupted download leaves no file that looks complete.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import pooch
import requests

from oddone.errors import DataError
from oddone.progress import Progress

Name = Literal["cifar10", "cifar100", "svhn"]

RETRIES = 2
TIMEOUT_SECONDS = 30.0
CHUNK_BYTES = 2**18
HEADERS = {"User-Agent": "oddone", "Accept-Encoding": "identity"}
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


def get(name: Name, folder: Path, *, progress: Progress | None = None) -> tuple[Path, ...]:
    """Return the official files of a dataset in the folder, downloaded where they are missing."""
    if name not in OFFICIAL:
        raise DataError(f"{name!r} cannot be downloaded; choose {', '.join(OFFICIAL)}")
    return tuple(fetch(official, folder, progress=progress) for official in OFFICIAL[name])


def fetch(official: OfficialFile, folder: Path, *, progress: Progress | None = None) -> Path:
    """Return where the file is in the folder, downloaded unless it is there and whole."""
    name, md5 = official.name, official.md5
    files = pooch.create(
        path=folder.absolute(),  # pooch would read a relative "~" as the home folder
        base_url=official.url.removesuffix(name),
        registry={name: f"md5:{md5}"},
        retry_if_failed=RETRIES,
    )
    try:
        with _quiet_pooch():
            files.fetch(name, downloader=partial(_download, name=name, progress=progress))
    except (OSError, ValueError) as error:  # network and disk; checksum
        raise DataError(
            f"{official.url} cannot be downloaded to {folder} ({_reason(error)}); try again, "
            f"choose another folder, or get {name} (md5 {md5}) some other way and put it there"
        ) from error
    return folder / name


def _download(url: str, path: str, _: pooch.Pooch, *, name: str, progress: Progress | None) -> None:
    """Write what is at the address to the path: pooch's temporary file."""
    # Whoever may read the folder may read the file; pooch makes it for its owner only.
    Path(path).chmod(0o600 | Path(path).parent.stat().st_mode & 0o044)
    with (
        requests.get(url, headers=HEADERS, stream=True, timeout=TIMEOUT_SECONDS) as response,
        Path(path).open("wb") as file,
    ):
        response.raise_for_status()
        # Some hosts call a .tar.gz a gzip-encoded .tar, and requests would unpack it.
        response.raw.headers.pop("Content-Encoding", None)
        done, total = 0, response.raw.length_remaining or 0
        _check_size(total)
        for chunk in response.iter_content(CHUNK_BYTES):
            done += len(chunk)
            _check_size(done)
            file.write(chunk)
            if progress is not None:
                progress(done, total, name)


def _check_size(size: int) -> None:
    if size > LARGEST_BYTES:  # not a ValueError: pooch would try again
        raise OSError(f"it sends {size:,} bytes and no official file has over {LARGEST_BYTES:,}")


@contextmanager
def _quiet_pooch() -> Iterator[None]:
    """Keep pooch's log, which it writes to the terminal, out of our progress bar."""
    log = pooch.get_logger()
    before = log.disabled
    log.disabled = True  # `setLevel` would not do: this logger remembers what it let through
    try:
        yield
    finally:
        log.disabled = before


def _reason(error: BaseException) -> str:
    """Return the innermost reason: requests wraps "Connection refused" in three other errors."""
    inner = error.__cause__ or next(
        (each for each in error.args if isinstance(each, Exception)), None
    )
    return _reason(inner) if inner else str(error) or type(error).__name__
