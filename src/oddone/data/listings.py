"""The pictures of tars, Parquet files and folders behind URLs, listed with their labels."""

import hashlib
import re
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from oddone.data.arrays import encode_labels
from oddone.data.cache import ListedFile, Listing
from oddone.data.decode import in_parallel
from oddone.data.image_set import BrokenFile
from oddone.data.packed import PackedLabel, PackedPicture, open_place
from oddone.data.parquet_file import list_parquet, read_parquet
from oddone.data.readable import FAR_THREADS, Readable
from oddone.data.remote import RemoteFile, described, is_url, list_url, pictures_of
from oddone.data.tar_shard import list_tar, read_tar
from oddone.errors import DataError

TAR_ENDINGS = (".tar", ".tar.gz", ".tgz")
PACKED = {"tar": TAR_ENDINGS, "parquet": (".parquet",)}
"""The schemes of files that hold many pictures, and how their names end."""
_LISTERS = {"tar": list_tar, "parquet": list_parquet}


def packed_scheme(name: str) -> str | None:
    """Return the scheme of a file by the end of its name, if it holds many pictures."""
    lower = name.lower()
    return next((scheme for scheme, ends in PACKED.items() if lower.endswith(ends)), None)


def packed_files(scheme: str, place: str) -> list[str]:
    """Return the file at a place, or those that lie in a folder there, in the order of names."""
    if is_url(place):
        if packed_scheme(place) == scheme:
            return [place]
        found = [file.url for file in list_url(place).files if packed_scheme(file.url) == scheme]
    elif not Path(place).is_dir():
        return [place]
    else:
        below = sorted(Path(place).iterdir(), key=lambda path: path.name)
        found = [str(path) for path in below if packed_scheme(path.name) == scheme]
        found = [path for path in found if not Path(path).name.startswith(".")]
    if not found:
        endings = " or ".join(PACKED[scheme])
        raise DataError(f"{place} holds no {endings} files; name a file, or a folder of them")
    return found


def read_packed(scheme: str, place: str) -> Iterator[PackedPicture]:
    """Yield the pictures of a tar or a Parquet file."""
    return read_tar(place) if scheme == "tar" else read_parquet(place)


def list_packed(scheme: str, place: str) -> Listing:
    """Return the pictures of tars or Parquet files with their labels, before they are decoded."""
    places = packed_files(scheme, place)
    found: list[PackedLabel] = []
    versions: list[str] = []
    times: list[int] = []
    for each in places:
        try:
            with open_place(each, from_the_start=False) as opened:
                versions.append(opened.version or secrets.token_hex(8))
            pictures = list(_LISTERS[scheme](each))
            found += pictures
            changed = _number(versions[-1]) if is_url(each) else Path(each).stat().st_mtime_ns
            times += [changed] * len(pictures)
        except OSError as error:
            raise DataError(
                f"cannot read {each}: {error.strerror or error}; name files that you may read"
            ) from error
    if not found:
        raise DataError(f"{place} holds no pictures; name a file that does")
    labels, classes = _encode([picture.label for picture in found])
    files = [
        ListedFile(picture.name, label, picture.size, time, (0, 0, 0))
        for picture, label, time in zip(found, labels, times, strict=True)
    ]

    def read() -> Iterator[Readable]:
        return (picture for each in places for picture in read_packed(scheme, each))

    identity = "\n".join(
        f"{each} {version}" for each, version in zip(places, versions, strict=True)
    )
    return Listing(place, tuple(files), classes, read=read, place=identity)


def list_remote(url: str, *, labelled: bool) -> Listing:
    """Return the pictures below a URL; the folders directly below it are their classes."""
    left_out: Counter[str] = Counter()
    pictures: list[RemoteFile] = []
    labels: list[int] = []
    skipped: list[BrokenFile] = []
    classes: list[str] = []
    if labelled:
        top = list_url(url)
        skipped = [BrokenFile(file.url, "lies in no class folder") for file in top.files]
        for folder in top.folders:
            below = list(pictures_of(folder, left_out))
            if below:
                classes.append(folder.rpartition("/")[2])
                pictures += below
                labels += [len(classes) - 1] * len(below)
    else:
        pictures = list(pictures_of(url, left_out))
        labels = [-1] * len(pictures)
    if not pictures:
        where = "class folders" if labelled else "pictures"
        raise DataError(f"{url} has no {where}; name a folder that holds some")
    pictures = list(in_parallel(_with_version, pictures, None, "pictures", FAR_THREADS))
    files = [
        ListedFile(picture.url, label, picture.size or 0, _number(picture.version), (0, 0, 0))
        for picture, label in zip(pictures, labels, strict=True)
    ]
    return Listing(
        url.rstrip("/"),
        tuple(files),
        tuple(classes),
        tuple(skipped),
        left_out,
        read=lambda: pictures,
        place=url,
    )


def _with_version(file: RemoteFile) -> RemoteFile:
    """Return the file with its version, which pages of the web do not list."""
    return file if file.version else described(file.url)


def _number(version: str) -> int:
    """Return a number that changes with the version; of an unknown version, another each time."""
    text = version or secrets.token_hex(8)
    return int(hashlib.sha256(text.encode()).hexdigest()[:12], 16)


def _encode(labels: Sequence[str | int | None]) -> tuple[list[int], tuple[str, ...]]:
    """Return labels as numbers, and the names of the classes; -1 where there is none."""
    known = [label for label in labels if label not in (None, -1, "", "-1")]
    if not known:
        return [-1] * len(labels), ()
    values = _as_numbers(known)
    encoded, classes = encode_labels(np.array(values))
    numbers = iter(encoded.tolist())
    return [-1 if label in (None, -1, "", "-1") else next(numbers) for label in labels], classes


def _as_numbers(labels: Iterable[str | int]) -> list[str] | list[int]:
    """Return the labels as integers if all are, so that 10 comes after 9; otherwise as text."""
    texts = [str(label) for label in labels]
    is_number = all(re.fullmatch(r"[0-9]{1,9}", text) for text in texts)
    return [int(text) for text in texts] if is_number else texts
