"""Load images by a notation such as `cifar10:PATH#test`, `folder:PATH`, or just `PATH`."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, cast

from oddone.data.arrays import read_arrays, resize_images
from oddone.data.cache import Listing
from oddone.data.cifar import read_cifar10, read_cifar100
from oddone.data.fashion import read_fashion
from oddone.data.file_tree import (
    describe_contents,
)
from oddone.data.folder import (
    FolderLook,
    check_every_class,
    look_at_folder,
    read_flat_folder,
    read_labelled_folder,
    read_listing,
)
from oddone.data.formats import ENDINGS
from oddone.data.idx import read_idx
from oddone.data.image_set import ImageSet, SplitName
from oddone.data.imglist import read_imglist
from oddone.data.listings import PACKED, list_packed, list_remote
from oddone.data.possible_schemes import guess_scheme_of_url, possible_schemes
from oddone.data.remote import is_url, without_file_scheme
from oddone.data.svhn import read_svhn
from oddone.errors import DataError, SettingsError, closest_match
from oddone.progress import Progress

EMBEDDED = ("fashion", "digits")
"""The schemes that need no path."""
REMOTE = ("folder", "flat", *PACKED)
"""The schemes of what may lie behind a URL."""
DETECTOR_ENDING = ".oddone"
LARGEST_SIZE = 10_000
"""Of a side, in pixels: a single image of it takes 300 MB."""


class Request(NamedTuple):
    """A source in its parts, such as svhn, PATH and test, and how to load it."""

    scheme: str
    place: str
    """What follows the scheme: a path or URL, except for "fashion" and "imglist"."""
    split: SplitName | None
    size: int | None = None
    strict: bool = False
    progress: Progress | None = None

    @property
    def path(self) -> Path:
        return _path(self.place)

    @property
    def is_remote(self) -> bool:
        return is_url(self.place)

    @property
    def list_and_root(self) -> tuple[Path, Path]:
        """The path of an image list, and the folder that the names in it are relative to."""
        path, mark, root = self.place.rpartition("@")
        if not mark or self.path.exists():  # a path may have an @ in it
            return self.path, self.path.parent
        return _path(path), _path(root)


class Scheme(NamedTuple):
    """How to read a kind of source, and what `oddone data list` says of it."""

    read: Callable[[Request], ImageSet]
    """Picture files are decoded at the size of the request. Arrays keep their own size."""
    notation: str
    description: str
    has_splits: bool = False


class SourceDescription(NamedTuple):
    """A way to name images, and what it means."""

    notation: str
    description: str


def load(
    source: str,
    *,
    size: int | None = None,
    strict: bool = False,
    progress: Progress | None = None,
) -> ImageSet:
    """Return the images of the source, all of one size.

    Parameters
    ----------
    source
        Such as `photos/` or `cifar10:DIR#test`; `oddone data list` shows every notation.
    size
        Height and width. By default arrays keep their own size, and a folder gets the largest of
        32, 64, 128 and 224 pixels that fits most of its pictures.
    strict
        Whether a file that cannot be read is an error; otherwise it is listed in `broken`.
    progress
        Called with how many images are done.

    Examples
    --------
    >>> import oddone
    >>> images = oddone.load("fashion:unseen#test")
    >>> images.images.shape, images.classes
    ((400, 3, 28, 28), ('sneaker', 'bag'))

    """
    check_size(size)
    request = parse(source, guess_scheme)._replace(size=size, strict=strict, progress=progress)
    return resize_images(read_request(request), size, progress)


def read_request(request: Request) -> ImageSet:
    """Return the images of a source; that its files cannot be read is a `DataError`."""
    try:
        return SCHEMES[request.scheme].read(request)
    except OSError as error:
        raise DataError(
            f"cannot read {request.scheme}:{request.place}: {error.strerror or error}; name files "
            f"that you may read"
        ) from error


def look(source: str) -> FolderLook | None:
    """Return what is quickly seen of a folder of labelled pictures; None for any other source.

    A source that cannot be read is None too: `load` says what is wrong with it.
    """
    try:
        request = parse(source, guess_scheme)
        is_local_folder = request.scheme == "folder" and not request.is_remote
        return look_at_folder(request.path) if is_local_folder else None
    except DataError:
        return None


def describe_sources() -> list[SourceDescription]:
    """Return every way to name images, with what it means."""
    plain = SourceDescription("PATH", "any of these, guessed from what the path holds")
    remote = SourceDescription(
        "URL", "a folder, a tar or a Parquet file behind s3://, gs://, http://, file:// and others"
    )
    return [
        *(SourceDescription(s.notation, s.description) for s in SCHEMES.values()),
        plain,
        remote,
    ]


def check_size(size: int | None) -> None:
    """Raise a `SettingsError` if no image can have such a size."""
    if size is not None and size < 1:
        raise SettingsError(f"size={size}: images need at least 1 pixel")
    if size is not None and size > LARGEST_SIZE:
        raise SettingsError(f"size={size}: images have at most {LARGEST_SIZE} pixels a side")


def parse(source: str, guess: Callable[[Path], str]) -> Request:
    """Return the parts of the source; `guess` finds the scheme of a path that comes without one."""
    try:
        request = _parse_unchecked(without_file_scheme(source), guess)
        _check_split(source, request)
    except OSError as error:  # a folder we may not enter, or a name that is too long
        raise DataError(
            f"cannot look at {source!r}: {error.strerror}; name a file or folder you may read"
        ) from error
    return request


def _parse_unchecked(source: str, guess: Callable[[Path], str]) -> Request:
    place, split = _cut_off_split(source)
    if not place:
        raise DataError(f"{source!r} names no images; name a file or folder, or . for this folder")
    scheme, colon, rest = place.partition(":")
    if scheme in SCHEMES and (colon or scheme in EMBEDDED):
        if not rest and scheme not in EMBEDDED:
            raise DataError(f"{source!r} names no path; write {SCHEMES[scheme].notation}")
        request = Request(scheme, rest, split)
        if request.is_remote:
            _check_scheme_of_url(request)
        elif scheme not in EMBEDDED:
            _check_exists(request)
        elif not colon:
            _check_no_path_has_name(scheme)
        return request
    if is_url(place):
        return Request(guess_scheme_of_url(place), place, split)
    path = _path(place)
    if path.exists():
        return Request(guess(path), place, split)
    if colon and re.fullmatch(r"\w{2,}", scheme):  # a single letter is a drive of Windows
        raise DataError(
            f"unknown scheme {scheme!r} in {source!r}; {_suggest(scheme) or _known_schemes()}"
        )
    suggestion = _suggest(place) if "/" not in place else ""
    raise DataError(f"{place!r} does not exist; {suggestion or 'name a file or folder that does'}")


def _path(place: str) -> Path:
    """Return the path with ~ expanded. Path.expanduser would fail for a ~ that is nobody's home."""
    return Path(os.path.expanduser(place))  # noqa: PTH111


