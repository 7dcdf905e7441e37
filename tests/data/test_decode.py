import io
import logging
import os
import struct
import sys
import threading
import time
import warnings
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from pictures import (
    CORNERS,
    bomb_png,
    encoded,
    jpeg_of_scans,
    noise,
    png_without_palette,
    quarters,
)
from PIL import Image

import oddone.data.decode as decoding
from oddone.data import jpeg_scans
from oddone.data.decode import (
    BrokenImageError,
    decode,
    in_parallel,
    shorter_side,
    without_warnings,
)
from oddone.data.jpeg2000_blocks import BYTES_PER_BLOCK, BYTES_PER_TILE, bytes_of_blocks
from oddone.data.jpeg_scans import read_scans
from oddone.data.limits import MemoryBudget, decoding_budget


def corners(image: np.ndarray) -> list[tuple[int, ...]]:
    """Return the colours in the middle of each quarter, from the top left, by rows."""
    quarter = image.shape[1] // 4
    places = [(y, x) for y in (quarter, -quarter) for x in (quarter, -quarter)]
    return [tuple(image[:, y, x].tolist()) for y, x in places]


def assert_corners(image: np.ndarray, expected: tuple[tuple[int, ...], ...] = CORNERS) -> None:
    np.testing.assert_allclose(corners(image), expected, atol=12)


# --- Formats and modes ------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "AVIF", "JPEG2000"])
def test_every_format_shows_the_same_picture(form: str) -> None:
    options = {"quality": 95, "subsampling": 0} if form == "JPEG" else {}
    image = decode(encoded(quarters(), form, **options), 32)
    assert image.shape == (3, 32, 32)
    assert image.dtype == np.uint8
    assert_corners(image)


@pytest.mark.parametrize("compression", ["tiff_lzw", "tiff_adobe_deflate", "jpeg"])
def test_compressed_tiff_is_read(compression: str) -> None:
    assert_corners(decode(encoded(quarters(), "TIFF", compression=compression), 32))


def test_a_file_and_its_bytes_are_the_same_picture(tmp_path: Path) -> None:
    content = encoded(noise(), "PNG")
    (tmp_path / "a.png").write_bytes(content)
    np.testing.assert_array_equal(decode(tmp_path / "a.png", 20), decode(content, 20))


def test_a_picture_of_the_asked_size_keeps_every_pixel() -> None:
    picture = noise()
    image = decode(encoded(picture, "PNG"), 40)
    np.testing.assert_array_equal(image.transpose(1, 2, 0), np.asarray(picture))


@pytest.mark.parametrize("mode", ["1", "L"])
def test_grey_is_the_same_in_all_channels(mode: str) -> None:
    image = decode(encoded(quarters().convert(mode), "PNG"), 32)
    assert (image == image[:1]).all()
    assert image.min() < 100
    assert image.max() > 200


def test_a_palette_is_looked_up() -> None:
    assert_corners(decode(encoded(quarters().quantize(8), "PNG"), 32))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("form", ["PNG", "GIF"])
def test_a_transparent_palette_colour_is_white(form: str) -> None:
    palette = Image.new("P", (8, 8), 0)
    palette.putpalette([10, 20, 30, 200, 100, 0])
    palette.paste(1, (0, 0, 8, 4))
    image = decode(encoded(palette, form, transparency=0), 8)
    assert image[:, 0, 0].tolist() == [200, 100, 0]
    assert image[:, -1, 0].tolist() == [255, 255, 255]


def test_a_palette_with_shades_of_transparency_is_laid_on_white() -> None:
    palette = Image.new("P", (8, 8), 0)
    palette.putpalette([0, 0, 0, 200, 100, 0])
    image = decode(encoded(palette, "PNG", transparency=bytes([51, 255])), 8)
    assert (image == 204).all()


