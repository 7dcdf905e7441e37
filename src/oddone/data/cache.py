"""A cache on disk: the images of a folder are decoded once, and memory-mapped from then on.

An entry is a directory named by a hash over the folder's device and inode, the files' relative
paths, sizes, times, devices and inodes, their labels, the image size and the version of this
format. No two folders have all of these in common, nor has a file before and after a change: the
system, and nobody else, sets the time of the last change of an inode (ctime). An entry holds
`images.npy` and `index.json`.
The features of images lie beside the entries; `oddone.selection.embedding` writes them.
"""

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import BinaryIO, NamedTuple

import numpy as np
import platformdirs

from oddone.data.decode import DecodedImage
from oddone.data.formats import NEEDS_HEIF, heic_is_readable
from oddone.data.image_set import BrokenFile, ImageSet
from oddone.data.readable import FAR_THREADS, Readable, decode_readable, read_in_parallel
from oddone.data.remote import is_url
from oddone.errors import DataError
from oddone.progress import Progress

VERSION = 1
ATTEMPTS = 3
# The second parts: still being written.
_ENTRY = re.compile(r"[0-9a-f]{16}(\.[0-9a-f]{16})?")
_FEATURES = re.compile(r"[0-9a-f]{32}\.safetensors(\.part)?")


class ListedFile(NamedTuple):
    """A picture file to decode: its name, its label, and what shows that it has changed."""

    name: str
    """Its path relative to the listing's root, or, if it is no file here, its whole name."""
    label: int
    bytes: int
    mtime_ns: int
    identity: tuple[int, int, int]
    """Its device, its inode, and when that last changed (ctime), in nanoseconds."""


