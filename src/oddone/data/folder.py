"""Folders of picture files: one subfolder for each class, or all without labels."""

import os
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice, repeat
from pathlib import Path
from statistics import median
from typing import NamedTuple

from oddone.data.cache import ListedFile, Listing, load_or_decode
from oddone.data.decode import shorter_side, without_warnings
from oddone.data.file_tree import (
    NAMES_SHOWN,
    FolderContents,
    class_folders,
    describe_contents,
    look_below,
    look_beside_classes,
    stat_or_reason,
)
from oddone.data.image_set import BrokenFile, ImageSet
from oddone.data.readable import content_of
from oddone.errors import DataError, DataWarning
from oddone.progress import Progress

SIZES = (224, 128, 64, 32)  # in pixels; the largest that fits most pictures is chosen
TRAINING = {"train", "training"}  # what folders of splits are called
TESTING = {"test", "testing", "val", "valid", "validation", "dev", "eval", "evaluation"}
SAMPLE = 200  # picture files whose size is looked at for that
FIRST = 50  # pictures, where each has to be read as a whole


class FolderLook(NamedTuple):
    """What a folder holds, as far as names and the first bytes of some files say."""

    classes: int
    pictures: int
    side: float
    """The median of the shorter sides, in pixels."""


def read_labelled_folder(
    root: Path, *, size: int | None = None, strict: bool = False, progress: Progress | None = None
) -> ImageSet:
    """Return the images below each subfolder of the root, whose name is the name of the class."""
    names = class_folders(root)
    if not names:
        raise DataError(
            f"{root} has no class folders (found: {describe_contents(root)}); make one folder for "
            f"each class (for a detector of one class, a single {root / 'NAME'} around the "
            f"images), or read all images without labels as flat:{root}"
        )
    _check_for_splits(root, names)
    listing = _list_classes(root, names)
    _warn_of_deeper_folders(root, listing)
    image_set = read_listing(listing, size=size, strict=strict, progress=progress)
    check_every_class(image_set, root)
    return image_set


def read_flat_folder(
    root: Path, *, size: int | None = None, strict: bool = False, progress: Progress | None = None
) -> ImageSet:
    """Return all images below the root, without labels."""
    files: list[ListedFile] = []
    contents = look_below(root)
    skipped = list(contents.locked)
    list_files(root, zip(contents.pictures, repeat(-1)), files, skipped)
    if not files:
        raise _no_images(root, skipped)
    listing = Listing(root, tuple(files), (), tuple(skipped), contents.left_out)
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
    """Return the paths of all picture files below the root, in fixed order."""
    contents = look_below(root)
    if not contents.pictures:
        raise _no_images(root, contents.locked)
    return [str(root / name) for name in contents.pictures]


def contents_below(root: Path) -> FolderContents:
    """Return the pictures and locked folders below the root; none at all are a `DataError`."""
    contents = look_below(root)
    if not contents.pictures and not contents.locked:
        raise _no_images(root)
    return contents


def list_files(
    root: Path,
    labelled: Iterable[tuple[str, int]],
    files: list[ListedFile],
    skipped: list[BrokenFile],
) -> None:
    """Append the files, given by name and label, to `files`; append missing ones to `skipped`."""
    for name, label in labelled:
        status = stat_or_reason(os.path.join(root, name))  # noqa: PTH118, as a Path is slow
        if isinstance(status, str):
            skipped.append(BrokenFile(str(root / name), status))
        else:
            identity = (status.st_dev, status.st_ino, status.st_ctime_ns)
            files.append(ListedFile(name, label, status.st_size, status.st_mtime_ns, identity))


def _list_classes(root: Path, names: Sequence[str]) -> Listing:
    """Return the files of each class. A class is left out if its folder cannot be opened."""
    files: list[ListedFile] = []
    beside = look_beside_classes(root)
    skipped = [BrokenFile(str(root / name), "lies in no class folder") for name in beside.pictures]
    left_out = Counter(beside.left_out)
    classes: list[str] = []
    for name in names:
        before = len(files)
        contents = look_below(root, name)
        left_out += contents.left_out
        skipped += contents.locked
        list_files(root, zip(contents.pictures, repeat(len(classes))), files, skipped)
        if len(files) > before:
            classes.append(name)
        elif not contents.locked:
            raise DataError(
                f"class {name!r} has no images (found in {root / name}: "
                f"{describe_contents(root / name)}); add images or remove the folder"
            )
    if not classes:
        raise DataError(
            f"no class folder of {root} can be read: {_name_some(skipped, root)}; "
            f"make them folders you may read"
        )
    return Listing(root, tuple(files), tuple(classes), tuple(skipped), left_out)