@pytest.mark.parametrize("form", ["PNG", "WEBP", "TIFF"])
def test_alpha_is_laid_on_white(form: str) -> None:
    options = {"lossless": True} if form == "WEBP" else {}
    image = decode(encoded(Image.new("RGBA", (8, 8), (0, 100, 200, 51)), form, **options), 8)
    np.testing.assert_allclose(image[:, 0, 0], [204, 224, 244], atol=1)


def test_grey_with_alpha_is_laid_on_white() -> None:
    assert (decode(encoded(Image.new("LA", (8, 8), (0, 51)), "PNG"), 8) == 204).all()


def test_a_transparent_colour_is_white() -> None:
    image = decode(encoded(Image.new("RGB", (8, 8), (1, 2, 3)), "PNG", transparency=(1, 2, 3)), 8)
    assert (image == 255).all()


@pytest.mark.parametrize("form", ["JPEG", "TIFF"])
def test_cmyk_has_the_colours_that_were_meant(form: str) -> None:
    options = {"quality": 95, "subsampling": 0} if form == "JPEG" else {}
    assert_corners(decode(encoded(quarters().convert("CMYK"), form, **options), 32))


@pytest.mark.parametrize("form", ["PNG", "TIFF"])
def test_sixteen_bits_are_scaled_and_not_clipped(form: str) -> None:
    deep = np.repeat(np.array([0, 257, 32768, 65535], dtype=np.uint16)[None], 4, axis=0)
    image = decode(encoded(Image.fromarray(deep), form), 4)
    assert image[0, 0].tolist() == [0, 1, 128, 255]


def test_floating_point_grey_is_read_from_0_to_1() -> None:
    grey = np.full((4, 4), 0.2, dtype=np.float32)
    assert (decode(encoded(Image.fromarray(grey), "TIFF"), 4) == 51).all()
    with pytest.raises(BrokenImageError, match="pixels from 2 to 2, outside 0 to 1"):
        decode(encoded(Image.fromarray(grey * 10), "TIFF"), 4)


@pytest.mark.parametrize("form", ["GIF", "WEBP", "PNG", "TIFF"])
def test_of_an_animation_the_first_frame_is_taken(form: str) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    content = encoded(frames[0], form, save_all=True, append_images=frames[1:])
    np.testing.assert_allclose(decode(content, 8)[:, 0, 0], [255, 0, 0], atol=3)


# --- Orientation and geometry -----------------------------------------------------------------


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_the_exif_orientation_is_applied(form: str, orientation: int) -> None:
    from_upright = {  # how a camera held like this stores an upright scene
        1: None,
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }[orientation]
    stored = quarters() if from_upright is None else quarters().transpose(from_upright)
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"quality": 95, "subsampling": 0} if form == "JPEG" else {}
    assert_corners(decode(encoded(stored, form, exif=exif, **options), 32))


def test_nonsense_in_the_exif_does_not_spoil_the_picture() -> None:
    content = encoded(quarters(), "JPEG", quality=95, subsampling=0, exif=b"Exif\x00\x00nonsense")
    assert_corners(decode(content, 32))


@pytest.mark.parametrize(("width", "height"), [(90, 30), (30, 90), (31, 30), (301, 30)])
def test_the_middle_of_a_long_picture_is_taken(width: int, height: int) -> None:
    picture = Image.new("RGB", (width, height), "black")
    left, top = (width - 30) // 2, (height - 30) // 2
    picture.paste(quarters(30, 30), (left, top))
    assert_corners(decode(encoded(picture, "PNG"), 16))


def test_reducing_averages_and_does_not_skip_pixels() -> None:
    stripes = np.zeros((256, 256, 3), dtype=np.uint8)
    stripes[:, ::2] = 255
    inner = decode(encoded(Image.fromarray(stripes), "PNG"), 16)[:, 2:-2, 2:-2]
    np.testing.assert_allclose(inner, 127.5, atol=3)