@dataclass(frozen=True)
class Listing:
    """The picture files of a data source, in order."""

    root: Path | str
    """A folder of this machine; otherwise a URL or the name of a file."""
    files: tuple[ListedFile, ...]
    classes: tuple[str, ...]
    skipped: tuple[BrokenFile, ...] = ()
    """Files that are known to be unusable before they are decoded."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """How many files are no pictures, by their endings."""
    read: Callable[[], Iterable[Readable]] | None = None
    """Gives the pictures in the order of `files`, if these are no files of this machine."""
    place: str = ""
    """What tells them from all others then, and changes with them."""

    def pictures(self) -> Iterable[Readable]:
        """Return what is decoded to the images, in order."""
        return [self.path_of(file) for file in self.files] if self.read is None else self.read()

    def path_of(self, file: ListedFile) -> str:
        """Return where a file is."""
        return file.name if self.read is not None else self.path_below(file.name)

    def path_below(self, name: str) -> str:
        return name if self.read is not None else str(Path(self.root) / name)

    def fingerprint(self, size: int) -> str:
        """Return a hash that changes with the files and labels, but not with where they are.

        A copy that keeps the times has it too.
        """
        files = [file[:-1] for file in self.files]
        return _hash([VERSION, size, self.classes, files])

    def cache_key(self, size: int) -> str:
        """Return a hash that no other folder has, and which changes with every change of a file.

        A folder that is moved keeps it, a copy does not.
        """
        place: object = self.place
        if self.read is None:
            status = Path(self.root).stat()
            place = (status.st_dev, status.st_ino)
        return _hash(["key", VERSION, place, size, self.classes, self.files])


class CacheSize(NamedTuple):
    """How much the cache holds, and how many bytes that takes."""

    entries: int
    """How many data sources are decoded."""
    features: int
    """How many files of features there are."""
    bytes: int


def _hash(identity: list[object]) -> str:
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]


def load_or_decode(listing: Listing, size: int, progress: Progress | None = None) -> ImageSet:
    """Return the listed images from the cache; if they are not there, decode them into it first."""
    try:
        entry = _folder() / listing.cache_key(size)
    except OSError as error:  # it was there a moment ago
        raise DataError(
            f"cannot look at {listing.root}: {error.strerror}; name a folder you may read"
        ) from error
    for _ in range(ATTEMPTS):  # another process may clean the cache at the same time
        image_set = _read(entry, listing, size)
        if image_set is not None:
            return image_set
        try:
            _build(entry, listing, size, progress)
        except OSError as error:
            raise DataError(
                f"cannot keep {len(listing.files)} decoded images "
                f"({_megabytes(listing, size)} MB) in {entry.parent}: {error.strerror or error}; "
                f"make room there, or set ODDONE_CACHE to another folder"
            ) from error
    raise DataError(
        f"{entry} was damaged or removed {ATTEMPTS} times while it was written; "
        f"set ODDONE_CACHE to a folder that nothing else changes"
    )


def cache_size() -> CacheSize:
    """Return how many decoded data sources and features the cache holds, and their size on disk."""
    entries, features = _entries(), _features()
    files = [*features, *(path for entry in entries for path in entry.iterdir())]
    return CacheSize(len(entries), len(features), sum(path.stat().st_size for path in files))


def clean_cache() -> CacheSize:
    """Remove all decoded images and features from the cache, and return how much that was."""
    try:
        removed = cache_size()
        for entry in _entries():
            shutil.rmtree(entry)
        for file in _features():
            file.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(
            f"cannot empty the cache in {cache_folder()}: {error.strerror or error} "
            f"({error.filename}); let nothing else use it, and make it a folder you may change"
        ) from error
    return removed


def cache_folder() -> Path:
    """Return the folder of all that can be computed again."""
    # Path.expanduser fails where nobody's home is known, and so do some versions of platformdirs.
    # The others, as os.path does, leave a ~, which would become a folder of that name.
    try:
        chosen = os.environ.get("ODDONE_CACHE") or platformdirs.user_cache_dir("oddone")
    except RuntimeError:
        chosen = "~"
    folder = os.path.expanduser(chosen)  # noqa: PTH111
    if folder.startswith("~"):
        raise DataError(
            "no home folder is known to keep decoded images in; set HOME, or ODDONE_CACHE to a "
            "folder for them"
        )
    return Path(folder)


def features_folder() -> Path:
    """Return the folder of what encoders make of images (`oddone.features.encode_once`)."""
    return cache_folder() / "features"


def _folder() -> Path:
    return cache_folder() / "decoded"


def _entries() -> list[Path]:
    """Return the entries. Files of others in the same folder are left out, and so never removed."""
    if not _folder().is_dir():
        return []
    return [path for path in _folder().iterdir() if _ENTRY.fullmatch(path.name) and path.is_dir()]


def _features() -> list[Path]:
    """Return the files of features, and as above none of others."""
    if not features_folder().is_dir():
        return []
    return [
        path
        for path in features_folder().iterdir()
        if _FEATURES.fullmatch(path.name) and path.is_file()
    ]


def _read(entry: Path, listing: Listing, size: int) -> ImageSet | None:
    """Return the images of the entry, or None if it is missing or damaged."""
    try:
        index = json.loads((entry / "index.json").read_text(encoding="ascii"))
        images = np.load(entry / "images.npy", mmap_mode="r", allow_pickle=False)
        good = np.array(index["good"], dtype=np.int64)
        broken = [BrokenFile(listing.path_below(name), why) for name, why in index["broken"]]
        files = [listing.files[i] for i in good]
        enlarged = int(index["enlarged"])
    # Missing or unreadable; truncated (NumPy: ValueError or EOFError); JSON with other contents.
    except (OSError, ValueError, EOFError, KeyError, IndexError, TypeError):
        return None
    if images.shape != (len(good), 3, size, size) or images.dtype != np.uint8:
        return None
    fingerprint = listing.fingerprint(size)
    if any(file.reason == NEEDS_HEIF for file in broken):
        if heic_is_readable():
            return None  # it was decoded before the package was installed
        fingerprint = _hash([fingerprint, "without HEIC"])
    return ImageSet(
        images=images,
        labels=np.array([file.label for file in files], dtype=np.int64),
        classes=listing.classes,
        paths=tuple(listing.path_of(file) for file in files),
        fingerprint=fingerprint,
        broken=(*listing.skipped, *broken),
        left_out=listing.left_out,
        enlarged=enlarged,
    )


def _build(entry: Path, listing: Listing, size: int, progress: Progress | None) -> None:
    """Decode into a new directory, and rename it to the entry's name when it is complete."""
    entry.parent.mkdir(parents=True, exist_ok=True)
    ours = entry.with_name(f"{entry.name}.{secrets.token_hex(8)}")
    ours.mkdir()
    try:
        _write(ours, listing, size, progress)
        _install(ours, entry, listing, size)
    finally:
        shutil.rmtree(ours, ignore_errors=True)  # after a success it has been renamed


