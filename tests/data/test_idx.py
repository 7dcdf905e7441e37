import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from memory import memory_below
from oddone.data.idx import read_idx
from oddone.errors import DataError

GREY = np.random.default_rng(0).integers(0, 256, (4, 28, 28), dtype=np.uint8)
LABELS = np.array([7, 0, 7, 3], dtype=np.uint8)


def idx(array: np.ndarray) -> bytes:
    header = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.tobytes()


def write_mnist(folder: Path, prefix: str = "train", *, packed: bool = False) -> Path:
    for name, array in (("images-idx3-ubyte", GREY), ("labels-idx1-ubyte", LABELS)):
        content = gzip.compress(idx(array)) if packed else idx(array)
        (folder / f"{prefix}-{name}{'.gz' if packed else ''}").write_bytes(content)
    return folder / f"{prefix}-images-idx3-ubyte{'.gz' if packed else ''}"


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("prefix", ["t10k", "test", "emnist-letters-test"])
def test_idx_files_are_read(tmp_path: Path, prefix: str, packed: bool) -> None:
    write_mnist(tmp_path, prefix, packed=packed)
    test = read_idx(tmp_path, "test")
    np.testing.assert_array_equal(test.images, np.stack([GREY] * 3, axis=1))
    assert test.labels.tolist() == [2, 0, 2, 1]
    assert test.classes == ("0", "3", "7")
    assert test.paths[3] == f"idx:{tmp_path}#test[3]"


def test_an_images_file_is_read_with_its_labels_if_there(tmp_path: Path) -> None:
    path = write_mnist(tmp_path)
    assert read_idx(path).classes == ("0", "3", "7")
    (tmp_path / "train-labels-idx1-ubyte").unlink()
    alone = read_idx(path)
    assert alone.classes == ()
    assert alone.labels.tolist() == [-1] * 4


def test_packed_and_unpacked_copies_are_one_set(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    write_mnist(tmp_path, packed=True)
    assert len(read_idx(tmp_path)) == 4


def test_several_sets_in_a_folder_are_an_error(tmp_path: Path) -> None:
    write_mnist(tmp_path, "emnist-letters-train")
    write_mnist(tmp_path, "emnist-digits-train")
    with pytest.raises(DataError, match="has several train sets"):
        read_idx(tmp_path)


def test_a_missing_split_suggests_the_other(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no train-images-idx3-ubyte or .gz; give the folder"):
        read_idx(tmp_path)
    write_mnist(tmp_path, "t10k")
    with pytest.raises(DataError, match=r"has no train-images.*idx:.*#test"):
        read_idx(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "starts with nothing"),
        (b"\x89PNG" * 10, "starts with 89 50 4e 47, not with the 00 00 08 03"),
        (idx(LABELS) + bytes(20), "starts with 00 00 08 01"),
        (idx(GREY)[:-1], "4 x 28 x 28 = 3136 bytes but has 3135"),
        (idx(GREY) + b"x", "3136 bytes but has more"),
        (bytes((0, 0, 8, 3)) + b"\xff" * 12, "too many for a file of .. bytes"),
        (bytes((0, 0, 8, 3)) + struct.pack(">3I", 2**10, 2**10, 2**10), "too many for a file of"),
        (idx(GREY[:0]), "holds 0 x 28 x 28 = 0 bytes: nothing"),
        (idx(GREY[:, :0]), "holds 4 x 0 x 28 = 0 bytes: nothing"),
        (bytes((0, 0, 8, 3)) + bytes(4) + b"\xff" * 8, "= 0 bytes: nothing"),
    ],
)
def test_damage_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = write_mnist(tmp_path)
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_idx(path)
    packed = tmp_path / "x-images-idx3-ubyte.gz"
    packed.write_bytes(gzip.compress(content))
    with memory_below(10 * 2**20), pytest.raises(DataError, match=message):
        read_idx(packed)


def test_a_packed_file_does_not_unpack_to_any_length(tmp_path: Path) -> None:
    path = tmp_path / "x-images-idx3-ubyte.gz"
    content = bytes((0, 0, 8, 3)) + struct.pack(">3I", 2**7, 2**10, 2**10) + bytes(2**27)
    path.write_bytes(gzip.compress(content, 1))  # 128 MB in less than one
    with pytest.raises(DataError, match=r"too many for a file of \d+ bytes; .* or unpack it"):
        read_idx(path)


@pytest.mark.parametrize("keep", [0, 5, 1000])
def test_a_packed_file_cut_short_is_an_error(tmp_path: Path, keep: int) -> None:
    path = write_mnist(tmp_path, packed=True)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataError, match="train-images"):
        read_idx(path)


def test_labels_of_another_set_are_an_error(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(LABELS[:3]))
    with pytest.raises(DataError, match=r"has 4 images but .* has 3 labels"):
        read_idx(tmp_path)
