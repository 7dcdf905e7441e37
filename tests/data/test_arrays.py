import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from oddone.data.arrays import encode_labels, image_set, read_arrays, resize_images
from oddone.errors import DataError

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 8, 8, 3), dtype=np.uint8)
FIRST = PIXELS.transpose(0, 3, 1, 2)


def saved(path: Path, **arrays: object) -> Path:
    np.savez(path / "set.npz", **arrays)  # type: ignore[arg-type]
    return path / "set.npz"


@pytest.mark.parametrize("images", [PIXELS, FIRST])
def test_channels_may_come_last_or_first(tmp_path: Path, images: np.ndarray) -> None:
    read = read_arrays(saved(tmp_path, images=images, labels=np.arange(6) % 2))
    np.testing.assert_array_equal(read.images, FIRST)
    assert read.labels.tolist() == [0, 1, 0, 1, 0, 1]
    assert read.paths[5] == f"arrays:{tmp_path / 'set.npz'}[5]"


@pytest.mark.parametrize("axis", [None, 1, 3])
def test_grey_becomes_three_channels(tmp_path: Path, axis: int | None) -> None:
    grey = PIXELS[..., 0]
    images = grey if axis is None else np.expand_dims(grey, axis)
    read = read_arrays(saved(tmp_path, images=images))
    np.testing.assert_array_equal(read.images, np.stack([grey] * 3, axis=1))
    assert read.labels.tolist() == [-1] * 6
    assert read.classes == ()


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_floats_from_0_to_1_become_bytes(tmp_path: Path, kind: type) -> None:
    read = read_arrays(saved(tmp_path, images=(PIXELS / 255).astype(kind)))
    np.testing.assert_array_equal(read.images, FIRST)