def _install(ours: Path, entry: Path, listing: Listing, size: int) -> None:
    try:
        ours.rename(entry)
    except OSError:
        if _read(entry, listing, size) is not None:
            return  # another process was faster, with the same result
        _discard(entry)
        ours.rename(entry)
    _sync_folder(entry.parent)


def _discard(entry: Path) -> None:
    """Remove a damaged entry: rename it first, so that its name is free at once."""
    aside = entry.with_name(f"{entry.name}.{secrets.token_hex(8)}")
    try:
        entry.rename(aside)
    except FileNotFoundError:
        return  # another process discarded it
    if aside.is_dir():
        shutil.rmtree(aside)
    else:
        aside.unlink()


def _write(ours: Path, listing: Listing, size: int, progress: Progress | None) -> None:
    good: list[int] = []
    broken: list[tuple[str, str]] = []
    enlarged = 0

    def decode(picture: Readable) -> DecodedImage | str:
        return decode_readable(picture, size)

    with (ours / "images.npy").open("wb") as stream:
        _write_header(stream, (len(listing.files), 3, size, size))
        what = f"decoding {PurePath(listing.root).name}"
        threads = FAR_THREADS if is_url(str(listing.root)) else None
        results = read_in_parallel(decode, listing.pictures(), progress, what, threads)
        for i, result in enumerate(results):
            if i == len(listing.files):
                raise _changed(listing)
            if isinstance(result, str):
                broken.append((listing.files[i].name, result))
            else:
                stream.write(result.image.data)
                good.append(i)
                enlarged += result.enlarged
        if len(good) + len(broken) < len(listing.files):
            raise _changed(listing)
        if not good:
            raise DataError(_nothing_readable(listing, broken))
        stream.seek(0)
        _write_header(stream, (len(good), 3, size, size))
        _sync(stream)
    with (ours / "index.json").open("wb") as stream:
        index = {"good": good, "broken": broken, "enlarged": enlarged}
        stream.write(json.dumps(index).encode("ascii"))
        _sync(stream)
    _sync_folder(ours)


def _write_header(stream: BinaryIO, shape: tuple[int, ...]) -> None:
    """Write the header of a .npy file. NumPy pads it, so its length is the same for any count."""
    header = {"descr": "|u1", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)


def _sync(stream: BinaryIO) -> None:
    stream.flush()
    os.fsync(stream.fileno())


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":
        return  # Windows cannot open directories, and does not need this
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _changed(listing: Listing) -> DataError:
    return DataError(f"{listing.root} has changed while it was read; load it again")


def _nothing_readable(listing: Listing, broken: Iterable[tuple[str, str]]) -> str:
    reasons = "; ".join(f"{name}: {reason}" for name, reason in list(broken)[:5])
    return (
        f"none of the {len(listing.files)} images of {listing.root} can be read ({reasons}); "
        f"replace them with pictures that other programs can open"
    )


def _megabytes(listing: Listing, size: int) -> int:
    return len(listing.files) * 3 * size * size // 1_000_000
