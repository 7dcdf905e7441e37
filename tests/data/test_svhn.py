import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.io

from memory import memory_below
from oddone.data.svhn import read_svhn
from oddone.errors import DataError

PIXELS = np.random.default_rng(0).integers(0, 256, (5, 3, 32, 32), dtype=np.uint8)


def write_svhn(path: Path, *, packed: bool = True, **changes: object) -> Path:
    labels = np.array([[1], [10], [9], [2], [10]], dtype=np.uint8)
    content = {"X": PIXELS.transpose(2, 3, 1, 0), "y": labels} | changes
    scipy.io.savemat(path, content, do_compression=packed)
    return path


def element(kind: int, content: bytes) -> bytes:
    return struct.pack("<II", kind, len(content)) + content + bytes(-len(content) % 8)


def matrix(name: str, shape: tuple[int, ...], numbers: bytes) -> bytes:
    """Return an element of bytes, whose shape need not fit them."""
    sides = struct.pack(f"<{len(shape)}i", *shape)
    parts = element(6, struct.pack("<II", 9, 0)), element(5, sides), element(1, name.encode())
    return element(14, b"".join(parts) + numbers)


def packed_element(content: bytes) -> bytes:
    content = zlib.compress(content)
    return struct.pack("<II", 15, len(content)) + content


def mat_file(path: Path, *elements: bytes) -> Path:
    path.write_bytes(b"MATLAB 5.0".ljust(124) + b"\x00\x01IM" + b"".join(elements))
    return path


def test_the_label_ten_is_the_digit_zero(tmp_path: Path) -> None:
    write_svhn(tmp_path / "train_32x32.mat")
    train = read_svhn(tmp_path)
    np.testing.assert_array_equal(train.images, PIXELS)
    assert train.labels.tolist() == [1, 0, 9, 2, 0]
    assert train.classes == tuple("0123456789")
    assert train.paths[4] == f"svhn:{tmp_path}#train[4]"


def test_a_file_is_read_by_itself(tmp_path: Path) -> None:
    path = write_svhn(tmp_path / "extra_32x32.mat")
    assert read_svhn(path).paths[0] == f"svhn:{path}[0]"


def test_an_array_that_comes_twice_is_refused(tmp_path: Path) -> None:
    path = write_svhn(tmp_path / "a.mat")
    path.write_bytes(path.read_bytes() + path.read_bytes()[128:])
    assert len(read_svhn(path)) == 5  # what comes after both is not read
    one = mat_file(tmp_path / "b.mat", *[matrix("X", (1, 1, 3, 1), element(2, b"abc"))] * 2)
    with pytest.raises(DataError, match=r"b\.mat \(it holds X twice\)"):
        read_svhn(one)


@pytest.mark.parametrize("kind", ["u1", "i2", "f4", "f8"])
@pytest.mark.parametrize("packed", [True, False])
def test_labels_may_be_any_numbers_and_arrays_lie_in_any_order(
    tmp_path: Path, kind: str, packed: bool
) -> None:
    labels = np.array([1, 10, 9, 2, 10], dtype=kind)
    images = PIXELS.transpose(2, 3, 1, 0)
    content = {"a": np.zeros(9), "y": labels, "text": "no numbers", "X": images}
    scipy.io.savemat(tmp_path / "a.mat", content, do_compression=packed)
    read = read_svhn(tmp_path / "a.mat")
    np.testing.assert_array_equal(read.images, PIXELS)
    assert read.labels.tolist() == [1, 0, 9, 2, 0]


