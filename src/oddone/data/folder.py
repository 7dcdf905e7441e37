"""Folders of pictures: one subfolder a class, or all without labels."""

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from pathlib import Path
from statistics import median

from oddone.data.cache import ListedFile, Listing, decoded
from oddone.data.decode import ENDINGS, shorter_side, without_warnings
from oddone.data.image_set import BrokenFile, ImageSet
from oddone.errors import DataError
from oddone.progress import Progress

SIZES = (224, 128, 64, 32)
SAMPLE = 200
SHOWN = 5


def read_labelled_folder(
    root: Path, *, size: int | None = None, strict: bool = False, progress: Progress | None = None
) -> ImageSet:
    """Return the pictures below each subfolder of the root, which is named for their class."""
    names = class_folders(root)
    if not names:
        raise DataError(
            f"{root} has no class folders (found: {found_in(root)}); make one folder for each "
            f"class, or read all images without labels as flat:{root}"
        )
    files: list[ListedFile] = []
    skipped = [
        BrokenFile(str(root / name), "lies in no class folder") for name in loose_images(root)
    ]
    for label, name in enumerate(names):
        before = len(files)
        list_files(root, zip(_names_below(root, name), repeat(label)), files, skipped)
        if len(files) == before:
            raise DataError(
                f"class {name!r} has no images (found in {root / name}: "
                f"{found_in(root / name)}); add images or remove the folder"
            )
    if len(names) == 1:
        raise DataError(
            f"{root} has one class only, {names[0]!r} with {len(files)} images, and telling "
            f"classes apart needs two; add a folder for another class, or read all images "
            f"without labels as flat:{root}"
        )
    listing = Listing(root, tuple(files), names, tuple(skipped))
    image_set = read_listing(listing, size=size, strict=strict, progress=progress)
    _check_every_class(image_set, root)
    return image_set


def read_flat_folder(
    root: Path, *, size: int | None = None, strict: bool = False, progress: Progress | None = None
) -> ImageSet:
    """Return all pictures below the root, without labels."""
    files: list[ListedFile] = []
    skipped: list[BrokenFile] = []
    list_files(root, zip(_names_below(root, ""), repeat(-1)), files, skipped)
    if not files:
        raise _no_images(root)
    listing = Listing(root, tuple(files), (), tuple(skipped))
    return read_listing(listing, size=size, strict=strict, progress=progress)


def read_listing(
    listing: Listing, *, size: int | None, strict: bool, progress: Progress | None
) -> ImageSet:
    """Return the listed pictures; with `strict`, one that cannot be read is an error."""
    image_set = decoded(listing, _fitting_size(listing) if size is None else size, progress)
    if strict and image_set.broken:
        raise _broken(image_set.broken, listing.root)
    return image_set


def pictures_below(root: Path) -> list[str]:
    """Return the paths of all files below the root that end like pictures, in a stable order."""
    paths = [str(root / name) for name in _names_below(root, "")]
    if not paths:
        raise _no_images(root)
    return paths


def list_files(
    root: Path,
    labelled: Iterable[tuple[str, int]],
    files: list[ListedFile],
    skipped: list[BrokenFile],
) -> None:
    """Append the named and labelled files, and those that are not there after all."""
    for name, label in labelled:
        status = status_of(root / name)
        if isinstance(status, str):
            skipped.append(BrokenFile(str(root / name), status))
        else:
            files.append(ListedFile(name, label, status.st_size, status.st_mtime_ns))


def status_of(path: Path) -> os.stat_result | str:
    """Return size and times of a file that can be opened, or why it is none."""
    try:
        status = path.stat()
    except OSError as error:  # a link that leads nowhere, or to where we may not look
        return (error.strerror or str(error)).lower()
    if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait for ever
        return "not a regular file"
    return status


def class_folders(root: Path) -> tuple[str, ...]:
    """Return the names of the folders in the root that are not hidden, sorted."""
    return tuple(entry.name for entry in _visible(root) if _is_folder(entry))


def loose_images(root: Path) -> tuple[str, ...]:
    """Return the names of the files in the root that end like pictures, sorted."""
    return tuple(
        entry.name for entry in _visible(root) if _is_image(entry.name) and not _is_folder(entry)
    )


def found_in(folder: Path) -> str:
    """Return the names of a few things in the folder, for a message."""
    names = [entry.name + "/" * _is_folder(entry) for entry in _visible(folder)]
    if not names:
        return "nothing"
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _visible(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            visible = [entry for entry in entries if not entry.name.startswith(".")]
    except OSError as error:
        raise DataError(
            f"cannot look into {folder}: {error.strerror}; make it a folder you may read"
        ) from error
    return sorted(visible, key=lambda entry: entry.name)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Return whether it is or links to a folder; DirEntry.is_dir fails for a link to itself."""
    if entry.is_symlink():
        return Path(entry.path).is_dir()
    return entry.is_dir()


def _is_image(name: str) -> bool:
    return os.path.splitext(name)[1].lower() in ENDINGS  # noqa: PTH122, a Path each is slow


def _names_below(root: Path, start: str) -> Iterator[str]:
    """Yield the relative paths of files that end like pictures, in a stable order.

    Links to folders are followed, but no folder is entered twice, so loops of links end.
    """
    folders, entered = [start], set()
    while folders:
        folder = folders.pop()
        identity = (root / folder).stat()  # of a link, its target's
        if (identity.st_dev, identity.st_ino) in entered:
            continue
        entered.add((identity.st_dev, identity.st_ino))
        below = []
        for entry in _visible(root / folder):
            name = f"{folder}/{entry.name}" if folder else entry.name
            if _is_folder(entry):
                below.append(name)
            elif _is_image(name):
                yield name
        folders += reversed(below)


def _no_images(root: Path) -> DataError:
    return DataError(
        f"no images below {root} (found: {found_in(root)}); "
        f"choose a folder with files such as .jpg or .png"
    )


def _fitting_size(listing: Listing) -> int:
    """Return the largest usual size that half of the pictures, by a sample, need no blowing up."""
    step = max(1, -(-len(listing.files) // SAMPLE))
    with without_warnings():
        sides = [shorter_side(listing.root / file.name) for file in listing.files[::step]]
    middle = median([side for side in sides if side is not None] or [0])
    return next((size for size in SIZES if size <= middle), SIZES[-1])


def _check_every_class(image_set: ImageSet, root: Path) -> None:
    present = set(image_set.labels.tolist())
    for label, name in enumerate(image_set.classes):
        if label not in present:
            below = f"{root / name}{os.sep}"
            broken = [file for file in image_set.broken if file.path.startswith(below)]
            raise DataError(
                f"class {name!r} has no image that can be read: {_listed(broken, root)}; "
                f"replace its images or remove the folder"
            )


def _broken(broken: Sequence[BrokenFile], root: Path) -> DataError:
    files = "1 file" if len(broken) == 1 else f"{len(broken)} files"
    return DataError(
        f"{files} of {root} cannot be read: {_listed(broken, root)}; "
        f"repair or remove them, or go on without them by leaving out strict"
    )


def _listed(broken: Sequence[BrokenFile], root: Path) -> str:
    shown = [
        f"{file.path.removeprefix(f'{root}{os.sep}')} ({file.reason})" for file in broken[:SHOWN]
    ]
    more = f" and {len(broken) - SHOWN} more" if len(broken) > SHOWN else ""
    return ", ".join(shown) + more
