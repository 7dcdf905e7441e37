"""Which schemes a path or URL could be read by, judging by names."""

from contextlib import suppress
from pathlib import Path

from oddone.data.cifar import editions_in
from oddone.data.file_tree import class_folders, ending_of, has_loose_pictures
from oddone.data.formats import ENDINGS
from oddone.data.idx import PREFIXES, idx_images
from oddone.data.listings import packed_scheme
from oddone.data.remote import list_url
from oddone.errors import DataError


def possible_schemes(path: Path) -> list[str]:
    """Return the schemes by which the path could be read, judging by names."""
    return _schemes_of_folder(path) if path.is_dir() else _schemes_of_file(path)


def guess_scheme_of_url(url: str) -> str:
    """Return the scheme by which to read what stands behind a URL, judging by names."""
    packed = packed_scheme(url)
    if packed is not None:
        return packed
    if ending_of(url) in ENDINGS:
        return "flat"
    found = list_url(url)
    if found.folders:
        return "folder"
    kinds = {packed_scheme(file.url) for file in found.files} - {None}
    has_pictures = any(ending_of(file.url) in ENDINGS for file in found.files)
    return "flat" if has_pictures or not kinds else str(min(kinds, key=str))


def _schemes_of_file(path: Path) -> list[str]:
    name = path.name.lower()
    packed = packed_scheme(name)
    if packed == "tar":
        with suppress(DataError):  # whoever reads it says what is wrong with it
            return [edition.scheme for edition in editions_in(path)] or [packed]
    if packed is not None:
        return [packed]
    if name.removesuffix(".gz").endswith("-ubyte"):
        return ["idx"]
    by_ending = {".npz": "arrays", ".npy": "arrays", ".mat": "svhn", ".txt": "imglist"}
    return [by_ending[path.suffix.lower()]] if path.suffix.lower() in by_ending else []


def _schemes_of_folder(path: Path) -> list[str]:
    official = [edition.scheme for edition in editions_in(path)]
    if any(path.glob("*_32x32.mat")):
        official.append("svhn")
    if idx_images(path, [prefix for prefixes in PREFIXES.values() for prefix in prefixes]):
        official.append("idx")
    if official:
        return official
    guesses = {"folder": class_folders(path), "flat": has_loose_pictures(path)}
    found = [scheme for scheme, there in guesses.items() if there]
    return found or sorted({packed_scheme(file.name) or "" for file in path.iterdir()} - {""})
