"""Odd pictures, made on the spot: all formats and modes, and files that lie about themselves."""

import io
import struct
import zlib
from collections.abc import Iterator

import numpy as np
from mutations import PNG_START, mutated_files
from PIL import Image, PngImagePlugin, features

SIZE = (26, 18)
_ENDINGS = {"JPEG": "jpg", "JPEG2000": "jp2"}


def valid_pictures() -> dict[str, bytes]:
    """Return small pictures in every format, mode and option that is read, by file name."""
    pictures = dict(_in_all_modes())
    for number, (form, mode, options) in enumerate(_options()):
        pictures[f"option-{number}.{_ending(form)}"] = _encoded(noise(mode), form, **options)
    frames = [noise("RGB", seed) for seed in range(3)]
    for form in ("GIF", "PNG", "TIFF", "WEBP"):
        content = _encoded(frames[0], form, save_all=True, append_images=frames[1:], duration=40)
        pictures[f"animated.{_ending(form)}"] = content
    return pictures | _heic_pictures()


def mutated_pictures(number: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Yield so many pictures that were changed at random, with their names."""
    valid = valid_pictures() | {
        name: content for name, content in hostile_pictures().items() if len(content) < 2**16
    }
    return mutated_files(valid, number, seed)


def hostile_pictures() -> dict[str, bytes]:
    """Return pictures made to break a reader, or to make it slow or large."""
    jpeg, gif = _encoded(noise("RGB"), "JPEG"), _encoded(noise("P"), "GIF")
    lies = struct.pack(">IIBBBBB", 9, 9, 3, 7, 9, 9, 9)
    return {
        "empty.png": b"",
        "one-byte.jpg": b"\xff",
        "start-only.png": PNG_START,
        "start-only.jpg": b"\xff\xd8\xff",
        "one-pixel.png": _encoded(Image.new("RGB", (1, 1), "red"), "PNG"),
        "wide.png": _encoded(Image.new("RGB", (60_000, 1)), "PNG"),
        "high.png": _encoded(Image.new("L", (1, 60_000)), "PNG"),
        "wide.jpg": _encoded(Image.new("RGB", (60_000, 1)), "JPEG"),
        "wide.tif": _encoded(Image.new("I;16", (60_000, 1)), "TIFF"),
        "no-palette.png": _png(1, 1, colours=3),
        "short-palette.png": _png(26, 18, colours=3, before=_chunk(b"PLTE", b"\1\2\3")),
        "no-pixels.png": _png(0, 0),
        "bits-of-nothing.png": PNG_START + _chunk(b"IHDR", lies),
        "largest-sides.png": _png(2**31 - 1, 2**31 - 1),
        "promised-90000-rows.png": _png(12_000, 90_000),
        "promised-8000-rows.png": _png(8_000, 8_000),
        "text-bomb.png": _png_with(b"zTXt", b"a\0\0" + zlib.compress(bytes(2**22)), times=9),
        "profile-junk.png": _png_with(b"iCCP", b"icc\0\0" + zlib.compress(b"junk" * 999)),
        "profile-bomb.png": _png_with(b"iCCP", b"icc\0\0" + zlib.compress(bytes(2**24))),
        "exif-junk.png": _png_with(b"eXIf", b"MM\0*\xff\xff\xff\xff"),
        "exif-of-many-tags.png": _png_with(b"eXIf", _tags_on_one_place(4_000, 48_000)),
        "exif-in-circles.jpg": _with_segment(jpeg, 0xE1, b"Exif\0\0" + _nested_exif(circular=True)),
        "exif-nested.jpg": _with_segment(jpeg, 0xE1, b"Exif\0\0" + _nested_exif(circular=False)),
        "exif-twice.jpg": _with_segment(jpeg, 0xE1, b"Exif\0\0" + _tags_on_one_place(2, 9) * 99),
        "profile-of-lies.jpg": _with_segment(jpeg, 0xE2, b"ICC_PROFILE\0\xff\0" + b"j" * 99),
        "adobe-of-lies.jpg": _with_segment(jpeg, 0xEE, b"Adobe\0\x64\0\0\0\0\xff"),
        "multi-picture-of-lies.jpg": _with_segment(jpeg, 0xE2, b"MPF\0II*\0\xff\xff\xff\x7f"),
        "tags-on-one-place.tif": _tags_on_one_place(4_000, 48_000),
        "huge-tile.tif": _tiff({322: 2**16 - 16, 323: 2**16 - 16, 324: 8}),
        "huge-strip.tif": _tiff({278: 2**32 - 1, 279: 2**32 - 1}),
        "no-strips.tif": _tiff({273: 2**32 - 1}),
        "many-samples.tif": _tiff({277: 2**16 - 1}),
        "next-is-itself.tif": _tiff({}, following=8),
        "frame-outside.gif": gif.replace(struct.pack("<HH", *SIZE), b"\t\0\xff\xff", 1),
        "rows-of-lies.bmp": _bmp(height=-(2**31), bits=32, packing=3, colours=0),
        "palette-of-lies.bmp": _bmp(height=9, bits=8, packing=1, colours=2**32 - 1),
        "brands-only.avif": struct.pack(">I", 28) + b"ftypavif\0\0\0\0avifmif1miaf",
        "brands-only.heic": struct.pack(">I", 24) + b"ftypheic\0\0\0\0mif1heic",
        "size-of-lies.webp": _webp_of_lies(),
        "size-of-lies.jp2": _jpeg2000_of_lies(),
    }


def heavy_pictures() -> dict[str, bytes]:
    """Return pictures that ask for more time or memory than any others of their length."""
    jpeg, bits = _encoded(noise("RGB"), "JPEG"), Image.new("1", (9_400, 9_400))
    return {
        "scans-in-thousands.jpg": progressive_jpeg(5_000, scans=2_000),
        "paddings.jpg": jpeg[:2] + b"\xff" * 12_000_000 + jpeg[2:],
        "comments.jpg": jpeg[:2] + b"\xff\xfe\0\2" * 4_000_000 + jpeg[2:],
        "chunks.png": _png_with(b"teSt", b"", times=1_500_000),
        "flat-89-million.png": _flat_png(9_400),
        "flat-89-million.gif": _encoded(Image.new("L", (9_400, 9_400)), "GIF"),
        "flat-36-million.webp": _encoded(Image.new("RGB", (6_000, 6_000)), "WEBP", lossless=True),
        "flat-42-million.jp2": _encoded(Image.new("RGB", (6_500, 6_500)), "JPEG2000"),
        "flat-88-million.tif": _encoded(bits, "TIFF", compression="group4"),
        "flat-162-million.jpg": _encoded(Image.new("L", (18_000, 9_000)), "JPEG", quality=1),
        "with-alpha-49-million.png": _flat_png(7_000, alpha=True),
    }


def progressive_jpeg(side: int, scans: int) -> bytes:
    """Return a progressive JPEG whose last scan, of a hundred bytes, comes so many times more."""
    content = _encoded(Image.new("L", (side, side)), "JPEG", progressive=True)
    last = content.rindex(b"\xff\xda")
    return content[:-2] + content[last:-2] * scans + content[-2:]


def _in_all_modes() -> Iterator[tuple[str, bytes]]:
    for form in ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "AVIF", "JPEG2000"):
        if form == "AVIF" and not features.check("avif"):
            continue
        for mode in [*Image.MODES, "I;16", "I;16B"]:
            try:
                content = _encoded(noise(mode), form)
            except (OSError, ValueError, KeyError):
                continue  # a mode that this format has not
            yield f"{mode.replace(';', '-').lower()}.{_ending(form)}", content


def _options() -> Iterator[tuple[str, str, dict[str, object]]]:
    yield from (("JPEG", "RGB", {"quality": quality}) for quality in (1, 100))
    yield "JPEG", "RGB", {"progressive": True, "comment": b"comment"}
    yield "JPEG", "RGB", {"subsampling": "4:2:0", "restart_marker_blocks": 1}
    yield "JPEG", "RGB", {"icc_profile": b"junk" * 30_000}
    yield "JPEG", "CMYK", {"exif": _tags_on_one_place(3, 20)}
    for packing in ("raw", "tiff_lzw", "tiff_adobe_deflate", "packbits", "jpeg", "lzma", "zstd"):
        yield "TIFF", "RGB", {"compression": packing}
    for compression in ("group3", "group4", "tiff_ccitt"):
        yield "TIFF", "1", {"compression": compression}
    yield "PNG", "RGB", {"transparency": (1, 2, 3)}
    yield "PNG", "P", {"transparency": bytes(range(256)), "bits": 4}
    yield "PNG", "RGB", {"pnginfo": _text(), "exif": _tags_on_one_place(3, 20)}
    yield "GIF", "P", {"transparency": 3, "interlace": 1, "comment": b"c" * 600}
    yield "WEBP", "RGBA", {"lossless": True, "exif": _tags_on_one_place(3, 20)}
    yield "WEBP", "RGB", {"quality": 1}
    yield "JPEG2000", "RGB", {"tile_size": (8, 8), "num_resolutions": 2}
    yield "JPEG2000", "RGBA", {"irreversible": True, "no_jp2": True}


def _heic_pictures() -> dict[str, bytes]:
    try:
        from pillow_heif import from_pillow  # noqa: PLC0415  (an extra)
    except ImportError:
        return {}
    stream = io.BytesIO()
    from_pillow(noise("RGB")).save(stream, format="HEIF", quality=50)
    return {"rgb.heic": stream.getvalue()}


def _text() -> PngImagePlugin.PngInfo:
    text = PngImagePlugin.PngInfo()
    text.add_text("Title", "t" * 300, zip=True)
    text.add_itxt("XML:com.adobe.xmp", '<x tiff:Orientation="6"/>')
    return text


def noise(mode: str, seed: int = 0) -> Image.Image:
    """Return a picture whose left half is noise and whose right half is flat."""
    generator = np.random.default_rng(seed)
    width, height = SIZE
    pixels = generator.integers(0, 256, (height, width, 3), dtype=np.uint8)
    pixels[:, width // 2 :] = 90
    if mode == "F":
        return Image.fromarray(pixels[..., 0].astype(np.float32) / 255)
    if mode.startswith("I;16"):
        deep = pixels[..., 0].astype("<u2" if mode == "I;16" else ">u2")
        return Image.frombytes(mode, SIZE, (deep * 200).tobytes())
    return Image.fromarray(pixels).convert(mode)


def _encoded(image: Image.Image, form: str, **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


def _ending(form: str) -> str:
    return _ENDINGS.get(form, form.lower())


def _chunk(kind: bytes, content: bytes) -> bytes:
    check = struct.pack(">I", zlib.crc32(kind + content))
    return struct.pack(">I", len(content)) + kind + content + check


def _png(width: int, height: int, *, colours: int = 2, before: bytes = b"") -> bytes:
    """Return a PNG file with a thousand bytes of pixels, whatever size its header tells."""
    header = struct.pack(">IIBBBBB", width, height, 8, colours, 0, 0, 0)
    pixels = zlib.compress(bytes(1_000))
    return (
        PNG_START
        + _chunk(b"IHDR", header)
        + before
        + _chunk(b"IDAT", pixels)
        + _chunk(b"IEND", b"")
    )


def _png_with(kind: bytes, content: bytes, *, times: int = 1) -> bytes:
    """Return a good PNG file with one more chunk, or the same one many times."""
    png = _encoded(noise("RGB"), "PNG")
    return png[:33] + times * _chunk(kind, content) + png[33:]


def _bmp(*, height: int, bits: int, packing: int, colours: int) -> bytes:
    """Return the header of a BMP file."""
    about = struct.pack("<IiiHHIIiiII", 40, 9, height, 1, bits, packing, 9, 0, 0, colours, 9)
    return b"BM" + struct.pack("<III", 99, 0, 54) + about


def _flat_png(side: int, *, alpha: bool = False) -> bytes:
    """Return a black PNG, without having it in memory."""
    packer, row = zlib.compressobj(1), bytes(1 + side * (3 + alpha))
    pixels = b"".join(packer.compress(row) for _ in range(side)) + packer.flush()
    header = struct.pack(">IIBBBBB", side, side, 8, 6 if alpha else 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", pixels), (b"IEND", b""))
    return PNG_START + b"".join(_chunk(kind, content) for kind, content in chunks)


def _with_segment(jpeg: bytes, marker: int, content: bytes) -> bytes:
    """Return a JPEG with one more segment after its beginning."""
    return jpeg[:2] + struct.pack(">BBH", 0xFF, marker, len(content) + 2) + content + jpeg[2:]


def _tiff(
    changes: dict[int, int], *, more: bytes = b"", entries: int = 0, following: int = 0
) -> bytes:
    """Return an eight by eight, grey, unpacked TIFF with some tags changed and some added."""
    tags = {256: 8, 257: 8, 258: 8, 259: 1, 262: 1, 273: 0, 277: 1, 278: 8, 279: 64} | changes
    place = 8 + 2 + 12 * (len(tags) + entries) + 4
    tags[273] = tags[273] or place
    listed = b"".join(struct.pack("<HHII", tag, 4, 1, tags[tag]) for tag in sorted(tags)) + more
    count = struct.pack("<H", len(tags) + entries)
    return b"II*\0\x08\0\0\0" + count + listed + struct.pack("<I", following) + bytes(64)


def _tags_on_one_place(tags: int, length: int) -> bytes:
    """Return a TIFF, or EXIF, in which many tags have the same bytes, as if they were theirs."""
    place = 8 + 2 + 12 * (9 + tags) + 4
    more = b"".join(struct.pack("<HHII", 40_000 + tag, 1, length, place) for tag in range(tags))
    return _tiff({}, more=more, entries=tags) + bytes(length)


def _nested_exif(*, circular: bool) -> bytes:
    """Return EXIF whose directories lead on to others, and perhaps back to the first."""
    directories = 60
    parts = [b"II*\0\x08\0\0\0"]
    for number in range(directories):
        following = 8 + 30 * (number + 1)
        target = 8 if circular or number == directories - 1 else following
        entries = b"".join(struct.pack("<HHII", tag, 4, 1, target) for tag in (0x8769, 0xA005))
        parts.append(struct.pack("<H", 2) + entries + struct.pack("<I", target))
    return b"".join(parts)


def _webp_of_lies() -> bytes:
    content = bytearray(_encoded(noise("RGB"), "WEBP"))
    place = content.index(b"VP8 ") + 14
    content[place : place + 4] = b"\xff\x3f\xff\x3f"
    return bytes(content)


def _jpeg2000_of_lies() -> bytes:
    content = bytearray(_encoded(noise("RGB"), "JPEG2000"))
    place = content.index(b"\xff\x51") + 6
    content[place : place + 8] = struct.pack(">II", 2**31 - 1, 2**31 - 1)
    return bytes(content)
