"""Read images one after the other, each once, so that they need not fit into memory."""

import os
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from threading import Lock
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Int, UInt8
from PIL import Image

from oddone.data.arrays import resize_images, to_picture
from oddone.data.decode import (
    BrokenImageError,
    DecodedImage,
    damage_explained,
    resize_picture,
    to_rgb,
)
from oddone.data.file_tree import is_hidden, look_below
from oddone.data.image_set import BrokenFile, ImageSet, check_indices
from oddone.data.notation import (
    Request,
    check_size,
    guess_scheme,
    parse,
    read_request,
)
from oddone.data.parquet_file import read_parquet
from oddone.data.pieces import (
    FILE_SCHEMES,
    ArrayPiece,
    PackedPiece,
    Piece,
    files_of,
    is_read_from_afar,
    pieces_of,
    readables_of,
)
from oddone.data.possible_schemes import possible_schemes
from oddone.data.readable import (
    FAR_THREADS,
    Readable,
    decode_readable,
    name_of,
    read_in_parallel,
)
from oddone.data.remote import RemoteFile, is_url, without_file_scheme
from oddone.data.tar_shard import read_tar
from oddone.errors import DataError, SettingsError
from oddone.progress import Progress

_LOADING = Lock()
IMAGES_AT_ONCE = 256  # images of an array that are copied and resized at a time


class StreamedImage(NamedTuple):
    """An image from a stream, or, if its file cannot be read, the reason why not."""

    path: str
    image: UInt8[np.ndarray, "3 size size"] | None
    reason: str | None
    enlarged: bool = False
    """Whether it was smaller than it is now."""


class ImageStream:
    """Images one after the other, each read when it is asked for, and counts of what was met.

    `Detector.score` takes one too, so that the counts can be read afterwards.
    """

    def __init__(
        self, images: Generator[StreamedImage, None, None], size: int, left_out: Counter[str]
    ) -> None:
        self._images = images
        self.size = size
        """Height and width of the images."""
        self.left_out = left_out
        """How many files of folders are no pictures, by their endings."""
        self.enlarged = 0
        """How many images so far were smaller than they are now."""

    def __iter__(self) -> Iterator[StreamedImage]:
        return self

    def __next__(self) -> StreamedImage:
        image = next(self._images)
        self.enlarged += image.enlarged
        return image

    def close(self) -> None:
        """Stop reading ahead."""
        self._images.close()


OneImage: TypeAlias = str | Path | Image.Image | np.ndarray
"""A file, a PIL image, or an array of [height, width, 3] or grey [height, width]; of any size."""
Source: TypeAlias = ImageSet | ImageStream | OneImage | Iterable[OneImage]
"""Images, a notation or path, or several notations, paths, PIL images and arrays."""


class _GivenImage(NamedTuple):
    """An image that is in memory already."""

    name: str
    pixels: Image.Image | np.ndarray


_Readable: TypeAlias = Readable | _GivenImage
"""A file, a folder that is known to be locked, or an image in memory."""


def stream(
    source: Source,
    *,
    size: int,
    indices: Int[np.ndarray, " some"] | None = None,
    progress: Progress | None = None,
) -> ImageStream:
    """Return the images of the source in order, resized, and read only when they are asked for.

    A folder gives all pictures below it, whatever its classes. A file that is no data set is
    read as a picture. A file that cannot be read has its place in the order too, with the
    reason, and so has a folder in it that cannot be opened. That all paths exist is checked at
    once. A PIL image or array in a list is called by its place, such as "image 3".

    What gives its sources one by one, such as a generator, is asked for them as they are needed, a
    few ahead. One that does not exist has its place in the order, with the reason.

    A stream is returned as it is. Of an `ImageSet`, `indices` chooses some images, in the order of
    the indices. They are copied a few at a time, so a memory-mapped set stays on disk.
    """
    check_size(size)
    if isinstance(source, ImageSet):
        if indices is not None:
            check_indices(indices, source)
        return ImageStream(_stream_images(source, size, indices, progress), size, Counter())
    if indices is not None:
        raise SettingsError(
            "indices choose among the images of an ImageSet; load the source first, or leave "
            "indices out"
        )
    if isinstance(source, ImageStream):
        _check_stream(source, size)
        return source
    if isinstance(source, str | Path | Image.Image | np.ndarray):
        source = [source]
    left_out: Counter[str] = Counter()
    if isinstance(source, Sequence):
        parts = _parts(source, left_out)
        return ImageStream(_stream_parts(parts, size, progress, left_out), size, left_out)
    items = _one_by_one(source, left_out)
    return ImageStream(_stream_mixed(items, size, progress, left_out), size, left_out)


