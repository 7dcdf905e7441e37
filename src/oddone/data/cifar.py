"""CIFAR-10 and CIFAR-100 from their official Python files, extracted or in the archive.

The files are pickles, and loading a pickle can run any program. So they are read without an
unpickler (`oddone.data.pickled_dict`).
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np

from oddone.data.arrays import image_set
from oddone.data.image_set import ImageSet, SplitName
from oddone.data.pickled_dict import PickledArray, read_pickled_dict
from oddone.data.tar_file import open_archive
from oddone.errors import DataError

MOST_BYTES = 256 * 2**20  # the files of the largest official split have 155 MB
MEMBERS_SEEN = 4  # of an archive, to tell which data set it is
LONGEST_NAME = 200  # characters in the name of a class
PIXELS = 3 * 32 * 32


class Edition(NamedTuple):
    """One of the two data sets: the names of its files, and of the entries in them."""

    scheme: str
    folder: str
    archive: str
    files: dict[SplitName, tuple[str, ...]]
    labels: str
    """The entry with the labels."""
    meta: str
    """The file with the class names."""
    names: str
    """The entry of that file with the class names."""
    classes: tuple[str, ...]
    """The class names to use if that file is missing."""


CIFAR10 = Edition(
    scheme="cifar10",
    folder="cifar-10-batches-py",
    archive="cifar-10-python.tar.gz",
    files={
        "train": tuple(f"data_batch_{i}" for i in range(1, 6)),
        "test": ("test_batch",),
    },
    labels="labels",
    meta="batches.meta",
    names="label_names",
    classes=(
        "airplane",
        "automobile",
        "bird",
        "cat",
        "deer",
        "dog",
        "frog",
        "horse",
        "ship",
        "truck",
    ),
)
CIFAR100 = Edition(
    scheme="cifar100",
    folder="cifar-100-python",
    archive="cifar-100-python.tar.gz",
    files={"train": ("train",), "test": ("test",)},
    labels="fine_labels",
    meta="meta",
    names="fine_label_names",
    classes=tuple(str(label) for label in range(100)),
)


def read_cifar10(path: Path, split: SplitName = "train") -> ImageSet:
    """Return CIFAR-10 from its folder, from the parent of that folder, or from the .tar.gz."""
    return _read(CIFAR10, path, split)


def read_cifar100(path: Path, split: SplitName = "train") -> ImageSet:
    """Return CIFAR-100 with its 100 fine labels, from the same places as CIFAR-10."""
    return _read(CIFAR100, path, split)


def editions_in(path: Path) -> list[Edition]:
    """Return which of the two data sets a folder or archive seems to contain."""
    return [edition for edition in (CIFAR10, CIFAR100) if _seems_to_be(edition, path)]


def _seems_to_be(edition: Edition, path: Path) -> bool:
    if path.is_file():
        return edition.folder in _top_folders(path)
    if (path / edition.folder).is_dir() or (path / edition.archive).is_file():
        return True
    # "train" and "test" are the names of files here; elsewhere they are common names of folders.
    return (path / edition.meta).is_file() or any(
        (path / name).is_file() and not (path / name).suffix
        for names in edition.files.values()
        for name in names
    )


def _read(edition: Edition, path: Path, split: SplitName) -> ImageSet:
    wanted = edition.files[split]
    held = _read_files(edition, path, (*wanted, edition.meta))
    missing = [name for name in wanted if name not in held]
    if missing:
        raise _missing(edition, path, split, missing)
    classes = edition.classes
    if edition.meta in held:
        classes = _parse_class_names(edition, held[edition.meta], f"{edition.meta} of {path}")
    batches = [
        _parse_batch(edition, held[name], len(classes), f"{name} of {path}") for name in wanted
    ]
    images = np.concatenate([batch.images for batch in batches])
    labels = np.concatenate([batch.labels for batch in batches])
    return image_set(images, labels, classes, f"{edition.scheme}:{path}#{split}")


def _read_files(edition: Edition, path: Path, wanted: Iterable[str]) -> dict[str, bytes]:
    """Return the bytes of each wanted file that exists, by its name."""
    if path.is_file():
        return _read_archive(edition, path, set(wanted))
    below = path / edition.folder
    if below.is_dir():
        path = below
    elif (path / edition.archive).is_file():
        return _read_archive(edition, path / edition.archive, set(wanted))
    held: dict[str, bytes] = {}
    for name in wanted:
        file = path / name
        if file.is_file():
            size = file.stat().st_size
            _check_bytes(held, size, str(file))
            with file.open("rb") as stream:
                held[name] = stream.read(size)  # Python makes room for all that it is asked for
    return held


def _read_archive(edition: Edition, path: Path, wanted: set[str]) -> dict[str, bytes]:
    """Return the bytes of the wanted files in the archive. Nothing is extracted to disk."""
    held: dict[str, bytes] = {}
    with open_archive(path) as archive:
        for member in archive:
            place = PurePosixPath(member.name)
            known = place.parent == PurePosixPath(edition.folder) and place.name in wanted
            if known and member.is_file:
                _check_bytes(held, member.size, f"{member.name} in {path}")
                held[place.name] = archive.content(member)
            if len(held) == len(wanted):
                break
        archive.check_end()
    return held


def _top_folders(path: Path) -> set[str]:
    """Return the top folders of the first members of an archive."""
    with open_archive(path) as archive:
        members = [PurePosixPath(member.name) for member in islice(archive, MEMBERS_SEEN)]
    return {place.parts[0] for place in members if place.parts}


def _check_bytes(held: Mapping[str, bytes], size: int, name: str) -> None:
    """Raise a DataError if a file would make all files of a split larger than CIFAR's are."""
    size += sum(len(content) for content in held.values())
    if size > MOST_BYTES:
        raise DataError(
            f"with {name} there are {size // 2**20} MB, more than the {MOST_BYTES // 2**20} MB "
            f"that any split of CIFAR could have; get it from its authors"
        )


