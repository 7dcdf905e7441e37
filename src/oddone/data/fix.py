"""Make OOD sets like the paper's LSUN(F) and ImageNet(F): pictures of 32 x 32 without aliasing.

Older benchmarks shrank their pictures by dropping pixels. A detector then tells OOD images by
their jagged edges alone, whatever they show. `aliased` makes such images on purpose.
"""

import csv
import hashlib
import io
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from oddone.data.decode import (
    BrokenImageError,
    damage_explained,
    in_parallel,
    open_picture,
    without_warnings,
)
from oddone.data.folder import contents_below
from oddone.data.image_set import BrokenFile
from oddone.errors import DataError, os_error_fix
from oddone.files import folder_beside, remove_leftovers, sync_folder
from oddone.progress import Progress

SHORTER_SIDE = 256
SIZE = 32
LONGEST_RATIO = 50  # a longer picture would take gigabytes once its shorter side is 256


class Fixed(NamedTuple):
    """How many pictures were written, and which files could not be read."""

    written: int
    broken: tuple[BrokenFile, ...]
    left_out: Counter[str]
    """How many files are no pictures, by their endings."""


def fix_images(
    folder: Path,
    out: Path,
    *,
    count: int | None,
    seed: int,
    aliased: bool = False,
    progress: Progress | None = None,
) -> Fixed:
    """Write pictures of a folder as PNG files of 32 x 32 pixels, and return how that went.

    `count` pictures are drawn with the seed, and others are drawn instead of broken ones. None
    takes all, in the order of their paths. `sources.csv` in `out` says where each came from.
    The folder gets its name when all is in it.
    """
    if not os.path.isdir(folder):  # noqa: PTH112, Path.is_dir fails for a name that is too long
        raise DataError(f"{folder} is no folder; give one with pictures in it")
    contents = contents_below(folder)
    paths = _in_order(contents.pictures, folder, count, seed)
    _check_new(out)
    with ExitStack() as stack:
        with _os_errors_named(out):
            remove_leftovers(out.parent)
            part = stack.enter_context(folder_beside(out))
        wanted = len(paths) if count is None else count
        resize = aliased_resize if aliased else fixed_resize
        sources: list[str] = []
        broken = list(contents.locked)
        while paths and len(sources) < wanted:
            missing = wanted - len(sources)
            batch, paths = paths[:missing], paths[missing:]
            for path, small in _resize_files(folder, batch, resize):
                if isinstance(small, BrokenFile):
                    broken.append(small)
                    continue
                name = f"{len(sources):06d}.png"
                with _os_errors_named(out / name), (part / name).open("wb") as file:
                    small.save(file, "PNG")
                sources.append(path)
                if progress is not None:
                    progress(len(sources), wanted, "pictures")
        if not sources:
            raise DataError(
                f"none of the {len(broken)} files in {folder} can be read as a picture; the first "
                f"is {broken[0].path}: {broken[0].reason}"
            )
        with _os_errors_named(out / "sources.csv"):
            _write_sources(part / "sources.csv", sources)
        with _os_errors_named(out):
            _install(part, out)
    return Fixed(len(sources), tuple(broken), contents.left_out)


def fixed_resize(picture: Image.Image) -> Image.Image:
    """Return the centre of the picture at 32 x 32: shorter side to 256, crop, resize."""
    width, height = picture.size
    shorter = min(width, height)
    if max(width, height) > LONGEST_RATIO * shorter:
        raise BrokenImageError(
            f"{width} x {height} pixels: over {LONGEST_RATIO} times as long as wide"
        )
    scaled = (SHORTER_SIDE * width // shorter, SHORTER_SIDE * height // shorter)
    large = picture.resize(scaled, Image.Resampling.BILINEAR)
    left, top = round((scaled[0] - SHORTER_SIDE) / 2), round((scaled[1] - SHORTER_SIDE) / 2)
    square = large.crop((left, top, left + SHORTER_SIDE, top + SHORTER_SIDE))
    return square.resize((SIZE, SIZE), Image.Resampling.BILINEAR)


def aliased_resize(picture: Image.Image) -> Image.Image:
    """Return the picture at 32 x 32, made by dropping pixels, as in the paper's figure."""
    return picture.resize((SIZE, SIZE), Image.Resampling.NEAREST)


def _in_order(pictures: Sequence[str], folder: Path, count: int | None, seed: int) -> list[str]:
    """Return the paths of pictures in the order in which they are to be taken.

    A random order depends on nothing but the seed and the paths.
    """
    paths = sorted(pictures)
    if count is None:
        return paths
    if not 1 <= count <= len(paths):
        raise DataError(
            f"count={count}: {folder} holds {len(paths)} pictures; choose a number from 1 to that"
        )
    # Unlike random numbers, hashes are the same in every version of every library.
    return sorted(paths, key=lambda path: hashlib.sha256(os.fsencode(f"{seed}/{path}")).digest())


def _check_new(out: Path) -> None:
    """Raise a DataError if there is something in the place of the folder, or if none can be."""
    try:
        if out.exists() and not (out.is_dir() and not any(out.iterdir())):
            raise DataError(
                f"{out} is there already and not empty; choose another folder or delete it"
            )
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"{out} cannot be made ({error.strerror}); choose another folder"
        ) from error


def _resize_files(
    folder: Path, paths: Sequence[str], resize: Callable[[Image.Image], Image.Image]
) -> Iterator[tuple[str, Image.Image | BrokenFile]]:
    """Yield for each file, in order, its path and the small picture, or the reason for none."""

    def attempt(path: str) -> Image.Image | BrokenFile:
        try:
            with damage_explained(), open_picture(folder / path) as picture:
                return resize(picture)
        except BrokenImageError as error:
            return BrokenFile(path, str(error))

    with without_warnings():
        yield from zip(paths, in_parallel(attempt, paths, None, ""), strict=True)


def _write_sources(table: Path, sources: Sequence[str]) -> None:
    text = io.StringIO(newline="")
    rows = csv.writer(text)
    rows.writerow(("picture", "source"))
    rows.writerows((f"{index:06d}.png", path) for index, path in enumerate(sources))
    table.write_bytes(text.getvalue().encode("utf-8", "backslashreplace"))


def _install(part: Path, out: Path) -> None:
    """Give a folder its name, once the disk has all that is in it."""
    for path in part.iterdir():
        with path.open("rb+") as file:
            os.fsync(file.fileno())
    sync_folder(part)
    if os.name == "nt" and out.exists():  # it is empty; elsewhere, it is replaced
        out.rmdir()
    part.rename(out)
    sync_folder(out.parent)


@contextmanager
def _os_errors_named(path: Path) -> Iterator[None]:
    """Turn an OSError while a file or folder is written into a DataError that names it."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{path} cannot be written: {error.strerror or error}; {os_error_fix(error)}"
        ) from error