def test_a_npy_file_is_mapped_and_not_loaded(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", PIXELS)
    read = read_arrays(tmp_path / "a.npy")
    np.testing.assert_array_equal(read.images, FIRST)
    assert isinstance(read.images, np.memmap)


@pytest.mark.parametrize(
    ("labels", "numbers", "classes"),
    [
        ([5, 9, 5, 9, 7, 7], [0, 2, 0, 2, 1, 1], ("5", "7", "9")),
        ([-3, 2, 2, 2, 2, -1], [0, 2, 2, 2, 2, 1], ("-3", "-1", "2")),
        (list("abcabc"), [0, 1, 2, 0, 1, 2], ("a", "b", "c")),
        ([b"b", b"a"] * 3, [1, 0] * 3, ("a", "b")),
        ([True, False] * 3, [1, 0] * 3, ("False", "True")),
        ([-1] * 6, [-1] * 6, ()),
    ],
)
def test_labels_of_any_values_are_numbered(
    tmp_path: Path, labels: list[object], numbers: list[int], classes: tuple[str, ...]
) -> None:
    read = read_arrays(saved(tmp_path, images=PIXELS, labels=np.array(labels)))
    assert read.labels.tolist() == numbers
    assert read.labels.dtype == np.int64
    assert read.classes == classes


@pytest.mark.parametrize("labels", [[2, 0, 0, 2, 2, 0], ["dog", "cat", "cat", "dog", "dog", "cat"]])
def test_the_file_may_name_its_classes(tmp_path: Path, labels: list[object]) -> None:
    path = saved(tmp_path, images=PIXELS, labels=labels, classes=["cat", "cow", "dog"])
    read = read_arrays(path)
    assert read.classes == ("cat", "cow", "dog")
    assert read.labels.tolist() == [2, 0, 0, 2, 2, 0]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"pictures": PIXELS}, "holds pictures but no `images`"),
        ({"images": PIXELS, "labels": [0, 1]}, r"holds 6 images but labels of shape \(2,\)"),
        ({"images": PIXELS, "labels": np.zeros((6, 1), int)}, r"labels of shape \(6, 1\)"),
        ({"images": PIXELS, "labels": np.zeros(6)}, "labels of .* are float64"),
        ({"images": PIXELS[:0]}, "holds 0 images"),
        ({"images": PIXELS[:, :0]}, "at least a pixel"),
        ({"images": PIXELS.astype(int)}, "are int64; give uint8"),
        ({"images": PIXELS.astype(float)}, "are floats from 0 to 255"),
        ({"images": np.full((2, 4, 4), np.nan)}, "are floats from nan to nan"),
        ({"images": PIXELS[0, 0]}, r"have shape \(8, 3\)"),
        ({"images": np.zeros((2, 8, 8, 4), np.uint8)}, r"have shape \(2, 8, 8, 4\)"),
        ({"images": PIXELS, "labels": [0] * 6, "classes": [1, 2]}, "save a list of strings"),
        ({"images": PIXELS, "labels": [0] * 6, "classes": ["a", "a"]}, "hold a name twice"),
        ({"images": PIXELS, "labels": [0, 1, 2] * 2, "classes": ["a", "b"]}, "hold 2, which is"),
        ({"images": PIXELS, "labels": list("abcabc"), "classes": ["a", "b"]}, "hold 'c', which"),
    ],
)
def test_what_does_not_fit_is_named(
    tmp_path: Path, arrays: dict[str, object], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        read_arrays(saved(tmp_path, **arrays))


def test_one_image_is_not_taken_for_many_of_its_rows(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", PIXELS[0])
    with pytest.raises(DataError, match=r"shape \(8, 8, 3\), which is one image; .* image\[None\]"):
        read_arrays(tmp_path / "one.npy")
    np.save(tmp_path / "one.npy", PIXELS[:1])
    assert len(read_arrays(tmp_path / "one.npy")) == 1


class Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("name", ["evil.npy", "evil.npz"])
def test_pickled_objects_are_refused_and_not_run(tmp_path: Path, name: str) -> None:
    evil = np.array([Evil(tmp_path / "made")], dtype=object)
    save = np.save if name.endswith("npy") else np.savez
    save(tmp_path / name, evil) if save is np.save else np.savez(tmp_path / name, images=evil)
    with pytest.raises(DataError, match="as NumPy arrays"):
        read_arrays(tmp_path / name)
    (tmp_path / name).write_bytes(pickle.dumps(Evil(tmp_path / "made")))
    with pytest.raises(DataError, match="as NumPy arrays"):
        read_arrays(tmp_path / name)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("keep", [0, 100, 500])
@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_a_file_cut_short_is_an_error(tmp_path: Path, name: str, keep: int) -> None:
    path = tmp_path / name
    np.save(path, PIXELS) if name == "a.npy" else np.savez(path, images=PIXELS)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataError, match="as NumPy arrays"):
        read_arrays(path)


def test_the_fingerprint_follows_the_content() -> None:
    labels = np.arange(6) % 2
    one = image_set(FIRST, labels, ("a", "b"), "x")
    assert one.fingerprint == image_set(FIRST.copy(), labels, ("a", "b"), "y").fingerprint
    changed = FIRST.copy()
    changed[5, 2, 7, 7] ^= 1
    others = [
        image_set(changed, labels, ("a", "b"), "x"),
        image_set(FIRST, 1 - labels, ("a", "b"), "x"),
        image_set(FIRST, labels, ("a", "c"), "x"),
        image_set(FIRST, None, (), "x"),
    ]
    assert len({one.fingerprint, *(other.fingerprint for other in others)}) == 5
    assert len(one.fingerprint) == 16


def test_numbers_are_sorted_as_numbers() -> None:
    assert encode_labels(np.array([10, 9, 100])).classes == ("9", "10", "100")


# --- Resizing ---------------------------------------------------------------------------------


def test_a_set_of_the_right_size_is_left_alone() -> None:
    native = image_set(FIRST, None, (), "x")
    assert resize_images(native) is native
    assert resize_images(native, 8) is native


def test_resizing_averages_and_keeps_the_rest() -> None:
    stripes = np.zeros((40, 3, 64, 64), dtype=np.uint8)
    stripes[..., ::2] = 255
    native = image_set(stripes, np.arange(40) % 2, ("a", "b"), "x")
    seen: list[tuple[int, int, str]] = []
    small = resize_images(native, 8, lambda *report: seen.append(report))
    assert small.images.shape == (40, 3, 8, 8)
    np.testing.assert_allclose(small.images[..., 1:-1], 127.5, atol=3)
    assert (small.labels == native.labels).all()
    assert small.paths == native.paths
    assert small.fingerprint != native.fingerprint
    assert small.fingerprint == resize_images(native, 8).fingerprint
    assert seen[-1] == (40, 40, "resizing to 8")


@pytest.mark.parametrize(("size", "enlarged"), [(4, 0), (8, 0), (9, 6)])
def test_a_set_that_is_enlarged_says_so(size: int, enlarged: int) -> None:
    wide = np.repeat(FIRST, 2, axis=3)
    assert resize_images(image_set(wide, None, (), "x"), size).enlarged == enlarged


def test_by_default_long_images_are_cut_to_their_shorter_side() -> None:
    long = np.zeros((2, 3, 10, 30), dtype=np.uint8)
    long[..., 10:20] = 200
    square = resize_images(image_set(long, None, (), "x"))
    assert square.images.shape == (2, 3, 10, 10)
    assert (square.images == 200).all()


@pytest.mark.skipif("ODDONE_DATA" not in os.environ, reason="ODDONE_DATA names no folder")
def test_real_arrays_are_read() -> None:
    textures = read_arrays(Path(os.environ["ODDONE_DATA"]) / "ood" / "textures.npz")
    assert textures.images.shape == (1200, 3, 32, 32)
    assert len(textures.classes) == 10