def _missing(edition: Edition, path: Path, split: SplitName, missing: list[str]) -> DataError:
    other: SplitName = "test" if split == "train" else "train"
    others = edition.files[other]
    if len(_read_files(edition, path, others)) == len(others):
        advice = f"read the {other} images as {edition.scheme}:{path}#{other}"
    else:
        advice = f"give the folder {edition.folder} or {edition.archive}"
    return DataError(
        f"{path} has no {', '.join(missing)}, which the {split} images of "
        f"{edition.scheme} are in; {advice}"
    )


class _CifarFile(NamedTuple):
    images: np.ndarray
    labels: np.ndarray


def _parse_batch(edition: Edition, content: bytes, classes: int, name: str) -> _CifarFile:
    held = read_pickled_dict(content, name)
    array, labels = held.get("data"), held.get(edition.labels)
    pixels = array.pixels(PIXELS) if isinstance(array, PickledArray) else None
    if pixels is None:
        raise DataError(
            f"{name} has no `data` of uint8 in rows of {PIXELS}; get it from its authors"
        )
    if not isinstance(labels, list) or len(labels) != len(pixels):
        raise DataError(
            f"{name} has no list `{edition.labels}` of {len(pixels)} numbers; "
            f"is it of another CIFAR? get it from its authors"
        )
    outside = [label for label in labels if type(label) is not int or not 0 <= label < classes]
    if outside:
        raise DataError(
            f"{name} holds the label {_shown(outside[0])}, which is not one of 0 to {classes - 1}; "
            f"get it from its authors"
        )
    return _CifarFile(pixels.reshape(-1, 3, 32, 32), np.array(labels, dtype=np.int64))


def _parse_class_names(edition: Edition, content: bytes, name: str) -> tuple[str, ...]:
    names = read_pickled_dict(content, name).get(edition.names)
    if (
        not isinstance(names, list)
        or len(names) != len(edition.classes)
        or not all(isinstance(each, str) and len(each) <= LONGEST_NAME for each in names)
    ):
        raise DataError(
            f"{name} has no list `{edition.names}` of {len(edition.classes)} names; "
            f"remove the file or get it from its authors"
        )
    return tuple(names)


def _shown(label: object) -> str:
    """Return a label for a message; in a file of somebody else it may be anything."""
    if isinstance(label, str):
        return repr(label[:40])
    return repr(label) if isinstance(label, int | float) else type(label).__name__
