"""Pictures for the tests of data sources, made on the spot."""

import errno
import io
import os
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

CORNERS = ((255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 0))  # from the top left, by rows


def quarters(width: int = 64, height: int = 64) -> Image.Image:
    """Return a picture whose quarters are red and green above blue and yellow."""
    pixels = np.zeros((height, width, 3), dtype=np.uint8)
    for corner, colour in enumerate(CORNERS):
        row, column = divmod(corner, 2)
        rows = slice(row * height // 2, (row + 1) * height // 2)
        pixels[rows, column * width // 2 : (column + 1) * width // 2] = colour
    return Image.fromarray(pixels)


def noise(seed: int = 0, width: int = 40, height: int = 40) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def encoded(image: Image.Image, form: str, **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


def heic(image: Image.Image, **options: object) -> bytes:
    """Return the picture as phones write it; skip the test without the extra for that."""
    package = pytest.importorskip("pillow_heif")
    stream = io.BytesIO()
    package.from_pillow(image).save(stream, format="HEIF", quality=95, chroma=444, **options)
    return stream.getvalue()


def bomb_png(width: int = 12000, height: int = 90000) -> bytes:
    """Return a small PNG file whose header promises that many pixels."""
    return png(width, height, _RGB, bytes(100))


def png_without_palette() -> bytes:
    """Return a PNG of one pixel, whose colour is looked up in a palette that is not there."""
    return png(1, 1, _INDEXED, bytes(2))


_RGB, _INDEXED = 2, 3


def png(width: int, height: int, colours: int, rows: bytes) -> bytes:
    """Return a PNG file with this header and these rows, whether they fit together or not."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + check

    header = struct.pack(">IIBBBBB", width, height, 8, colours, 0, 0, 0)
    content = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + content


def jpeg_of_scans(
    side: int, components: int, scans: Iterable[int], *, empty: bool = False
) -> bytes:
    """Return a black baseline JPEG with a scan for each of these components, or none of its data.

    Its Huffman tables have a single symbol, the zero, which takes a bit.
    """

    def segment(marker: int, content: bytes) -> bytes:
        return struct.pack(">BBH", 0xFF, marker, len(content) + 2) + content

    listed = b"".join(bytes((number + 1, 0x11, 0)) for number in range(components))
    blocks = (-(-side // 8)) ** 2
    data = b"" if empty else bytes(-(-2 * blocks // 8))
    return (
        b"\xff\xd8"
        + segment(0xDB, b"\0" + bytes([1] * 64))
        + segment(0xC0, struct.pack(">BHHB", 8, side, side, components) + listed)
        + b"".join(segment(0xC4, bytes([table, 1, *[0] * 16])) for table in (0x00, 0x10))
        + b"".join(segment(0xDA, bytes([1, number + 1, 0, 0, 63, 0])) + data for number in scans)
        + b"\xff\xd9"
    )


def make_folder(root: Path, classes: dict[str, int], side: int = 40) -> Path:
    """Write so many pictures of noise for each class, and return the root."""
    for label, (name, count) in enumerate(classes.items()):
        (root / name).mkdir(parents=True)
        for i in range(count):
            noise(100 * label + i, side, side).save(root / name / f"{i}.png")
    return root


def lock(monkeypatch: pytest.MonkeyPatch, *folders: Path) -> None:
    """Let the folders be locked, also for root, who may open everything."""
    scandir = os.scandir

    def guarded(folder: Path) -> object:
        if Path(folder) in folders:
            raise PermissionError(errno.EACCES, "Permission denied")
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", guarded)