def _cut_off_split(source: str) -> tuple[str, SplitName | None]:
    """Return the source without #train or #test, and which of the two it was."""
    place, mark, split = source.rpartition("#")
    if mark and split in ("train", "test"):
        return place, cast("SplitName", split)
    if is_url(source):
        return source, None
    places = (source, source.partition(":")[2])  # a path may have a # in it
    if mark and not any(_path(place).exists() for place in places if place):
        raise DataError(f"{source!r} names the split {split!r}; write #train or #test")
    return source, None


def _suggest(scheme: str) -> str:
    """Return how to write the scheme that was probably meant, or nothing."""
    closest = closest_match(scheme, SCHEMES)
    return f"did you mean {SCHEMES[closest].notation}?" if closest else ""


def _known_schemes() -> str:
    return f"the schemes are {', '.join(SCHEMES)}"


def _check_split(source: str, request: Request) -> None:
    """Raise a `DataError` if there are no splits, as in a single file of SVHN or idx."""
    one_file = request.scheme in ("svhn", "idx") and request.path.is_file()
    if request.split is not None and (one_file or not SCHEMES[request.scheme].has_splits):
        raise DataError(
            f"{source} names the split {request.split!r}, but {request.scheme}:{request.place} "
            f"has no splits; leave out #{request.split}, or name another path"
        )


def _check_exists(request: Request) -> None:
    path = request.list_and_root[0] if request.scheme == "imglist" else request.path
    if not path.exists():
        raise DataError(f"{path} does not exist; check the path of {request.scheme}:")
    if request.scheme in ("folder", "flat") and not path.is_dir():
        raise DataError(f"{path} is a file; {request.scheme}: reads a folder")
    if request.scheme in ("arrays", "imglist") and not path.is_file():
        what = "a folder" if path.is_dir() else "no regular file"
        raise DataError(f"{path} is {what}; {request.scheme}: reads a file")


def _check_no_path_has_name(scheme: str) -> None:
    """Raise a `DataError` if embedded images, named without a colon, may be meant for a path."""
    if Path(scheme).exists():
        raise DataError(
            f"{scheme!r} is in this folder, and also the name of images inside oddone; write "
            f"./{scheme} for yours, or {scheme}: for those"
        )


def _check_scheme_of_url(request: Request) -> None:
    if request.scheme not in REMOTE:
        raise DataError(
            f"{request.scheme}: reads files of this machine, not {request.place}; copy them here "
            f"first"
        )


# --- Guessing ---------------------------------------------------------------------------------