def stream_paths(
    paths: Iterable[str], *, size: int, progress: Progress | None = None
) -> ImageStream:
    """Return the images of files and folders whose paths become known one by one, as from a pipe.

    Paths are taken as they are needed, a few ahead. One that does not exist has its place in the
    order, with the reason.
    """
    check_size(size)
    left_out: Counter[str] = Counter()
    return ImageStream(
        _stream_files(_expand(paths, left_out), size=size, progress=progress), size, left_out
    )


def has_within(source: str, folder: Path) -> bool:
    """Return whether a folder lies in a source, so that pictures put there become some of it."""
    request = parse(source, _guess_scheme)
    if request.scheme not in ("folder", "flat") or request.is_remote:
        return False
    around, inner = (Path(os.path.realpath(path)) for path in (request.path, folder))
    return inner.is_relative_to(around) and not any(
        is_hidden(part) for part in inner.relative_to(around).parts
    )


def list_pieces(sources: Sequence[str]) -> tuple[Iterator[Piece], Counter[str]]:
    """Return the pieces of sources in the order of `stream`, and what is left out of folders."""
    left_out: Counter[str] = Counter()
    requests = [parse(source, _guess_scheme) for source in sources]
    return pieces_of(requests, left_out), left_out


def stream_pieces(
    pieces: Iterable[Piece], *, size: int, progress: Progress | None = None
) -> ImageStream:
    """Return the images of pieces in order, as `stream` does of whole sources."""
    check_size(size)
    return ImageStream(_stream_pieces(pieces, size, progress), size, Counter())


def _stream_pieces(
    pieces: Iterable[Piece], size: int, progress: Progress | None
) -> Generator[StreamedImage, None, None]:
    for source, some in groupby(pieces, _array_of):
        if source is None:
            yield from _stream_files(*_readables(some), size=size, progress=progress)
        else:
            indices = np.array([piece.number for piece in some if isinstance(piece, ArrayPiece)])
            yield from _stream_images(_read_array(source), size, indices, progress)


def _array_of(piece: Piece) -> str | None:
    return piece.source if isinstance(piece, ArrayPiece) else None


def _readables(pieces: Iterable[Piece]) -> tuple[Iterable[_Readable], int | None]:
    """Return the pictures of pieces, and how many threads should read them."""
    listed = list(pieces)
    threads = FAR_THREADS if any(isinstance(piece, RemoteFile) for piece in listed) else None
    files = [p for p in listed if isinstance(p, str | RemoteFile | BrokenFile)]
    return (files if len(files) == len(listed) else _unpacked(listed)), threads


def _unpacked(pieces: Iterable[Piece]) -> Iterator[_Readable]:
    for piece in pieces:
        if isinstance(piece, PackedPiece):
            is_tar = piece.scheme == "tar"
            yield from read_tar(piece.place) if is_tar else read_parquet(piece.place, [piece.group])
        elif not isinstance(piece, ArrayPiece):
            yield piece


@lru_cache(maxsize=1)
def _read_array(source: str) -> ImageSet:
    """Return a data set, which the next pieces are probably of, too."""
    return read_request(parse(source, guess_scheme))


def _expand(paths: Iterable[str], left_out: Counter[str]) -> Iterator[_Readable]:
    """Yield the paths, and instead of a folder what lies below it."""
    for path in map(without_file_scheme, paths):
        if is_url(path):
            yield RemoteFile(path, None, "")
            continue
        if not os.path.isdir(path):  # noqa: PTH112, Path.is_dir fails in a locked folder
            yield path
            continue
        try:
            contents = look_below(Path(path))
        except DataError as error:
            yield BrokenFile(path, str(error))
            continue
        left_out.update(contents.left_out)
        yield from (str(Path(path) / name) for name in contents.pictures)
        yield from contents.locked


def _parts(sources: Sequence[OneImage], left_out: Counter[str]) -> list[Request | list[_Readable]]:
    """Return the data sets among the sources, and the files and images between them as lists."""
    parts: list[Request | list[_Readable]] = []
    for each in [_parse(source, place) for place, source in enumerate(sources)]:
        if isinstance(each, Request) and not _is_files(each):
            parts.append(each)
            continue
        files: list[_Readable] = []
        files += files_of(each, left_out) if isinstance(each, Request) else [each]
        if parts and isinstance(parts[-1], list):
            parts[-1] += files  # many single files are decoded together
        else:
            parts.append(files)
    return parts


def _is_files(request: Request) -> bool:
    """Return whether every image is a file of its own, on this machine."""
    return request.scheme in FILE_SCHEMES and not request.is_remote


