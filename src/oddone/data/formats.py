"""The formats of pictures that are read: their endings, their first bytes, and who reads them.

Only these formats are tried, because files may come from anywhere and every further reader is one
more that could be attacked.
"""

from collections.abc import Callable
from typing import IO

from PIL import (
    AvifImagePlugin,
    BmpImagePlugin,
    GifImagePlugin,
    Image,
    ImageFile,
    Jpeg2KImagePlugin,
    JpegImagePlugin,
    PngImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
    features,
)

HEIC = "HEIC"
FORMATS = {  # what Pillow reads, and the plugins that make it know these formats
    "JPEG": JpegImagePlugin,
    "PNG": PngImagePlugin,
    "WEBP": WebPImagePlugin,
    "BMP": BmpImagePlugin,
    "GIF": GifImagePlugin,
    "TIFF": TiffImagePlugin,
    "AVIF": AvifImagePlugin,
    "JPEG2000": Jpeg2KImagePlugin,
}
ENDINGS = frozenset(
    f".{ending}"
    for ending in (
        *("apng", "avif", "avifs", "bmp", "gif", "heic", "heif", "hif", "j2c", "j2k", "jfif"),
        *("jp2", "jpc", "jpe", "jpeg", "jpf", "jpg", "jpx", "mpo", "png", "tif", "tiff", "webp"),
    )
)
START = 64  # bytes of a file by which its format is told

NEEDS_HEIF = "HEIC needs a package that is not here: pip install 'oddone[heif]'"
_CODECS = {"AVIF": "avif", "JPEG2000": "jpg_2000"}  # which some builds of Pillow lack
_AVIF_BRANDS = {b"avif", b"avis"}
_HEIC_BRANDS = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs"}

Reader = Callable[[IO[bytes], str], ImageFile.ImageFile]


def format_of(start: bytes) -> str | None:
    """Return the format of a file that begins with these bytes; None if it is not one of ours."""
    if start[4:8] == b"ftyp":
        return _format_of_container(start)
    for name in FORMATS:
        accept = Image.OPEN[name][1]
        if accept is not None and accept(start) is True:
            return name
    return None


def reader_or_reason(name: str) -> Reader | str:
    """Return what opens a file of this format, or the reason why nothing here does."""
    if name == HEIC:
        return _heic_reader()
    if name in _CODECS and not features.check(_CODECS[name]):
        return f"{name} is unknown to the Pillow that is installed: pip install --upgrade pillow"
    return Image.OPEN[name][0]


def heic_is_readable() -> bool:
    """Return whether the package of the extra `heif` is installed."""
    return not isinstance(_heic_reader(), str)


def _format_of_container(start: bytes) -> str | None:
    """Return the format inside an ISO container (ftyp), by the brands that it lists.

    The first brand alone does not tell: "mif1" begins files of both formats, and of others.
    """
    length = min(int.from_bytes(start[:4]), len(start))
    brands = {start[place : place + 4] for place in range(8, length, 4)}
    if brands & _AVIF_BRANDS:
        return "AVIF"
    return HEIC if brands & _HEIC_BRANDS else None


def _heic_reader() -> Reader | str:
    try:
        from pillow_heif import HeifImageFile  # noqa: PLC0415  (an extra)
    except ImportError:
        return NEEDS_HEIF
    return HeifImageFile
