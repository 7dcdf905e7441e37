"""The one notation that names data everywhere: `cifar10:PATH#test`, `folder:PATH`, `PATH`."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple, cast

from oddone.data.arrays import read_arrays, resized
from oddone.data.cifar import editions_in, read_cifar10, read_cifar100
from oddone.data.decode import ENDINGS
from oddone.data.folder import (
    class_folders,
    found_in,
    loose_images,
    read_flat_folder,
    read_labelled_folder,
)
from oddone.data.idx import PREFIXES, idx_images, read_idx
from oddone.data.image_set import ImageSet
from oddone.data.imglist import read_imglist
from oddone.data.svhn import read_svhn
from oddone.errors import DataError, SettingsError, closest_match
from oddone.progress import Progress

Split = Literal["train", "test"]

EMBEDDED = ("fashion", "digits")
"""The schemes that need no path."""


class Request(NamedTuple):
    """A source taken apart, and how it is wanted."""

    scheme: str
    place: str
    split: Split | None
    size: int | None = None
    strict: bool = False
    progress: Progress | None = None

    @property
    def path(self) -> Path:
        return _path(self.place)

    @property
    def list_and_root(self) -> tuple[Path, Path]:
        """Where the list of an imglist lies, and what its names are relative to."""
        path, mark, root = self.place.rpartition("@")
        if not mark or self.path.exists():  # a path may have an @ in it
            return self.path, self.path.parent
        return _path(path), _path(root)


class Scheme(NamedTuple):
    """What a scheme reads, and what people are told about it."""

    read: Callable[[Request], ImageSet]
    """Files are decoded in the size that is wanted; arrays come in their own."""
    notation: str
    description: str
    has_splits: bool = False


class SourceDescription(NamedTuple):
    """A way to name data, and what it names."""

    notation: str
    description: str


def load(
    source: str,
    *,
    size: int | None = None,
    strict: bool = False,
    progress: Progress | None = None,
) -> ImageSet:
    """Return the images that the source names, all of one size.

    By default arrays keep their own size and folders take the largest of 32, 64, 128 and 224
    that fits their pictures. With `strict`, a file that cannot be read is an error.
    """
    check_size(size)
    request = parse(source, guess_scheme)._replace(size=size, strict=strict, progress=progress)
    return resized(SCHEMES[request.scheme].read(request), size, progress)


def describe_sources() -> list[SourceDescription]:
    """Return every way to name data, with what it names."""
    plain = SourceDescription("PATH", "any of these, guessed by what is there")
    return [SourceDescription(s.notation, s.description) for s in SCHEMES.values()] + [plain]


def check_size(size: int | None) -> None:
    """Raise a `SettingsError` for images without a pixel."""
    if size is not None and size < 1:
        raise SettingsError(f"size={size}: images need at least 1 pixel")


def parse(source: str, guess: Callable[[Path], str]) -> Request:
    """Return the source taken apart; of a path without a scheme that exists, guess the scheme."""
    try:
        request = _parsed(source, guess)
        _check_split(source, request)
    except OSError as error:  # a folder we may not enter, or a name that is too long
        raise DataError(
            f"cannot look at {source!r}: {error.strerror}; name a file or folder you may read"
        ) from error
    return request


def _parsed(source: str, guess: Callable[[Path], str]) -> Request:
    place, split = _without_split(source)
    scheme, colon, rest = place.partition(":")
    if scheme in SCHEMES and (colon or scheme in EMBEDDED):
        if not rest and scheme not in EMBEDDED:
            raise DataError(f"{source!r} names no path; write {SCHEMES[scheme].notation}")
        request = Request(scheme, rest, split)
        if scheme not in EMBEDDED:
            _check_exists(request)
        return request
    path = _path(place)
    if path.exists():
        return Request(guess(path), place, split)
    if colon and re.fullmatch(r"\w{2,}", scheme):  # one letter is a drive of Windows
        raise DataError(
            f"unknown scheme {scheme!r} in {source!r}; {_nearest(scheme) or _known_schemes()}"
        )
    nearest = _nearest(place) if "/" not in place else ""
    raise DataError(f"{place!r} does not exist; {nearest or 'name a file or folder that does'}")


def _path(place: str) -> Path:
    """Return the path; unlike Path.expanduser, for a ~ that is nobody's home too."""
    return Path(os.path.expanduser(place))  # noqa: PTH111


def _without_split(source: str) -> tuple[str, Split | None]:
    place, mark, split = source.rpartition("#")
    if mark and split in ("train", "test"):
        return place, cast("Split", split)
    places = (source, source.partition(":")[2])  # a path may have a # in it
    if mark and not any(_path(place).exists() for place in places if place):
        raise DataError(f"{source!r} names the split {split!r}; write #train or #test")
    return source, None