def _check_for_splits(root: Path, names: Sequence[str]) -> None:
    """Raise a `DataError` where the folders are the splits of a data set, not its classes.

    A folder "train" alone, with nothing but images in it, may well be the class of trains.
    """
    training = [name for name in names if name.lower() in TRAINING]
    testing = [name for name in names if name.lower() in TESTING]
    splits = [*training, *testing]
    only_splits = len(splits) == len(names) and any(class_folders(root / name) for name in names)
    if not (training and testing) and not only_splits:
        return
    test = "test" if "test" in testing else testing[0] if testing else ""
    serves = f" ({root / test} serves to evaluate)" if training and test else ""
    raise DataError(
        f"the folders of {root} are splits, not classes ({', '.join(splits)}); "
        f"name one of them, such as {root / splits[0]}{serves}"
    )


def _warn_of_deeper_folders(root: Path, listing: Listing) -> None:
    """Warn where the folders in class folders may be the classes: all pictures are in several."""
    below: dict[str, set[str]] = {}
    for file in listing.files:
        name, inner, *rest = file.name.split("/")
        if not rest:
            return
        below.setdefault(name, set()).add(inner)
    if all(len(folders) > 1 for folders in below.values()):
        name, folders = next(iter(below.items()))
        warnings.warn(
            f"the folders in {root} are the classes ({', '.join(sorted(below)[:NAMES_SHOWN])}), "
            f"and all pictures lie deeper, such as in {root / name / min(folders)}; if the classes "
            f"are there, name {root / name}",
            DataWarning,
            stacklevel=4,
        )


def _no_images(root: Path, skipped: Sequence[BrokenFile] = ()) -> DataError:
    reasons = f"; {_name_some(skipped, root)}" if skipped else ""
    return DataError(
        f"no images below {root} (found: {describe_contents(root)}{reasons}); "
        f"choose a folder with files such as .jpg or .png"
    )


def look_at_folder(root: Path) -> FolderLook:
    """Return how many pictures the class folders of the root hold, and how large they are."""
    names = class_folders(root)
    listing = _list_classes(root, names)
    return FolderLook(len(names), len(listing.files), _median_side(listing))


def sizes_up_to(side: float) -> tuple[int, ...]:
    """Return the `SIZES` to which a picture with this shorter side is not enlarged, or the last."""
    return tuple(size for size in SIZES if size <= side) or SIZES[-1:]


def _choose_size(listing: Listing) -> int:
    """Return the largest of `SIZES` to which half of the pictures in a sample need no enlarging."""
    return sizes_up_to(_median_side(listing))[0]


def _median_side(listing: Listing) -> float:
    """Return the median of the shorter sides of a sample of the pictures; 0 if none has any."""
    if listing.read is not None:
        return _median_of_first(listing)
    step = max(1, -(-len(listing.files) // SAMPLE))
    with without_warnings():
        sides = [shorter_side(Path(listing.path_of(file))) for file in listing.files[::step]]
    return float(median([side for side in sides if side is not None] or [0]))


def _median_of_first(listing: Listing) -> float:
    """Return the same of the first pictures, where each has to be read from the start."""
    with without_warnings():
        contents = (content_of(picture) for picture in islice(listing.pictures(), FIRST))
        sides = [shorter_side(content) for content in contents if isinstance(content, bytes)]
    return float(median([side for side in sides if side is not None] or [0]))


def check_every_class(image_set: ImageSet, root: Path | str) -> None:
    """Raise a `DataError` if no image of a class could be read."""
    present = set(image_set.labels.tolist())
    for label, name in enumerate(image_set.classes):
        if label not in present:
            below = os.path.join(root, name, "")  # noqa: PTH118, a URL is no Path
            broken = [file for file in image_set.broken if file.path.startswith(below)]
            raise DataError(
                f"class {name!r} has no image that can be read: {_name_some(broken, root)}; "
                f"replace its images or remove the folder"
            )


def _broken_files(broken: Sequence[BrokenFile], root: Path | str) -> DataError:
    files = "1 file" if len(broken) == 1 else f"{len(broken)} files"
    return DataError(
        f"{files} of {root} cannot be read: {_name_some(broken, root)}; "
        f"repair or remove them, or go on without them by leaving out strict"
    )


def _name_some(broken: Sequence[BrokenFile], root: Path | str) -> str:
    """Return the names of the first few broken files, with the reasons."""
    shown = [
        f"{file.path.removeprefix(f'{root}{os.sep}')} ({file.reason})"
        for file in broken[:NAMES_SHOWN]
    ]
    more = f" and {len(broken) - NAMES_SHOWN} more" if len(broken) > NAMES_SHOWN else ""
    return ", ".join(shown) + more
