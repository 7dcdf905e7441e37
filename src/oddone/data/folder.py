"""Folders of picture files: one subfolder for each class, or all without labels."""

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from pathlib import Path
from statistics import median

from oddone.data.cache import ListedFile, Listing, load_or_decode
from oddone.data.decode import ENDINGS, shorter_side, without_warnings
from oddone.data.image_set import BrokenFile, ImageSet
from oddone.errors import DataError
from oddone.progress import Progress

SIZES = (224, 128, 64, 32)  # in pixels; the largest that fits most pictures is chosen
SAMPLE = 200  # picture files whose size is looked at for that
NAMES_SHOWN = 5  # in an error message


def read_labelled_folder(
    root: Path, *, size: int | None = None, strict: bool = False, progress: Progress | None = None
) -> ImageSet:
    """Return the images below each subfolder of the root, whose name is the name of the class."""
    names = class_folders(root)
    if not names:
        raise DataError(
            f"{root} has no class folders (found: {describe_contents(root)}); make one folder for "
            f"each class, or read all images without labels as flat:{root}"
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
                f"{describe_contents(root / name)}); add images or remove the folder"
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
    """Return all images below the root, without labels."""
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
    """Return the listed images; with `strict`, a file that cannot be read is an error."""
    size = _choose_size(listing) if size is None else size
    image_set = load_or_decode(listing, size, progress)
    if strict and image_set.broken:
        raise _broken_files(image_set.broken, listing.root)
    return image_set


def pictures_below(root: Path) -> list[str]:
    """Return the paths of all picture files below the root (by their endings), in fixed order."""
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
    """Append the files, given by name and label, to `files`; append missing ones to `skipped`."""
    for name, label in labelled:
        status = stat_or_reason(root / name)
        if isinstance(status, str):
            skipped.append(BrokenFile(str(root / name), status))
        else:
            files.append(ListedFile(name, label, status.st_size, status.st_mtime_ns))


def stat_or_reason(path: Path) -> os.stat_result | str:
    """Return size and times of a file, or the reason why it cannot be opened."""
    try:
        status = path.stat()
    except OSError as error:  # a broken link, or a folder that we may not enter
        return (error.strerror or str(error)).lower()
    if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait for ever
        return "not a regular file"
    return status


def class_folders(root: Path) -> tuple[str, ...]:
    """Return the names of the folders in the root that are not hidden, sorted."""
    return tuple(entry.name for entry in _visible(root) if _is_folder(entry))


def loose_images(root: Path) -> tuple[str, ...]:
    """Return the names of the picture files directly in the root, sorted."""
    return tuple(
        entry.name for entry in _visible(root) if _is_image(entry.name) and not _is_folder(entry)
    )


def describe_contents(folder: Path) -> str:
    """Return the names of the first few files and folders in it, for an error message."""
    names = [entry.name + "/" * _is_folder(entry) for entry in _visible(folder)]
    if not names:
        return "nothing"
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more


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
    """Return whether it is a folder or a link to one. DirEntry.is_dir fails for a looping link."""
    if entry.is_symlink():
        return Path(entry.path).is_dir()
    return entry.is_dir()


def _is_image(name: str) -> bool:
    return os.path.splitext(name)[1].lower() in ENDINGS  # noqa: PTH122, a Path for each file is slow


def _names_below(root: Path, start: str) -> Iterator[str]:
    """Yield the relative paths of picture files below a folder of the root, in fixed order.

    Links to folders are followed, but no folder is entered twice, so a loop of links ends.
    """
    folders, entered = [start], set()
    while folders:
        folder = folders.pop()
        identity = (root / folder).stat()  # of the target, if it is a link
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
        f"no images below {root} (found: {describe_contents(root)}); "
        f"choose a folder with files such as .jpg or .png"
    )


def _choose_size(listing: Listing) -> int:
    """Return the largest of `SIZES` to which half of the pictures in a sample need no enlarging."""
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
                f"class {name!r} has no image that can be read: {_name_some(broken, root)}; "
                f"replace its images or remove the folder"
            )


def _broken_files(broken: Sequence[BrokenFile], root: Path) -> DataError:
    files = "1 file" if len(broken) == 1 else f"{len(broken)} files"
    return DataError(
        f"{files} of {root} cannot be read: {_name_some(broken, root)}; "
        f"repair or remove them, or go on without them by leaving out strict"
    )


def _name_some(broken: Sequence[BrokenFile], root: Path) -> str:
    """Return the names of the first few broken files, with the reasons."""
    shown = [
        f"{file.path.removeprefix(f'{root}{os.sep}')} ({file.reason})"
        for file in broken[:NAMES_SHOWN]
    ]
    more = f" and {len(broken) - NAMES_SHOWN} more" if len(broken) > NAMES_SHOWN else ""
    return ", ".join(shown) + more