def guess_scheme(path: Path) -> str:
    """Return the scheme by which to read the path; there must be exactly one."""
    schemes = possible_schemes(path)
    if len(schemes) == 1:
        return schemes[0]
    if schemes:
        choices = " or ".join(f"{scheme}:{path}" for scheme in schemes)
        raise DataError(f"{path} can be read in several ways; write {choices}")
    if path.is_dir():
        raise DataError(
            f"{path} holds no images that oddone knows (found: {describe_contents(path)}); "
            f"name a folder of pictures, or of the files of a data set"
        )
    if path.suffix.lower() in ENDINGS:
        raise DataError(f"{path} is one picture; name its folder, as flat:{path.parent}")
    if path.suffix.lower() == DETECTOR_ENDING:
        raise DataError(
            f"{path} is a detector, not images; open it with oddone.Detector.load({str(path)!r})"
        )
    raise DataError(
        f"cannot tell what {path.name} is by its name; write SCHEME:{path} ({_known_schemes()})"
    )


# --- Reading ----------------------------------------------------------------------------------


def _by_split(read: Callable[[Path, SplitName], ImageSet]) -> Callable[[Request], ImageSet]:
    """Return a function that reads the requested split of a data set; train is the default."""

    def read_split(request: Request) -> ImageSet:
        return read(request.path, request.split or "train")

    return read_split


def _read_arrays(request: Request) -> ImageSet:
    return read_arrays(request.path)


def _read_fashion(request: Request) -> ImageSet:
    return read_fashion(request.place, request.split or "train")


def _read_digits(request: Request) -> ImageSet:
    from oddone.data.digits import read_digits  # noqa: PLC0415, imports scikit-learn

    if request.place:
        raise DataError(f"digits come with scikit-learn; write digits, not digits:{request.place}")
    return read_digits()


def _read_folder(request: Request) -> ImageSet:
    if request.is_remote:
        return _read_listing(request, list_remote(request.place, labelled=True))
    return read_labelled_folder(
        request.path, size=request.size, strict=request.strict, progress=request.progress
    )


def _read_flat(request: Request) -> ImageSet:
    if request.is_remote:
        return _read_listing(request, list_remote(request.place, labelled=False))
    return read_flat_folder(
        request.path, size=request.size, strict=request.strict, progress=request.progress
    )


def _read_packed(request: Request) -> ImageSet:
    place = request.place if request.is_remote else str(request.path)
    return _read_listing(request, list_packed(request.scheme, place))


def _read_listing(request: Request, listing: Listing) -> ImageSet:
    image_set = read_listing(
        listing, size=request.size, strict=request.strict, progress=request.progress
    )
    check_every_class(image_set, listing.root)
    return image_set


def _read_imglist(request: Request) -> ImageSet:
    path, root = request.list_and_root
    return read_imglist(
        path, root, size=request.size, strict=request.strict, progress=request.progress
    )


SCHEMES = {
    "fashion": Scheme(
        _read_fashion,
        "fashion[:known|:unseen][#test]",
        "8,000 images of Fashion-MNIST inside oddone: all ten garments, eight to learn, or the "
        "two never shown",
        has_splits=True,
    ),
    "digits": Scheme(
        _read_digits, "digits", "1,797 hand-written digits of 8 x 8 pixels inside scikit-learn"
    ),
    "folder": Scheme(
        _read_folder, "folder:PATH", "pictures in one folder per class, at any depth below it"
    ),
    "flat": Scheme(_read_flat, "flat:PATH", "all pictures below a folder, without labels"),
    "arrays": Scheme(
        _read_arrays, "arrays:PATH", "a .npz of images (and labels, classes), or a .npy"
    ),
    "imglist": Scheme(
        _read_imglist,
        "imglist:PATH[@ROOT]",
        "an OpenOOD list of `path label` lines, relative to ROOT or to the list's folder",
    ),
    "tar": Scheme(
        _read_packed,
        "tar:PATH",
        "pictures in a .tar or .tar.gz, or in those of a folder, as WebDataset has them; labels "
        "from .cls, or the folders in it",
    ),
    "parquet": Scheme(
        _read_packed,
        "parquet:PATH",
        "a Parquet file with a column of picture bytes (`image`), or a folder of them; labels "
        "from a column `label`",
    ),
    "cifar10": Scheme(
        _by_split(read_cifar10),
        "cifar10:PATH[#test]",
        "CIFAR-10, the official Python files: folder or .tar.gz",
        has_splits=True,
    ),
    "cifar100": Scheme(
        _by_split(read_cifar100),
        "cifar100:PATH[#test]",
        "CIFAR-100 with fine labels, the official Python files: folder or .tar.gz",
        has_splits=True,
    ),
    "svhn": Scheme(
        _by_split(read_svhn),
        "svhn:PATH[#test]",
        "SVHN's cropped digits: the folder of train_32x32.mat and test_32x32.mat, or one of them",
        has_splits=True,
    ),
    "idx": Scheme(
        _by_split(read_idx),
        "idx:PATH[#test]",
        "MNIST-style idx files, plain or .gz: their folder, or an images file",
        has_splits=True,
    ),
}
