import os
from pathlib import Path

import numpy as np
import pytest
import scipy.io

from oddone.data.svhn import read_svhn
from oddone.errors import DataError

PIXELS = np.random.default_rng(0).integers(0, 256, (5, 3, 32, 32), dtype=np.uint8)


def write_svhn(path: Path, **changes: object) -> Path:
    labels = np.array([[1], [10], [9], [2], [10]], dtype=np.uint8)
    content = {"X": PIXELS.transpose(2, 3, 1, 0), "y": labels} | changes
    scipy.io.savemat(path, content, do_compression=True)
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


def test_a_missing_split_suggests_the_other(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no train_32x32.mat; give the folder that holds it"):
        read_svhn(tmp_path)
    write_svhn(tmp_path / "test_32x32.mat")
    with pytest.raises(DataError, match=r"has no train_32x32.mat; .*svhn:.*#test"):
        read_svhn(tmp_path)


@pytest.mark.parametrize("keep", [0, 100, 200, 5000])
def test_a_file_cut_short_is_an_error(tmp_path: Path, keep: int) -> None:
    path = write_svhn(tmp_path / "train_32x32.mat")
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataError, match="train_32x32.mat"):
        read_svhn(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": np.zeros((32, 32, 3, 5))}, "X of .* is float64"),
        ({"X": np.zeros((32, 32, 5), np.uint8)}, r"of shape \(32, 32, 5\)"),
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


@pytest.mark.skipif("ODDONE_DATA" not in os.environ, reason="ODDONE_DATA names no folder")
def test_real_svhn_is_read() -> None:
    test = read_svhn(Path(os.environ["ODDONE_DATA"]) / "svhn", "test")
    assert test.images.shape == (5000, 3, 32, 32)
    assert set(test.labels.tolist()) == set(range(10))