def test_jpegs_decoded_at_a_fraction_look_like_those_decoded_whole() -> None:
    picture = noise(width=20, height=20).resize((800, 640), Image.Resampling.BICUBIC)
    fast = decode(encoded(picture, "JPEG", quality=95), 32).astype(int)
    whole = decode(encoded(picture, "PNG"), 32).astype(int)
    assert np.abs(fast - whole).mean() < 2


@pytest.mark.parametrize("shape", [(1, 1), (1, 300), (300, 1)])
def test_the_smallest_pictures_are_blown_up(shape: tuple[int, int]) -> None:
    assert (decode(encoded(Image.new("RGB", shape, "lime"), "PNG"), 32)[1] == 255).all()


# --- Damage -----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "AVIF", "JPEG2000"])
def test_a_file_cut_short_is_broken(form: str) -> None:
    content = encoded(noise(), form)
    with pytest.raises(BrokenImageError):
        decode(content[: len(content) // 2], 32)


def test_reasons_are_short_and_human(tmp_path: Path) -> None:
    jpeg = encoded(noise(), "JPEG")
    reasons = {
        jpeg[: len(jpeg) // 2]: "truncated",
        b"": "empty file",
        b"This is not a picture.": "not an image of a known format",
        bomb_png(): "12000 x 90000 pixels is too large",
        encoded(noise(), "PNG")[:20]: "truncated",
        jpeg[:3] + b"nonsense": "damaged JPEG header",
        encoded(noise(), "PPM"): "not an image of a known format",
    }
    for content, reason in reasons.items():
        with pytest.raises(BrokenImageError) as caught:
            decode(content, 32)
        assert str(caught.value) == reason
    with pytest.raises(BrokenImageError, match="^no such file or directory$"):
        decode(tmp_path / "missing.jpg", 32)


def test_a_reason_is_one_short_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise ValueError(f"box of lies\n  at byte 9 {'x' * 999}\n")

    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", fail)
    with pytest.raises(BrokenImageError, match="^damaged: box of lies at byte 9 x{100,300}$"):
        decode(encoded(noise(), "PNG"), 32)


def test_a_bomb_is_refused_before_it_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", lambda _: pytest.fail("decoded"))
    with pytest.raises(BrokenImageError, match="^17895698 x 10 pixels is too large$"):
        decode(bomb_png(17_895_698, 10), 32)


@pytest.mark.parametrize("form", ["WEBP", "PNG", "GIF", "TIFF", "AVIF", "JPEG2000", "BMP"])
def test_a_picture_that_takes_more_than_all_memory_for_decoding_is_refused(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = encoded(Image.new("RGB", (300, 300)), form)  # a few hundred bytes in some
    monkeypatch.setattr("oddone.data.decode.BUDGET", MemoryBudget(2**20))
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", lambda _: pytest.fail("decoded"))
    with pytest.raises(BrokenImageError, match="300 x 300 pixels take . MB to decode, more than 1"):
        decode(content, 32)


def test_a_jpeg_is_decoded_in_less_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oddone.data.decode.BUDGET", MemoryBudget(2**20))
    picture = Image.new("RGB", (900, 900), "lime")
    assert (decode(encoded(picture, "JPEG"), 32)[1] > 250).all()
    with pytest.raises(BrokenImageError, match="take 5 MB to decode"):  # it keeps every detail
        decode(encoded(picture, "JPEG", progressive=True), 32)


def test_a_tile_may_not_be_larger_than_all_memory_for_decoding() -> None:
    tags = {
        256: 1,
        257: 1,
        258: 8,
        259: 5,
        262: 1,
        277: 1,
        322: 60_000,
        323: 60_000,
        324: 8,
        325: 4,
    }
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    content = b"II*\0" + struct.pack("<IIH", 12, 0, len(tags)) + entries + bytes(4)
    with pytest.raises(BrokenImageError, match="take 41,.* MB to decode"):
        decode(content, 32)


def test_a_progressive_jpeg_is_not_gone_over_thousands_of_times() -> None:
    content = encoded(Image.new("L", (4000, 4000), 90), "JPEG", progressive=True)
    assert (decode(content, 8) == 90).all()
    last_scan = content[content.rindex(b"\xff\xda") : -2]
    content = content[:-2] + 2000 * last_scan + content[-2:]
    assert len(content) < 200_000
    with pytest.raises(BrokenImageError, match="2,006 scans of 4000 x 4000 pixels take too long"):
        decode(content, 8)


@pytest.mark.parametrize("components", [3, 4])
def test_a_jpeg_with_a_scan_for_each_component_keeps_all_of_them(
    components: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert decode(jpeg_of_scans(40, components, range(components)), 32).shape == (3, 32, 32)
    monkeypatch.setattr("oddone.data.decode.BUDGET", MemoryBudget(2**20))
    told = f"take {round(900 * 900 * 2 * components / 2**20)} MB to decode"
    with pytest.raises(BrokenImageError, match=told):
        decode(jpeg_of_scans(900, components, range(components)), 32)


def test_a_jpeg_is_not_gone_over_hundreds_of_times_in_empty_scans() -> None:
    content = jpeg_of_scans(10_000, 3, [0] * 600, empty=True)
    assert len(content) < 10_000
    with pytest.raises(BrokenImageError, match="600 scans of 10000 x 10000 pixels take too long"):
        decode(content, 8)


def test_scans_are_counted_wherever_chunks_end(monkeypatch: pytest.MonkeyPatch) -> None:
    content = encoded(noise(), "JPEG", progressive=True)
    for chunk in (1, 2, 3, 7, 100, 2**20):
        monkeypatch.setattr(jpeg_scans, "CHUNK", chunk)
        assert read_scans(io.BytesIO(content)) == (content.count(b"\xff\xda"), 3, True)
        assert read_scans(io.BytesIO(jpeg_of_scans(40, 4, [1, 2, 3]))) == (3, 4, True)
        assert read_scans(io.BytesIO(encoded(noise(), "JPEG"))) == (1, 3, False)


def test_scans_of_a_thumbnail_or_behind_the_end_do_not_count() -> None:
    inner = encoded(noise(), "JPEG", progressive=True)
    for options, expected in (({}, (1, 3, False)), ({"progressive": True}, (10, 3, True))):
        content = encoded(noise(), "JPEG", comment=inner, **options) + 99 * inner
        assert read_scans(io.BytesIO(content)) == expected


def test_a_jpeg_is_not_searched_in_millions_of_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    content = jpeg_of_scans(40, 3, range(3))
    content = content[:-2] + b"\xff\xfe\0\2" * 500 + content[-2:]
    assert decode(content, 8).shape == (3, 8, 8)
    monkeypatch.setattr(jpeg_scans, "MOST_MARKERS", 400)
    with pytest.raises(BrokenImageError, match="^it has over 400 parts$"):
        decode(content, 8)


@pytest.mark.parametrize("no_jp2", [True, False])
def test_small_blocks_of_a_jpeg_2000_take_memory(
    no_jp2: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = Image.new("RGB", (100, 100), "lime")
    monkeypatch.setattr("oddone.data.decode.BUDGET", MemoryBudget(2**20))
    assert (decode(encoded(picture, "JPEG2000", no_jp2=no_jp2), 8)[1] > 250).all()
    for options in ({"codeblock_size": (4, 4)}, {"precinct_size": (8, 8), "num_resolutions": 2}):
        content = encoded(picture, "JPEG2000", no_jp2=no_jp2, **options)
        with pytest.raises(BrokenImageError, match="100 x 100 pixels take 1 MB to decode"):
            decode(content, 8)


def test_small_blocks_of_a_single_tile_or_component_are_found() -> None:
    coding = b"\xff\x52\0\x0c\0\0\0\1\0\0%c%c\0\1"
    size = struct.pack(">HHHIIIIIIIIH", 0xFF51, 47, 0, 90, 64, 0, 0, 64, 64, 0, 0, 3) + bytes(9)
    main = b"\xff\x4f" + size + coding % (4, 4)
    for small in (coding % (0, 0), b"\xff\x53\0\x09\0\0\0\0\0\0\1"):
        tile = small + b"\xff\x93" + bytes(40)
        part = struct.pack(">HHHIBB", 0xFF90, 10, 0, len(tile) + 12, 0, 1)
        blank = struct.pack(">HHHIBBH", 0xFF90, 10, 0, 14, 0, 1, 0xFF93)
        taken = bytes_of_blocks(io.BytesIO(main + blank + part + tile))
        assert taken == 64 * 64 // 16 * 3 * BYTES_PER_BLOCK + 2 * BYTES_PER_TILE


def test_many_tiles_of_a_jpeg_2000_take_memory() -> None:
    content = bytearray(encoded(Image.new("RGB", (64, 64)), "JPEG2000", no_jp2=True))
    place = content.index(b"\xff\x51") + 6
    content[place : place + 8] = struct.pack(">II", 255, 255)
    content[place + 16 : place + 24] = struct.pack(">II", 1, 1)
    assert bytes_of_blocks(io.BytesIO(content)) > 700 * 2**20


@pytest.mark.parametrize("as_bytes", [True, False])
def test_a_file_is_not_read_in_millions_of_parts(
    tmp_path: Path, as_bytes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "MOST_READS", 10_000)  # of a million
    content = encoded(noise(), "JPEG")
    for count in (5_000, 11_000):
        (tmp_path / "a.jpg").write_bytes(content[:2] + b"\xff" * count + content[2:])
        source = (tmp_path / "a.jpg").read_bytes() if as_bytes else tmp_path / "a.jpg"
        refused = pytest.raises(BrokenImageError, match="it has over 10,000 parts")
        with refused if count > 10_000 else nullcontext():
            decode(source, 8)


def test_threads_decode_only_what_fits_into_memory_at_a_time() -> None:
    budget, lock = MemoryBudget(100), threading.Lock()
    held = most = 0

    def work(wanted: int) -> None:
        nonlocal held, most
        with budget.reserve(wanted):
            with lock:
                held += wanted
                most = max(most, held)
            time.sleep(0.0005)
            with lock:
                held -= wanted

    threads = [threading.Thread(target=work, args=(10 * (i % 10 + 1),)) for i in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 20 < most <= 100


def test_the_budget_follows_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0 < decoding_budget().total <= 2**30
    sizes = {"SC_PHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(os, "sysconf", sizes.__getitem__, raising=False)
    monkeypatch.setattr(os, "sysconf_names", sizes, raising=False)
    assert decoding_budget().total == 1_024_000
    monkeypatch.delattr(os, "sysconf")
    assert decoding_budget().total == 2**30


def test_large_but_legal_pictures_raise_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("PIL.Image.MAX_IMAGE_PIXELS", 1000)  # where Pillow begins to warn
    before = list(warnings.filters)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert decode(encoded(noise(), "PNG"), 32).shape == (3, 32, 32)
    assert warnings.filters == before


def test_any_damage_is_a_broken_image_and_nothing_else() -> None:
    generator = np.random.default_rng(0)
    forms = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "AVIF", "JPEG2000")
    contents = [np.frombuffer(encoded(noise(), form), dtype=np.uint8) for form in forms]
    with without_warnings():
        for i in range(640):
            content = contents[i % len(contents)].copy()
            places = generator.integers(0, min(len(content), 200), 3)
            content[places] = generator.integers(0, 256, 3)
            try:
                assert decode(content.tobytes(), 8).shape == (3, 8, 8)
            except BrokenImageError as error:
                assert str(error)  # noqa: PT017, either outcome is fine


@pytest.mark.parametrize("error", [MemoryError(), AssertionError(), RecursionError("deep")])
@pytest.mark.parametrize("place", ["PIL.ImageFile.ImageFile.load", "PIL.Image.Image.resize"])
def test_whatever_a_decoder_raises_is_the_reason(
    error: Exception, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(place, fail)
    reason = "it takes more memory than there is" if error.args == () else "damaged: deep"
    reason = "damaged" if isinstance(error, AssertionError) else reason
    with pytest.raises(BrokenImageError, match=f"^{reason}$"):
        decode(encoded(noise(), "PNG"), 8)


def test_colours_of_a_palette_that_is_not_there_are_damage() -> None:
    with pytest.raises(BrokenImageError, match="^damaged$"):
        decode(png_without_palette(), 8)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.png")
    with pytest.raises(BrokenImageError, match="^not a regular file$"):
        decode(tmp_path / "a.png", 8)
    assert shorter_side(tmp_path / "a.png") is None


def damaged_tiff() -> bytes:
    content = bytearray(encoded(noise(), "TIFF", compression="tiff_lzw"))
    content[300:3000:7] = bytes(len(content[300:3000:7]))
    return bytes(content)


@pytest.mark.skipif(sys.platform == "win32", reason="libtiff cannot be reached there")
def test_libtiff_does_not_write_past_python(capfd: pytest.CaptureFixture[str]) -> None:
    for context in (without_warnings(), nullcontext()):  # afterwards all is as before
        with context, pytest.raises(BrokenImageError):
            decode(damaged_tiff(), 8)
        said = capfd.readouterr().err
        assert ("LZWDecode" in said) == isinstance(context, nullcontext)


def test_pillow_does_not_write_to_stderr_where_nobody_logs(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    content = encoded(noise(), "TIFF")
    samples = struct.pack("<HHIHH", 277, 3, 1, 3, 0)  # the tag SamplesPerPixel, of three
    assert samples in content
    with pytest.raises(BrokenImageError):
        decode(content.replace(samples, struct.pack("<HHIHH", 277, 3, 1, 65535, 0)), 8)
    assert capfd.readouterr().err == ""


@pytest.mark.skipif(sys.platform == "win32", reason="libtiff cannot be reached there")
def test_the_last_to_leave_gives_libtiff_its_voice_back(capfd: pytest.CaptureFixture[str]) -> None:
    first, second = without_warnings(), without_warnings()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    with pytest.raises(BrokenImageError):
        decode(damaged_tiff(), 8)
    assert capfd.readouterr().err == ""
    second.__exit__(None, None, None)
    with pytest.raises(BrokenImageError):
        decode(damaged_tiff(), 8)
    assert "LZWDecode" in capfd.readouterr().err


def test_the_shorter_side_is_read_from_the_header(tmp_path: Path) -> None:
    quarters(70, 50).save(tmp_path / "a.jpg")
    (tmp_path / "b.jpg").write_text("no")
    assert shorter_side(tmp_path / "a.jpg") == 50
    assert shorter_side(tmp_path / "b.jpg") is None


# --- In parallel ------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 500])
def test_parallel_work_keeps_its_order_and_reports_progress(count: int) -> None:
    seen: list[tuple[int, int, str]] = []
    results = in_parallel(lambda i: i * i, range(count), lambda *report: seen.append(report), "x")
    assert list(results) == [i * i for i in range(count)]
    assert [done for done, _, _ in seen] == sorted(done for done, _, _ in seen)
    assert not count or seen[-1] == (count, count, "x")


def test_parallel_work_stays_only_a_little_ahead() -> None:
    begun = 0
    lock = threading.Lock()

    def work(_: int) -> None:
        nonlocal begun
        with lock:
            begun += 1

    results = in_parallel(work, range(100_000), None, "x")
    next(results)
    results.close()
    assert begun <= 16 * (3 * decoding._cores() + 1)


def test_an_error_in_parallel_work_reaches_the_caller() -> None:
    with pytest.raises(ZeroDivisionError):
        list(in_parallel(lambda i: 1 // i, range(-5, 100), None, "x"))
