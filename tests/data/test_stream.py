import os
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from pictures import bomb_png, encoded, lock, make_folder, noise, png_without_palette
from PIL import Image

import oddone.data.decode as decoding
from oddone.data import ImageSet, StreamedImage, load, stream
from oddone.data.arrays import image_set
from oddone.data.decode import BATCH, DecodedImage, decode, decode_picture
from oddone.data.image_set import check_indices
from oddone.data.stream import stream_paths
from oddone.errors import DataError, SettingsError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ODDONE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """Return a folder of pictures of all sorts, and of files that only end like pictures."""
    if sys.platform == "win32":
        pytest.skip("Windows has no pipes among files, and no escapes in their names")
    root = tmp_path / "odd"
    (root / "sub").mkdir(parents=True)
    whole = encoded(noise(), "PNG")
    deep = Image.fromarray(np.full((20, 20), 65535, dtype=np.uint16))
    files = {
        "\N{SNOWMAN} [red]\x1b[31m.png": whole,
        "1 grey.png": encoded(noise().convert("L"), "PNG"),
        "2 deep.png": encoded(deep, "PNG"),
        "3 cmyk.jpg": encoded(noise().convert("CMYK"), "JPEG"),
        "bomb.png": bomb_png(),
        "cut.png": whole[: len(whole) // 2],
        "empty.png": b"",
        "no palette.png": png_without_palette(),
        "notes.txt": b"no picture, and does not say so",
        "text.png": b"no picture",
        "sub/last.png": whole,
    }
    for name, content in files.items():
        (root / name).write_bytes(content)
    (root / "gone.png").symlink_to(root / "nowhere.png")
    os.mkfifo(root / "pipe.png")
    return root


REASONS = {
    "1 grey.png": None,
    "2 deep.png": None,
    "3 cmyk.jpg": None,
    "bomb.png": "12000 x 90000 pixels is too large",
    "cut.png": "truncated",
    "empty.png": "empty file",
    "gone.png": "no such file or directory",
    "no palette.png": "damaged",
    "pipe.png": "not a regular file",
    "text.png": "not an image of a known format",
    "\N{SNOWMAN} [red]\x1b[31m.png": None,
    "sub/last.png": None,
}


def test_a_folder_comes_in_order_with_what_is_broken_in_its_place(odd: Path, cache: Path) -> None:
    images = list(stream(str(odd), size=16))
    assert [each.path for each in images] == [str(odd / name) for name in REASONS]
    assert [each.reason for each in images] == list(REASONS.values())
    for each in images:
        assert (each.image is None) == (each.reason is not None)
        if each.image is not None:
            assert np.array_equal(each.image, decode(Path(each.path), 16))
    assert not cache.exists()  # seen once, so not kept


@pytest.mark.parametrize("named", [str, "folder:{}".format, "flat:{}".format, Path])
def test_the_classes_of_a_folder_do_not_matter(
    tmp_path: Path, named: Callable[[Path], str | Path]
) -> None:
    root = make_folder(tmp_path / "set", {"cat": 1, "dog": 2})
    noise().save(root / "loose.png")
    names = ["loose.png", "cat/0.png", "dog/0.png", "dog/1.png"]
    assert [each.path for each in stream(named(root), size=8)] == [
        str(root / name) for name in names
    ]


def test_a_locked_folder_has_its_place_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_folder(tmp_path / "set", {"cat": 1, "dog": 2})
    lock(monkeypatch, root / "cat")
    images = list(stream([root, root / "dog" / "0.png"], size=8))
    assert [Path(each.path).name for each in images] == ["0.png", "1.png", "cat", "0.png"]
    assert images[2].reason == "folder cannot be opened: permission denied"
    assert images[2].image is None


def test_files_folders_and_data_sets_follow_each_other(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "set", {"cat": 2, "dog": 1})
    (root / "list.txt").write_text("dog/0.png 0\ngone.png 1\n")
    np.savez(tmp_path / "two.npz", images=np.zeros((2, 5, 4), dtype=np.uint8))
    (tmp_path / "without ending").write_bytes(encoded(noise(), "PNG"))
    sources = [
        root / "dog" / "0.png",
        tmp_path / "without ending",
        f"folder:{root}",
        f"arrays:{tmp_path / 'two.npz'}",
        f"imglist:{root / 'list.txt'}",
        str(tmp_path / "two.npz"),
    ]
    images = list(stream(sources, size=8))
    assert [each.path.removeprefix(f"{tmp_path}/") for each in images] == [
        "set/dog/0.png",
        "without ending",
        "set/cat/0.png",
        "set/cat/1.png",
        "set/dog/0.png",
        *[f"arrays:{tmp_path}/two.npz[{i}]" for i in range(2)],
        "set/dog/0.png",
        "set/gone.png",
        *[f"arrays:{tmp_path}/two.npz[{i}]" for i in range(2)],
    ]
    assert [each.reason for each in images if each.reason] == ["no such file or directory"]


def test_an_array_comes_as_load_reads_it(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (600, 9, 12, 3), dtype=np.uint8)
    np.savez(tmp_path / "set.npz", images=pixels)
    loaded = load(str(tmp_path / "set.npz"), size=8)
    streamed = list(stream(str(tmp_path / "set.npz"), size=8))
    assert [each.path for each in streamed] == list(loaded.paths)
    assert np.array_equal(np.stack([each.image for each in streamed]), loaded.images)


def test_a_split_of_a_data_set_can_be_streamed() -> None:
    first = next(stream("fashion:unseen#test", size=28))
    expected = load("fashion:unseen#test")
    assert first.path == expected.paths[0]
    assert np.array_equal(first.image, expected.images[0])


@pytest.mark.parametrize("size", [8, 10])
def test_images_in_memory_are_resized_where_they_must_be(size: int) -> None:
    images = np.full((3, 3, 8, 8), 7, dtype=np.uint8)
    streamed = list(stream(image_set(images, None, (), "mine"), size=size))
    expected = np.full((3, size, size), 7)
    assert [each.path for each in streamed] == ["mine[0]", "mine[1]", "mine[2]"]
    assert all(np.array_equal(each.image, expected) for each in streamed)


def test_a_stream_counts_what_was_enlarged_and_left_out(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "large", {"cat": 2}, side=20)
    make_folder(tmp_path / "small", {"dog": 3}, side=9)
    for name in ("a.txt", "cat/b.mov", "cat/.hidden.txt"):
        (root / name).touch()
    np.save(tmp_path / "set.npy", np.zeros((4, 9, 12, 3), dtype=np.uint8))
    images = stream([root, tmp_path / "small", tmp_path / "set.npy"], size=10)
    assert images.left_out == {".txt": 1, ".mov": 1}
    next(images)
    assert images.enlarged == 0
    assert [each.enlarged for each in images] == [False, *[True] * 7]
    assert images.enlarged == 7


def test_a_stream_of_the_right_size_can_be_handed_on() -> None:
    images = stream(numbered_images(3), size=4)
    assert stream(images, size=4) is images
    with pytest.raises(SettingsError, match="images of 4 pixels, but 8 are needed"):
        stream(images, size=8)
    with pytest.raises(SettingsError, match="among the images of an ImageSet"):
        stream(images, size=4, indices=np.array([0]))


def test_images_in_memory_stand_beside_files_in_a_list(tmp_path: Path) -> None:
    noise().save(tmp_path / "a.png")
    pixels = np.asarray(noise(1))
    source = [noise(), tmp_path / "a.png", pixels, str(tmp_path), pixels[..., 0] / 255, pixels]
    images = list(stream(source, size=16))
    names = ["image 0", "a.png", "image 2", "a.png", "image 4", "image 5"]
    assert [Path(each.path).name for each in images] == names
    expected = decode(encoded(noise(), "PNG"), 16)
    assert np.array_equal(images[0].image, expected)
    assert np.array_equal(images[1].image, expected)
    assert np.array_equal(images[2].image, decode(encoded(noise(1), "PNG"), 16))
    assert np.array_equal(images[4].image[0], images[4].image[1])
    assert not any(each.enlarged for each in images)
    assert all(each.enlarged for each in stream(source, size=41))


def test_a_generator_of_sources_is_asked_for_them_as_they_are_needed(tmp_path: Path) -> None:
    noise().save(tmp_path / "a.png")
    asked = 0

    def endless() -> Iterator[Path]:
        nonlocal asked
        while True:
            asked += 1
            yield tmp_path / "a.png"

    images = stream(endless(), size=8)
    assert [next(images).path for _ in range(3)] == [str(tmp_path / "a.png")] * 3
    assert 3 <= asked <= BATCH * (3 * decoding._cores() + 1)
    images.close()


def test_a_generator_gives_what_a_list_gives(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "set", {"cat": 20, "dog": 3})
    (root / "notes.txt").touch()
    np.savez(tmp_path / "two.npz", images=np.zeros((2, 5, 4), dtype=np.uint8))
    sources = [noise(), root, tmp_path / "two.npz", "fashion:unseen#test", root / "dog" / "0.png"]
    listed, given = stream(sources, size=8), stream(iter(sources), size=8)
    for ours, theirs in zip(given, listed, strict=True):
        assert (ours.path, ours.reason, ours.enlarged) == (theirs.path, None, theirs.enlarged)
        assert np.array_equal(ours.image, theirs.image)
    assert given.left_out == listed.left_out == {".txt": 1}
    assert list(stream(iter([]), size=8)) == []


def test_a_missing_source_of_a_generator_has_its_place(tmp_path: Path) -> None:
    noise().save(tmp_path / "a.png")
    sources = iter([tmp_path / "a.png", "gone.png", "arrays:gone.npz", tmp_path / "a.png"])
    images = list(stream(sources, size=8))
    assert [each.reason is None for each in images] == [True, False, False, True]
    assert images[1].path == "gone.png"
    assert images[1].reason == "'gone.png' does not exist; name a file or folder that does"


@pytest.mark.parametrize("image", [noise(), np.asarray(noise())])
def test_a_single_image_in_memory_is_a_source(image: Image.Image | np.ndarray) -> None:
    (only,) = stream(image, size=8)
    assert only.path == "image 0"
    assert np.array_equal(only.image, decode(encoded(noise(), "PNG"), 8))


def test_a_pil_image_is_turned_upright_and_laid_on_white() -> None:
    clear = Image.new("RGBA", (8, 8), (0, 0, 0, 0))
    clear.getexif()[0x0112] = 6
    (only,) = stream([clear], size=8)
    assert (only.image == 255).all()


def test_a_pil_image_whose_file_is_damaged_has_its_place(tmp_path: Path) -> None:
    content = encoded(noise(), "JPEG")
    (tmp_path / "cut.jpg").write_bytes(content[: len(content) // 2])
    with Image.open(tmp_path / "cut.jpg") as lazy:
        images = list(stream([noise(), lazy, lazy], size=8))
    assert [each.reason for each in images] == [None, "truncated", "truncated"]


def test_one_lazy_image_may_be_given_many_times(tmp_path: Path) -> None:
    noise(width=200, height=200).save(tmp_path / "a.jpg")
    with Image.open(tmp_path / "a.jpg") as lazy:
        images = [each.image for each in stream([lazy] * 100, size=8)]
    assert all(np.array_equal(image, images[0]) for image in images)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((2, 4, 4, 3), dtype=np.uint8), r"image 1: an image has shape \(2, 4, 4, 3\)"),
        (np.zeros((4, 4, 3), dtype=np.int64), "image 1: an image is int64"),
    ],
)
def test_an_array_that_is_no_image_is_an_error_that_names_it(
    array: np.ndarray, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        list(stream([noise(), array], size=8))


def numbered_images(count: int) -> ImageSet:
    """Return images of 4 x 4 pixels, of which each shows its own number."""
    numbers = np.arange(count, dtype=np.uint8)[:, None, None, None]
    return image_set(np.tile(numbers, (3, 4, 4)), None, (), "mine")


@pytest.mark.parametrize("indices", [[5, 0, 5, 249], 3 * list(range(249, -1, -1)), []])
@pytest.mark.parametrize("size", [4, 6])
def test_indices_choose_images_in_their_order(indices: list[int], size: int) -> None:
    chosen = np.array(indices, dtype=np.int64)
    told: list[tuple[int, int, str]] = []
    images = list(
        stream(
            numbered_images(250), size=size, indices=chosen, progress=lambda *now: told.append(now)
        )
    )
    assert [each.path for each in images] == [f"mine[{index}]" for index in indices]
    for each, index in zip(images, indices, strict=True):
        assert np.array_equal(each.image, np.full((3, size, size), index))
        assert each.reason is None
    assert told[-1:] == ([(len(indices), len(indices), "images")] if indices else [])


def test_all_indices_are_the_whole_set() -> None:
    source = load("fashion:unseen#test")
    whole = list(stream(source, size=28))
    chosen = list(stream(source, size=28, indices=np.arange(len(source))))
    assert [each.path for each in whole] == [each.path for each in chosen]
    assert all(np.array_equal(a.image, b.image) for a, b in zip(whole, chosen, strict=True))


@pytest.mark.parametrize("some", [None, np.arange(0, 4000, 2)])
def test_a_memory_mapped_set_is_never_copied_whole(tmp_path: Path, some: np.ndarray | None) -> None:
    np.save(tmp_path / "large.npy", np.zeros((4000, 3, 64, 64), dtype=np.uint8))
    mapped = np.load(tmp_path / "large.npy", mmap_mode="r")
    source = ImageSet(mapped, np.full(4000, -1), (), [f"[{i}]" for i in range(4000)], "large")
    tracemalloc.start()
    assert sum(1 for _ in stream(source, size=64, indices=some)) == (4000 if some is None else 2000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < mapped.nbytes / 5


def many(folder: Path, count: int) -> Path:
    folder.mkdir()
    content = encoded(noise(width=8, height=8), "PNG")
    for i in range(count):
        (folder / f"{i:04}.png").write_bytes(content)
    return folder


def test_decoding_runs_ahead_but_not_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[Path] = []

    def counted(path: Path, size: int) -> DecodedImage:
        decoded.append(path)
        return decode_picture(path, size)

    monkeypatch.setattr("oddone.data.decode.decode_picture", counted)
    monkeypatch.setattr("oddone.data.decode._cores", lambda: 2)
    images = stream(many(tmp_path / "many", 300), size=8)
    next(images)
    deadline = time.monotonic() + 10
    while len(decoded) < 4 * BATCH and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(decoded) >= 4 * BATCH
    for consumed, _ in enumerate(images, start=2):
        assert len(decoded) - consumed < 8 * BATCH
    assert len(decoded) == 300


def test_paths_that_come_one_by_one_are_taken_a_few_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oddone.data.decode._cores", lambda: 2)
    folder = many(tmp_path / "many", 300)
    (folder / "notes.txt").touch()
    taken = 0

    def paths() -> Iterator[str]:
        nonlocal taken
        for taken in range(1, 1001):
            yield str(folder / f"{taken % 300:04}.png")
        yield str(folder)
        yield str(folder / "gone.png")

    told: list[tuple[int, int, str]] = []
    images = stream_paths(paths(), size=8, progress=lambda *now: told.append(now))
    first = next(images)
    assert first.path == str(folder / "0001.png")
    assert taken <= 8 * BATCH
    rest = list(images)
    assert len(rest) == 999 + 300 + 1
    assert rest[-1].reason == "no such file or directory"
    assert images.left_out == {".txt": 1}
    assert told[-1] == (1301, 0, "images")


def test_a_locked_folder_among_paths_has_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock(monkeypatch, tmp_path)
    (only,) = stream_paths([str(tmp_path)], size=8)
    assert only.path == str(tmp_path)
    assert "Permission denied" in str(only.reason)


def test_who_stops_early_waits_for_nothing(tmp_path: Path) -> None:
    filters = list(warnings.filters)
    images = stream(many(tmp_path / "many", 100), size=8)
    next(images)
    images.close()
    assert warnings.filters == filters


@pytest.mark.parametrize("kind", ["files", "arrays"])
def test_progress_counts_what_was_consumed(tmp_path: Path, kind: str) -> None:
    source: Path | ImageSet = many(tmp_path / "many", 300)
    if kind == "arrays":
        source = image_set(np.zeros((300, 3, 4, 4), dtype=np.uint8), None, (), "mine")
    told: list[tuple[int, int, str]] = []
    for consumed, _ in enumerate(stream(source, size=4, progress=lambda *now: told.append(now))):
        assert not told or told[-1][0] <= consumed
    assert len(told) > 1
    assert told[-1] == (300, 300, "images")


# --- Mistakes ---------------------------------------------------------------------------------


def test_a_missing_path_is_an_error_before_anything_is_read(odd: Path) -> None:
    with pytest.raises(DataError, match="'no/such' does not exist; name a file or folder"):
        stream([odd, "no/such"], size=8)
    with pytest.raises(DataError, match="path does not exist; check the path of flat:"):
        stream("flat:no/such/path", size=8)


def test_a_folder_without_pictures_is_an_error(odd: Path) -> None:
    (odd / "none").mkdir()
    (odd / "none" / "notes.txt").touch()
    with pytest.raises(DataError, match=r"no images below .*none \(found: notes.txt\)"):
        stream([odd, odd / "none"], size=8)


def test_a_folder_of_two_data_sets_is_an_error(tmp_path: Path) -> None:
    for name in ("train_32x32.mat", "train-images-idx3-ubyte"):
        (tmp_path / name).touch()
    with pytest.raises(DataError, match=r"several ways; write svhn:.* or idx:"):
        stream(tmp_path, size=8)


def test_a_split_of_a_folder_is_an_error(odd: Path) -> None:
    with pytest.raises(DataError, match="has no splits"):
        stream(f"{odd}#test", size=8)


def test_a_name_that_no_system_takes_is_an_error() -> None:
    with pytest.raises(DataError, match="cannot look at 'x+': .*; name a file or folder"):
        stream("x" * 5000, size=8)


def test_a_tilde_may_begin_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    noise().save(tmp_path / "~kept.png")
    assert [each.path for each in stream("~kept.png", size=8)] == ["~kept.png"]


def test_a_size_below_one_is_an_error() -> None:
    with pytest.raises(SettingsError, match="size=0"):
        stream("fashion", size=0)


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        (np.array([0, 3]), "indices hold 3, and the 3 images are numbered from 0; leave it out"),
        (np.array([-1]), "indices hold -1"),
    ],
)
def test_an_index_of_no_image_is_an_error(indices: np.ndarray, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        stream(numbered_images(3), size=4, indices=indices)


@pytest.mark.parametrize("mask", [np.array([True, False, True]), np.array([0.0, 2.0])])
def test_a_mask_does_not_pass_for_indices(mask: np.ndarray) -> None:
    with pytest.raises(SettingsError, match=f"indices are {mask.dtype}; give the numbers"):
        check_indices(mask, numbered_images(3))


@pytest.mark.parametrize("source", ["fashion", ["fashion", "digits"], Path()])
def test_indices_of_anything_but_an_image_set_are_an_error(
    source: str | list[str | Path] | Path,
) -> None:
    with pytest.raises(SettingsError, match="images of an ImageSet; load the source first"):
        stream(source, size=8, indices=np.array([0]))


def test_no_sources_are_no_images() -> None:
    nothing: list[StreamedImage] = list(stream([], size=8))
    assert nothing == []
