"""Decode picture files into square RGB images, and do so for many files in parallel."""

import io
import itertools
import os
import struct
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageFile, TiffImagePlugin

from oddone.data.file_tree import stat_or_reason
from oddone.data.formats import START, format_of, reader_or_reason
from oddone.data.jpeg2000_blocks import bytes_of_blocks
from oddone.data.jpeg_scans import Scans, read_scans
from oddone.data.limits import LONGEST_REASON, DamagedFileError, decoding_budget
from oddone.data.quiet_tiff import without_tiff_messages
from oddone.errors import OddOneError
from oddone.progress import Progress

MOST_PIXELS = 178_956_970  # what Pillow calls a decompression bomb
BUDGET = decoding_budget()
"""Memory for all pictures that are decoded at a time: others wait, and a larger one is refused."""
MOST_READS = 1_000_000
"""In how many parts a file may be read: of the tiniest, a decoder reads so many in a second."""
MOST_SCANNED_PIXELS = 2**31
"""Pixels of a JPEG times its scans, each of which may go over all in a few bytes."""
BATCH = 16  # items per task of a thread: starting a task takes as long as decoding a small picture

# Bytes that a pixel takes at the worst moment, as measured: decoded, in RGB and upright; with alpha
# also on white; and inside the decoder, where that does not work in strips.
_PER_PIXEL = 12
_PER_PIXEL_WITH_ALPHA = 20
_IN_THE_DECODER = {"WEBP": 12, "AVIF": 12, "JPEG2000": 12, "HEIF": 8}
_PER_COEFFICIENT = 2  # bytes, for each component of a pixel
_TILE_WIDTH, _TILE_LENGTH = 322, 323  # of a TIFF, whose tile may be larger than the picture

_JPEG = ("JPEG", "MPO")
_ORIENTATION = 0x0112  # the EXIF tag, and the operation that undoes each of its values
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

Item = TypeVar("Item")
Result = TypeVar("Result")


class BrokenImageError(Exception):
    """The file cannot be read as an image; the message is a short reason for people."""


class DecodedImage(NamedTuple):
    """An image of the wanted size, and whether the picture was smaller than that."""

    image: UInt8[np.ndarray, "3 size size"]
    enlarged: bool


def decode(source: Path | bytes, size: int) -> UInt8[np.ndarray, "3 size size"]:
    """Return the central square of a picture in RGB, upright and resized with antialiasing.

    Transparent pictures get a white background; of an animation, the first frame is taken.
    Raises BrokenImageError if the picture cannot be read.
    """
    return decode_picture(source, size).image


def decode_picture(source: Path | bytes, size: int, most_pixels: int = MOST_PIXELS) -> DecodedImage:
    """Return the image as `decode` does, and whether it was enlarged; refuse very large ones."""
    # A JPEG decoder that skips detail averages crudely. It stays twice as large as needed, so that
    # the resizing, which averages well, does the last step.
    opened = open_picture(source, at_least=2 * size, most_pixels=most_pixels)
    with damage_explained(), opened as picture:
        return resize_picture(picture, size)


def decode_or_reason(source: Path | bytes, size: int) -> DecodedImage | str:
    """Return the image in a file as `decode_picture` does, or why the file cannot be read."""
    try:
        return decode_picture(source, size)
    except BrokenImageError as error:
        return str(error)


def resize_picture(picture: Image.Image, size: int) -> DecodedImage:
    """Return the central square of a picture in RGB as an image."""
    square = central_square(picture, size)
    image = np.ascontiguousarray(np.asarray(square).transpose(2, 0, 1))
    return DecodedImage(image, enlarged=min(picture.size) < size)


def read_picture(source: Path | bytes) -> Image.Image:
    """Return the whole picture in RGB and upright. Raises BrokenImageError if it cannot be read."""
    with open_picture(source) as picture:
        return picture


@contextmanager
def open_picture(
    source: Path | bytes, at_least: int | None = None, most_pixels: int = MOST_PIXELS
) -> Iterator[Image.Image]:
    """Yield the picture as `read_picture` returns it; until it is left, its memory is reserved.

    With `at_least`, a JPEG may come out smaller, but no side below that many pixels: its decoder
    saves time and memory by skipping detail.
    """
    with _open(source, most_pixels) as image:
        width, height = image.size
        scans = _read_scans(image)
        kept = width * height * _PER_COEFFICIENT * scans.components if scans and scans.kept else 0
        if at_least is not None and image.format in _JPEG:
            image.draft(image.mode, (at_least, at_least))
        taken = kept + _bytes_to_decode(image)
        if taken > BUDGET.total:
            raise BrokenImageError(
                f"{width} x {height} pixels take {taken / 2**20:,.0f} MB to decode, more than "
                f"{BUDGET.total / 2**20:,.0f} MB: make it smaller"
            )
        with BUDGET.reserve(taken):
            yield to_rgb(image)