def test_a_missing_split_suggests_the_other(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no train_32x32.mat; give the folder that holds it"):
        read_svhn(tmp_path)
    write_svhn(tmp_path / "test_32x32.mat")
    with pytest.raises(DataError, match=r"has no train_32x32.mat; .*svhn:.*#test"):
        read_svhn(tmp_path)


@pytest.mark.parametrize("keep", [0, 100, 127, 131, 200, 5000])
@pytest.mark.parametrize("packed", [True, False])
def test_a_file_cut_short_is_an_error(tmp_path: Path, keep: int, packed: bool) -> None:
    path = write_svhn(tmp_path / "train_32x32.mat", packed=packed)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataError, match="train_32x32.mat"):
        read_svhn(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": np.zeros((32, 32, 3, 5))}, "X of .* is float64"),
        ({"X": np.zeros((32, 32, 5), np.uint8)}, r"of shape \(32, 32, 5\)"),
        ({"X": np.zeros((0, 32, 3, 5), np.uint8)}, "no pixel"),
        ({"X": "text"}, "X holds no plain numbers"),
        ({"y": np.ones((4, 1), np.uint8)}, "has 5 images but 4 labels"),
        ({"y": np.full((5, 1), 11, np.uint8)}, "holds other labels than 1 to 10"),
    ],
)
def test_what_does_not_fit_is_named(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        read_svhn(write_svhn(tmp_path / "a.mat", **changes))


def test_another_mat_file_is_an_error(tmp_path: Path) -> None:
    scipy.io.savemat(tmp_path / "a.mat", {"z": np.zeros(3)})
    with pytest.raises(DataError, match="has no X and y"):
        read_svhn(tmp_path / "a.mat")
    (tmp_path / "b.mat").write_text("This is a text and no file of Matlab's. " * 10)
    with pytest.raises(DataError, match="cannot read .*b.mat"):
        read_svhn(tmp_path / "b.mat")


# --- Distrust ---------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [True, False])
def test_one_wrong_byte_is_named_or_harmless(
    tmp_path: Path, packed: bool, run_python: Callable[[str], str]
) -> None:
    """SciPy's reader ends the process at some of them, so they are tried in one of their own."""
    whole = write_svhn(tmp_path / "a.mat", packed=packed)
    said = run_python(f"""
        from pathlib import Path
        from oddone.data.svhn import read_svhn
        path = Path({str(whole)!r})
        content = path.read_bytes()
        refused = 0
        labels = range(len(content) - 72, len(content))
        for place in [*range(124, 260), *labels]:
            for value in (0x00, 0x0E, 0x7F, 0xFF):
                path.write_bytes(content[:place] + bytes([value]) + content[place + 1 :])
                try:
                    read_svhn(path)
                except ValueError:
                    refused += 1
        print(refused)
    """)
    assert int(said) > 200


def test_a_wrong_byte_of_a_packed_image_is_noticed(tmp_path: Path) -> None:
    path = write_svhn(tmp_path / "a.mat", packed=True)
    content = bytearray(path.read_bytes())
    content[5000] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match="cannot read .*a.mat"):
        read_svhn(path)


@pytest.mark.parametrize(
    ("elements", "message"),
    [
        ([matrix("X", (32, 32, 3, 2**30), element(2, b"x"))], "of shape .* has 1 bytes"),
        ([matrix("X", (-1, -1), element(2, b"x"))], r"of shape \(-1, -1\) has 1 bytes"),
        ([matrix("X", (2**20, 2**10), struct.pack("<II", 2, 2**30))], "bytes in an element of"),
        ([matrix("X", (1,), struct.pack("<I", 9 << 16 | 2) + bytes(8))], "short element has 9"),
        ([matrix("X", (1,) * 9, b"")], "36 bytes is out of place"),
        ([struct.pack("<II", 14, 2**31)], "cut short: 2147483784 bytes are told"),
        ([packed_element(struct.pack("<II", 14, 2**31))], "told to unpack to 2147483648"),
        ([packed_element(matrix("X", (8,), element(2, bytes(8))) + bytes(99))], "goes on after"),
        ([element(14, b"")], "type 14 and 0 bytes|cut short"),
        ([matrix("X", (0,) + (2**31 - 1,) * 3, element(2, b""))], "cannot read"),
        ([element(1, b"")] * 1001, "over 1000 variables"),
    ],
)
def test_no_file_chooses_how_much_memory_is_taken(
    tmp_path: Path, elements: list[bytes], message: str
) -> None:
    path = mat_file(tmp_path / "a.mat", *elements)
    with memory_below(10 * 2**20), pytest.raises(DataError, match=message):
        read_svhn(path)


def test_a_file_of_newer_matlab_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.mat").write_bytes(b"MATLAB 7.3 MAT-file".ljust(200))
    with pytest.raises(DataError, match=r"it is HDF5, which Matlab writes with -v7\.3"):
        read_svhn(tmp_path / "a.mat")


@pytest.mark.skipif("ODDONE_DATA" not in os.environ, reason="ODDONE_DATA names no folder")
def test_real_svhn_is_read() -> None:
    test = read_svhn(Path(os.environ["ODDONE_DATA"]) / "svhn", "test")
    assert test.images.shape == (5000, 3, 32, 32)
    assert set(test.labels.tolist()) == set(range(10))