def _one_by_one(
    sources: Iterable[OneImage], left_out: Counter[str]
) -> Iterator[Request | _Readable]:
    """Yield the data sets, files and images of the sources as they become known."""
    for place, source in enumerate(sources):
        try:
            each = _parse(source, place)
            if isinstance(each, Request) and _is_files(each):
                yield from files_of(each, left_out)
            else:
                yield each
        except DataError as error:
            yield BrokenFile(str(source), str(error))


def _parse(source: OneImage, place: int) -> Request | _GivenImage:
    if isinstance(source, str | Path):
        return parse(str(source), _guess_scheme)
    check_kind(source, place)
    return _GivenImage(f"image {place}", source)


def check_kind(source: object, place: int) -> None:
    """Raise a SettingsError unless this is one image, in a file or in memory."""
    if not isinstance(source, OneImage):
        raise SettingsError(
            f"image {place} is a {type(source).__name__}; give files, PIL images or arrays of "
            f"[height, width, 3], or call a detector with a batch (torch.stack of such tensors)"
        )


def _check_stream(source: ImageStream, size: int) -> None:
    if source.size != size:
        raise SettingsError(
            f"the stream gives images of {source.size} pixels, but {size} are needed; make it with "
            f"size={size}"
        )


def _guess_scheme(path: Path) -> str:
    """Return the scheme of a data set, and "flat" for every other folder or file."""
    is_data_set = not set(possible_schemes(path)) <= {"folder", "flat"}
    return guess_scheme(path) if is_data_set else "flat"


def _stream_parts(
    parts: Sequence[Request | list[_Readable]],
    size: int,
    progress: Progress | None,
    left_out: Counter[str],
) -> Generator[StreamedImage, None, None]:
    for part in parts:
        if isinstance(part, list):
            yield from _stream_files(part, size=size, progress=progress)
        else:
            yield from _stream_request(part, size, progress, left_out)


def _stream_request(
    request: Request, size: int, progress: Progress | None, left_out: Counter[str]
) -> Generator[StreamedImage, None, None]:
    if is_read_from_afar(request):
        threads = FAR_THREADS if request.is_remote else None
        yield from _stream_files(
            readables_of(request, left_out), threads, size=size, progress=progress
        )
    else:
        yield from _stream_images(read_request(request), size, None, progress)


def _stream_mixed(
    items: Iterator[Request | _Readable],
    size: int,
    progress: Progress | None,
    left_out: Counter[str],
) -> Generator[StreamedImage, None, None]:
    """Yield the images; files that follow each other are decoded together."""
    data_set: Request | None = None

    def files() -> Iterator[_Readable]:
        nonlocal data_set
        for item in items:
            if isinstance(item, Request):
                data_set = item
                return
            yield item

    while True:
        data_set = None
        yield from _stream_files(files(), size=size, progress=progress)
        if data_set is None:
            return
        yield from _stream_request(data_set, size, progress, left_out)


def _stream_files(
    files: Iterable[_Readable],
    threads: int | None = None,
    *,
    size: int,
    progress: Progress | None,
) -> Generator[StreamedImage, None, None]:
    def read(file: _Readable) -> StreamedImage:
        if isinstance(file, _GivenImage):
            name, result = file.name, _read_given(file, size)
        else:
            name, result = name_of(file), decode_readable(file, size)
        if isinstance(result, str):
            return StreamedImage(name, None, result)
        return StreamedImage(name, result.image, None, result.enlarged)

    yield from read_in_parallel(read, files, progress, "images", threads)


def _read_given(given: _GivenImage, size: int) -> DecodedImage | str:
    try:
        with damage_explained():
            return resize_picture(_given_picture(given), size)
    except BrokenImageError as error:
        return str(error)


def _given_picture(given: _GivenImage) -> Image.Image:
    if isinstance(given.pixels, np.ndarray):
        try:
            return to_picture(given.pixels)
        except DataError as error:
            raise DataError(f"{given.name}: {error}") from error
    with _LOADING:  # the same image may be given twice, and no two threads may read its file
        return to_rgb(given.pixels)


def _stream_images(
    native: ImageSet,
    size: int,
    indices: Int[np.ndarray, " some"] | None,
    progress: Progress | None,
) -> Generator[StreamedImage, None, None]:
    total = len(native) if indices is None else len(indices)
    enlarged = size > min(native.images.shape[2:])
    for start in range(0, total, IMAGES_AT_ONCE):
        stop = min(start + IMAGES_AT_ONCE, total)
        some = slice(start, stop) if indices is None else indices[start:stop]
        numbers = range(start, stop) if indices is None else indices[start:stop].tolist()
        paths = [native.paths[number] for number in numbers]
        batch = replace(native, images=native.images[some], labels=native.labels[some], paths=paths)
        for path, image in zip(paths, resize_images(batch, size).images, strict=True):
            yield StreamedImage(path, image, None, enlarged)
        if progress is not None:
            progress(stop, total, "images")