def _read_scans(image: ImageFile.ImageFile) -> Scans | None:
    """Return the scans of a JPEG. One that would be gone over for minutes is a BrokenImageError.

    It takes ten bytes to go over all pixels once more. Programs write about ten scans.
    """
    if image.format not in _JPEG or image.fp is None:
        return None
    width, height = image.size
    scans = read_scans(cast("io.BufferedIOBase", image.fp))
    if width * height * scans.number > MOST_SCANNED_PIXELS:
        raise BrokenImageError(f"{scans.number:,} scans of {width} x {height} pixels take too long")
    return scans


def _bytes_to_decode(image: ImageFile.ImageFile) -> int:
    """Return about how many bytes it takes to decode a picture, of which the header is read."""
    width, height = image.size  # as it will be decoded
    has_alpha = image.has_transparency_data or image.mode.startswith(("I", "F"))
    each = _PER_PIXEL_WITH_ALPHA if has_alpha else _PER_PIXEL
    taken = width * height * (each + _IN_THE_DECODER.get(image.format or "", 0))
    if image.format == "JPEG2000":
        taken += bytes_of_blocks(cast("io.BufferedIOBase", image.fp))
    if isinstance(image, TiffImagePlugin.TiffImageFile):
        tile = int(image.tag_v2.get(_TILE_WIDTH, 0)) * int(image.tag_v2.get(_TILE_LENGTH, 0))
        taken += tile * _PER_PIXEL
    return taken


def to_rgb(image: Image.Image) -> Image.Image:
    """Return an image in RGB, upright by its EXIF orientation, transparent parts on white.

    Raises BrokenImageError if its file, not read yet, cannot be read.
    """
    with damage_explained():
        image.load()
        return _upright(image)


def _upright(image: Image.Image) -> Image.Image:
    orientation = _orientation(image)
    rgb = _as_rgb(image)
    return rgb.transpose(_UPRIGHT[orientation]) if orientation in _UPRIGHT else rgb


def shorter_side(source: Path | bytes) -> int | None:
    """Return the shorter side of a picture from its header, or None if that cannot be read."""
    try:
        with _open(source) as image:
            return min(image.size)
    except BrokenImageError:
        return None  # the reason is reported when the file is decoded


@contextmanager
def damage_explained() -> Iterator[None]:
    """Turn whatever is raised while a picture is read into a BrokenImageError with a reason.

    A list of what decoders raise for damaged files would never be complete: AssertionErrors and
    MemoryErrors are among it. One picture must not end the work on all others.
    """
    try:
        yield
    except (BrokenImageError, OddOneError):
        raise
    except Exception as error:
        raise BrokenImageError(_reason(error)) from error


@contextmanager
def without_warnings() -> Iterator[None]:
    """Turn off Pillow's warnings about strange metadata, and the messages of libtiff.

    Either they do not matter, or the file ends up as broken. Threads share this setting, so use
    it around all of them, never inside one.
    """
    with warnings.catch_warnings(), without_tiff_messages():
        warnings.filterwarnings("ignore", module=r"PIL\.")
        yield


def central_square(image: Image.Image, size: int) -> Image.Image:
    """Return the central square of the image, resized to `size` pixels with antialiasing."""
    width, height = image.size
    side = min(width, height)
    left, top = (width - side) / 2, (height - side) / 2
    # Pillow's bilinear filter grows with the reduction, which is antialiasing.
    box = (left, top, left + side, top + side)
    return image.resize((size, size), Image.Resampling.BILINEAR, box=box)


