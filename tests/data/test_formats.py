import struct
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from pictures import CORNERS, encoded, heic, make_folder, noise, quarters
from PIL import Image

from oddone.data.decode import BrokenImageError, decode
from oddone.data.folder import read_flat_folder, read_labelled_folder
from oddone.data.formats import ENDINGS, FORMATS, NEEDS_HEIF, format_of
from oddone.data.image_set import BrokenFile
from oddone.data.notation import load


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODDONE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def without_heif(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pillow_heif", None)


def corners(image: np.ndarray) -> list[list[int]]:
    return [image[:, y, x].tolist() for y in (8, 24) for x in (8, 24)]


def test_only_the_named_formats_are_tried() -> None:
    assert set(FORMATS) == {"JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "AVIF", "JPEG2000"}
    ico = struct.pack("<HHH", 0, 1, 1) + bytes(40)
    with pytest.raises(BrokenImageError, match="not an image of a known format"):
        decode(ico, 8)


def test_every_ending_that_pillow_has_for_these_formats_is_known() -> None:
    registered = Image.registered_extensions()
    assert {ending for ending, name in registered.items() if name in FORMATS} <= ENDINGS


@pytest.mark.parametrize("form", [*FORMATS, "HEIC"])
def test_a_format_is_told_by_the_first_bytes(form: str) -> None:
    content = heic(noise()) if form == "HEIC" else encoded(noise(), form)
    assert format_of(content[:64]) == form


@pytest.mark.parametrize("form", ["AVIF", "HEIC"])
def test_a_container_with_a_general_brand_is_told_by_the_others(form: str) -> None:
    content = bytearray(heic(quarters()) if form == "HEIC" else encoded(quarters(), form))
    content[8:12] = b"mif1"
    assert format_of(bytes(content[:64])) == form
    np.testing.assert_allclose(corners(decode(bytes(content), 32)), CORNERS, atol=12)


@pytest.mark.parametrize(
    "start", [b"\0\0\0\x18ftypmp42\0\0\0\0isommp42", b"\0\0\0\x0cftypmif1", b"\0\0\0\0ftyp", b"RI"]
)
def test_a_film_and_a_cut_header_are_no_pictures(start: bytes) -> None:
    assert format_of(start) is None


def test_a_pillow_without_a_codec_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    content = encoded(noise(), "AVIF")
    monkeypatch.setattr("PIL.features.check", lambda codec: codec != "avif")
    with pytest.raises(BrokenImageError, match="^AVIF is unknown to the Pillow that is installed"):
        decode(content, 8)


# --- HEIC -------------------------------------------------------------------------------------


def test_heic_shows_the_same_picture() -> None:
    np.testing.assert_allclose(corners(decode(heic(quarters()), 32)), CORNERS, atol=12)


def test_heic_of_a_phone_held_upright_is_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    sideways = quarters().transpose(Image.Transpose.ROTATE_90)
    content = heic(sideways, exif=exif.tobytes())
    np.testing.assert_allclose(corners(decode(content, 32)), CORNERS, atol=12)


def test_heic_that_is_damaged_is_a_broken_image_and_nothing_else() -> None:
    whole = np.frombuffer(heic(noise()), dtype=np.uint8)
    generator = np.random.default_rng(0)
    for _ in range(100):
        content = whole.copy()
        content[generator.integers(0, len(content), 3)] = generator.integers(0, 256, 3)
        try:
            assert decode(content.tobytes(), 8).shape == (3, 8, 8)
        except BrokenImageError as error:
            assert str(error)  # noqa: PT017, either outcome is fine
    with pytest.raises(BrokenImageError):
        decode(whole.tobytes()[: len(whole) // 2], 8)


@pytest.mark.usefixtures("without_heif")
def test_heic_without_its_package_is_a_broken_file_that_says_what_to_install(
    tmp_path: Path,
) -> None:
    root = make_folder(tmp_path / "root", {"cat": 2, "dog": 2})
    brands = b"ftypheic\0\0\0\0mif1heic"
    (root / "cat" / "IMG_1.HEIC").write_bytes(struct.pack(">I", len(brands) + 4) + brands)
    image_set = read_labelled_folder(root)
    assert len(image_set) == 4
    assert image_set.broken == (BrokenFile(str(root / "cat" / "IMG_1.HEIC"), NEEDS_HEIF),)
    assert "pip install 'oddone[heif]'" in NEEDS_HEIF


def test_a_folder_decoded_before_the_package_came_is_decoded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_folder(tmp_path / "root", {"cat": 2})
    (root / "cat" / "really heic.jpg").write_bytes(heic(noise()))
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "pillow_heif", None)
        before = read_flat_folder(root)
        assert read_flat_folder(root).fingerprint == before.fingerprint
    after = read_flat_folder(root)
    assert (len(before), len(after)) == (2, 3)
    assert before.fingerprint != after.fingerprint
    monkeypatch.setitem(sys.modules, "pillow_heif", None)  # what is decoded needs no package
    assert read_flat_folder(root).fingerprint == after.fingerprint


def test_the_package_for_heic_is_imported_only_where_it_is_needed(
    run_python: Callable[[str], str], tmp_path: Path
) -> None:
    make_folder(tmp_path / "root", {"cat": 1, "dog": 1})
    script = f"""
        import sys
        import oddone
        oddone.load({str(tmp_path / "root")!r})
        print("pillow_heif" in sys.modules)
    """
    assert run_python(script) == "False"


# --- In folders -------------------------------------------------------------------------------


def test_a_folder_gives_pictures_of_every_format_and_those_without_ending(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    contents = {
        "1.avif": encoded(noise(), "AVIF"),
        "2.jp2": encoded(noise(), "JPEG2000"),
        "3.HEIC": heic(noise()),
        "4": encoded(noise(), "PNG"),
        "5": heic(noise()),
    }
    for name, content in contents.items():
        (root / name).write_bytes(content)
    (root / "LICENSE").write_text("no picture")
    (root / "empty").touch()
    image_set = load(str(root))
    assert [Path(path).name for path in image_set.paths] == list(contents)
    assert image_set.broken == ()
    assert image_set.left_out == {"without ending": 2}


def test_no_file_with_an_ending_is_opened_while_files_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_folder(tmp_path / "root", {"cat": 2, "dog": 2})
    (root / "cat" / "notes.txt").touch()
    (root / "cat" / "named by a camera").write_bytes(encoded(noise(), "PNG"))
    read_labelled_folder(root, size=8)
    opened: list[str] = []
    whole = Path.open

    def watched(path: Path, *options: object, **more: object) -> object:
        if root in path.parents:
            opened.append(path.name)
        return whole(path, *options, **more)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", watched)
    assert len(read_labelled_folder(root, size=8)) == 5  # from the cache
    assert opened == ["named by a camera"]


def test_files_left_out_are_counted_by_their_endings(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "root", {"cat": 2, "dog": 1})
    (root / "dog" / "deep").mkdir()
    for name in ("a.txt", "cat/b.TXT", "cat/film.mov", "dog/deep/README", "dog/.hidden.txt"):
        (root / name).write_text("no picture")
    expected = {".txt": 2, ".mov": 1, "without ending": 1}
    assert read_labelled_folder(root).left_out == expected
    assert read_labelled_folder(root).left_out == expected  # from the cache
    assert read_flat_folder(root).left_out == expected
