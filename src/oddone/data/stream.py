"""Pictures one after the other, each seen once: what is judged need not fit into memory."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, UInt8

from oddone.data.arrays import resized
from oddone.data.cache import attempted
from oddone.data.decode import in_parallel, without_warnings
from oddone.data.folder import pictures_below, status_of
from oddone.data.image_set import ImageSet
from oddone.data.imglist import parse_imglist
from oddone.data.notation import (
    SCHEMES,
    Request,
    check_size,
    guess_scheme,
    parse,
    possible_schemes,
)
from oddone.errors import SettingsError
from oddone.progress import Progress

Source = ImageSet | str | Path | Sequence[str | Path]
"""Images, a notation or path, or several of these."""

IN_FILES = ("folder", "flat", "imglist")
"""The schemes that name a file for each picture."""
ARRAYS_AT_ONCE = 256  # images of an array that are resized at a time


class Picture(NamedTuple):
    """A picture, or why there is none."""

    path: str
    image: UInt8[np.ndarray, "3 size size"] | None
    reason: str | None


def stream(
    source: Source,
    *,
    size: int,
    indices: Int[np.ndarray, " some"] | None = None,
    progress: Progress | None = None,
) -> Iterator[Picture]:
    """Return the pictures of the source in order, resized, read as they are asked for.

    A folder gives all pictures below it, whatever its classes; a file that is no data set is
    taken for a picture. What cannot be read comes in its place, with the reason. That all paths
    exist is seen to at once.
    """
    check_size(size)
    if isinstance(source, ImageSet):
        return _of_images(source, size, indices, progress)
    if indices is not None:
        raise SettingsError("indices choose images of an ImageSet; load the source first")
    sources = [source] if isinstance(source, str | Path) else source
    parts: list[Request | list[str]] = []
    for request in [parse(str(each), _guess) for each in sources]:
        if request.scheme not in IN_FILES:
            parts.append(request)
        elif parts and isinstance(parts[-1], list):
            parts[-1] += _paths(request)  # many single files are decoded together
        else:
            parts.append(_paths(request))
    return _of_parts(parts, size, progress)


def _guess(path: Path) -> str:
    """Return the scheme of a data set, and "flat" for any folder or file besides."""
    in_files = set(possible_schemes(path)) <= {"folder", "flat"}
    return "flat" if in_files else guess_scheme(path)


def _paths(request: Request) -> list[str]:
    if request.scheme == "imglist":
        path, root = request.list_and_root
        return [str(root / name) for name in parse_imglist(path)[0]]
    return pictures_below(request.path) if request.path.is_dir() else [str(request.path)]


def _of_parts(
    parts: Sequence[Request | list[str]], size: int, progress: Progress | None
) -> Iterator[Picture]:
    for part in parts:
        if isinstance(part, list):
            yield from _of_files(part, size, progress)
        else:
            yield from _of_images(SCHEMES[part.scheme].read(part), size, None, progress)


def _of_files(paths: Sequence[str], size: int, progress: Progress | None) -> Iterator[Picture]:
    def attempt(path: str) -> Picture:
        status = status_of(Path(path))
        result = status if isinstance(status, str) else attempted(Path(path), size)
        if isinstance(result, str):
            return Picture(path, None, result)
        return Picture(path, result, None)

    with without_warnings():
        yield from in_parallel(attempt, paths, progress, "images")


def _of_images(
    native: ImageSet,
    size: int,
    indices: Int[np.ndarray, " some"] | None,
    progress: Progress | None,
) -> Iterator[Picture]:
    chosen = np.arange(len(native)) if indices is None else indices
    for start in range(0, len(chosen), ARRAYS_AT_ONCE):
        some = chosen[start : start + ARRAYS_AT_ONCE]
        paths = [native.paths[index] for index in some]
        images, labels = native.images[some], native.labels[some]
        part = resized(replace(native, images=images, labels=labels, paths=paths), size)
        for path, image in zip(paths, part.images, strict=True):
            yield Picture(path, image, None)
        if progress is not None:
            progress(start + len(paths), len(chosen), "images")