def in_parallel(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    progress: Progress | None,
    what: str,
    threads: int | None = None,
) -> Iterator[Result]:
    """Yield `work(item)` for each item, in order; threads compute a few batches ahead.

    Pillow releases the GIL while it decodes and resizes, so processes are not needed.
    `progress` is told how many of the items are done, and that they are called `what`. Items that
    become known one by one are taken as they are needed; of how many is then told as 0. There is a
    thread for each core, unless the work is to wait for others.
    """
    threads = _cores() if threads is None else threads
    total = len(items) if isinstance(items, Sized) else 0
    waiting = iter(items)
    batches = iter(lambda: list(itertools.islice(waiting, BATCH)), [])
    done = 0
    with ThreadPoolExecutor(threads) as pool:
        pending: deque[Future[list[Result]]] = deque()

        def begin(count: int) -> None:
            for batch in itertools.islice(batches, count):
                pending.append(pool.submit(lambda batch: [work(item) for item in batch], batch))

        try:
            begin(3 * threads)
            while pending:
                results = pending.popleft().result()
                begin(1)
                yield from results
                done += len(results)
                if progress is not None:
                    progress(done, total, what)
        finally:  # after an error or Ctrl-C, do not start the tasks that still wait
            for future in pending:
                future.cancel()


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def _open(source: Path | bytes, most_pixels: int = MOST_PIXELS) -> Iterator[ImageFile.ImageFile]:
    """Open a picture, read its header and check its size. Damage is a BrokenImageError."""
    with damage_explained(), _stream(source) as stream:
        image = _open_header(stream)
        width, height = image.size
        if width * height > most_pixels:
            raise BrokenImageError(f"{width} x {height} pixels is too large")
        yield image


class _CountedReads(io.BufferedReader):
    """A file that cannot be read in any number of parts.

    Decoders go through headers and metadata in Python. Where each part has a few bytes, a file of
    ten megabytes takes them many seconds.
    """

    reads = 0

    def read(self, size: int | None = -1, /) -> bytes:
        self.reads += 1
        if self.reads > MOST_READS:
            raise BrokenImageError(f"it has over {MOST_READS:,} parts")
        return super().read(size)


def _stream(source: Path | bytes) -> _CountedReads:
    if isinstance(source, bytes):
        return _CountedReads(cast("io.RawIOBase", io.BytesIO(source)))
    status = stat_or_reason(source)
    if isinstance(status, str):
        is_folder = os.path.isdir(source)  # noqa: PTH112, Path.is_dir fails in a locked folder
        raise BrokenImageError("is a directory" if is_folder else status)
    return _CountedReads(source.open("rb", buffering=0))


def _open_header(stream: io.BufferedReader) -> ImageFile.ImageFile:
    """Return the picture with only its header read.

    Image.open does the same, but it warns of large pictures, and a single thread cannot catch
    warnings. So the format is told here.
    """
    start = stream.read(START)
    if not start:
        raise BrokenImageError("empty file")
    name = format_of(start)
    if name is None:
        raise BrokenImageError("not an image of a known format")
    reader = reader_or_reason(name)
    if isinstance(reader, str):
        raise BrokenImageError(reader)
    stream.seek(0)
    try:
        return reader(stream, "")
    except (SyntaxError, IndexError, TypeError, struct.error) as error:
        raise BrokenImageError(f"damaged {name} header") from error


def _reason(error: Exception) -> str:
    if isinstance(error, DamagedFileError):
        return str(error)
    if isinstance(error, MemoryError):
        return "it takes more memory than there is"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()  # from the system, such as permission denied
    if isinstance(error, EOFError) or "truncated" in str(error).lower():
        return "truncated"
    if isinstance(error, Image.DecompressionBombError):
        return "a frame of it is too large"
    what = " ".join(str(error).split())[:LONGEST_REASON]  # some decoders end theirs with a new line
    return f"damaged: {what}" if what else "damaged"


def _orientation(image: Image.Image) -> int:
    try:
        orientation = image.getexif().get(_ORIENTATION, 1)
    except Exception:  # noqa: BLE001, only the metadata is damaged, not the picture
        return 1
    return orientation if isinstance(orientation, int) else 1


def _as_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I") or image.mode == "F":
        image = _eight_bit(image)
    if image.has_transparency_data:
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image.convert("RGBA"))
    return image.convert("RGB")


def _eight_bit(image: Image.Image) -> Image.Image:
    """Return a grey picture of 16 bits or floats in 8 bits. Pillow itself would clip at 255."""
    pixels = np.asarray(image)
    white, kind = (1, "floating-point") if image.mode == "F" else (65535, "integer")
    if not (pixels.min() >= 0 and pixels.max() <= white):
        raise BrokenImageError(
            f"{kind} pixels from {pixels.min():g} to {pixels.max():g}, outside 0 to {white}"
        )
    return Image.fromarray(np.rint(pixels * np.float32(255 / white)).astype(np.uint8))