def _nearest(scheme: str) -> str:
    closest = closest_match(scheme, SCHEMES)
    return f"did you mean {SCHEMES[closest].notation}?" if closest else ""


def _known_schemes() -> str:
    return f"the schemes are {', '.join(SCHEMES)}"


def _check_split(source: str, request: Request) -> None:
    """Raise a `DataError` for a split of what has none, as a single file of SVHN or idx."""
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
        raise DataError(f"{path} is a folder; {request.scheme}: reads a file")


# --- Guessing ---------------------------------------------------------------------------------


def guess_scheme(path: Path) -> str:
    """Return the one scheme that the path can be read by."""
    schemes = possible_schemes(path)
    if len(schemes) == 1:
        return schemes[0]
    if schemes:
        choices = " or ".join(f"{scheme}:{path}" for scheme in schemes)
        raise DataError(f"{path} can be read in several ways; write {choices}")
    if path.is_dir():
        raise DataError(
            f"{path} holds no images that oddone knows (found: {found_in(path)}); "
            f"name a folder of pictures, or of the files of a data set"
        )
    if path.suffix.lower() in ENDINGS:
        raise DataError(f"{path} is one picture; name its folder, as flat:{path.parent}")
    raise DataError(
        f"cannot tell what {path.name} is by its name; write SCHEME:{path} ({_known_schemes()})"
    )


def possible_schemes(path: Path) -> list[str]:
    """Return the schemes that the path looks like."""
    return _guessed_of_folder(path) if path.is_dir() else _guessed_of_file(path)


def _guessed_of_file(path: Path) -> list[str]:
    name = path.name.lower()
    if name.endswith((".tar.gz", ".tgz", ".tar")):
        return [edition.scheme for edition in editions_in(path)]
    if name.removesuffix(".gz").endswith("-ubyte"):
        return ["idx"]
    by_ending = {".npz": "arrays", ".npy": "arrays", ".mat": "svhn", ".txt": "imglist"}
    return [by_ending[path.suffix.lower()]] if path.suffix.lower() in by_ending else []


def _guessed_of_folder(path: Path) -> list[str]:
    official = [edition.scheme for edition in editions_in(path)]
    if any(path.glob("*_32x32.mat")):
        official.append("svhn")
    if idx_images(path, [prefix for prefixes in PREFIXES.values() for prefix in prefixes]):
        official.append("idx")
    if official:
        return official
    guesses = {"folder": class_folders(path), "flat": loose_images(path)}
    return [scheme for scheme, found in guesses.items() if found]


# --- Reading ----------------------------------------------------------------------------------


def _official(read: Callable[[Path, Split], ImageSet]) -> Callable[[Request], ImageSet]:
    """Return how to read a data set that comes in two official splits."""

    def read_split(request: Request) -> ImageSet:
        return read(request.path, request.split or "train")

    return read_split


def _read_arrays(request: Request) -> ImageSet:
    return read_arrays(request.path)


def _read_fashion(request: Request) -> ImageSet:
    from oddone.data.fashion import read_fashion  # noqa: PLC0415, unpacks its file

    if request.place not in ("", "known", "unseen"):
        raise DataError(
            f"unknown part {request.place!r} of fashion; "
            f"write fashion, fashion:known or fashion:unseen"
        )
    return read_fashion(request.place, request.split or "train")


def _read_digits(request: Request) -> ImageSet:
    from oddone.data.digits import read_digits  # noqa: PLC0415, imports scikit-learn

    if request.place:
        raise DataError(f"digits come with scikit-learn; write digits, not digits:{request.place}")
    return read_digits()


def _read_folder(request: Request) -> ImageSet:
    return read_labelled_folder(
        request.path, size=request.size, strict=request.strict, progress=request.progress
    )


def _read_flat(request: Request) -> ImageSet:
    return read_flat_folder(
        request.path, size=request.size, strict=request.strict, progress=request.progress
    )


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
    "cifar10": Scheme(
        _official(read_cifar10),
        "cifar10:PATH[#test]",
        "CIFAR-10, the official Python files: folder or .tar.gz",
        has_splits=True,
    ),
    "cifar100": Scheme(
        _official(read_cifar100),
        "cifar100:PATH[#test]",
        "CIFAR-100 with fine labels, the official Python files: folder or .tar.gz",
        has_splits=True,
    ),
    "svhn": Scheme(
        _official(read_svhn),
        "svhn:PATH[#test]",
        "SVHN's cropped digits: the folder of train_32x32.mat and test_32x32.mat, or one of them",
        has_splits=True,
    ),
    "idx": Scheme(
        _official(read_idx),
        "idx:PATH[#test]",
        "MNIST-style idx files, plain or .gz: their folder, or an images file",
        has_splits=True,
    ),
}
