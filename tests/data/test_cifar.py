import io
import os
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest

from oddone.data.cifar import CIFAR10, CIFAR100, editions_in, read_cifar10, read_cifar100
from oddone.errors import DataError

NAMES = [f"thing {i}" for i in range(10)]


def pixels(seed: int, count: int = 4) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, 3072), dtype=np.uint8)


def write_cifar10(parent: Path, protocol: int = 4) -> Path:
    folder = parent / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    names = [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]
    for seed, name in enumerate(names):
        batch = {b"data": pixels(seed), b"labels": [seed, 9, 8, 7], b"batch_label": b"x"}
        (folder / name).write_bytes(pickle.dumps(batch, protocol))
    meta = {"label_names": NAMES, "num_vis": 3072}
    (folder / "batches.meta").write_bytes(pickle.dumps(meta, protocol))
    return folder


def write_cifar100(parent: Path) -> Path:
    folder = parent / "cifar-100-python"
    folder.mkdir(parents=True)
    batch = {"data": pixels(0), "fine_labels": [0, 99, 5, 5], "coarse_labels": [1, 2, 3, 4]}
    (folder / "test").write_bytes(pickle.dumps(batch, protocol=2))
    return folder


def archived(folder: Path, path: Path) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        archive.add(folder, folder.name)
    return path


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_cifar10_is_read_in_official_order(tmp_path: Path, protocol: int) -> None:
    folder = write_cifar10(tmp_path, protocol)
    train, test = read_cifar10(folder), read_cifar10(folder, "test")
    expected = np.concatenate([pixels(seed) for seed in range(5)]).reshape(-1, 3, 32, 32)
    np.testing.assert_array_equal(train.images, expected)
    assert train.labels.tolist()[::4] == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(test.images, pixels(5).reshape(-1, 3, 32, 32))
    assert test.labels.tolist() == [5, 9, 8, 7]
    assert train.classes == test.classes == tuple(NAMES)
    assert test.paths[3] == f"cifar10:{folder}#test[3]"


def test_folder_parent_and_archive_are_the_same(tmp_path: Path) -> None:
    folder = write_cifar10(tmp_path / "a")
    archive = archived(folder, tmp_path / "cifar-10-python.tar.gz")
    ours = {read_cifar10(place).fingerprint for place in (folder, folder.parent, archive, tmp_path)}
    assert len(ours) == 1
    assert len(list(tmp_path.iterdir())) == 2  # nothing was extracted


def test_a_wrong_byte_in_an_archive_is_noticed(tmp_path: Path) -> None:
    write_cifar10(tmp_path)
    archive = tmp_path / "cifar-10-python.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=0) as stored:  # each byte as it is
        stored.add(tmp_path / "cifar-10-batches-py", "cifar-10-batches-py")
    content = bytearray(archive.read_bytes())
    content[content.index(pixels(5).tobytes()[:100]) + 50] ^= 1
    archive.write_bytes(content)
    for split in ("train", "test"):
        with pytest.raises(
            DataError, match="cannot read .*: CRC check failed .*; copy or download it"
        ):
            read_cifar10(archive, split)


def test_cifar100_has_fine_labels(tmp_path: Path) -> None:
    folder = write_cifar100(tmp_path)
    test = read_cifar100(folder, "test")
    assert test.labels.tolist() == [0, 99, 5, 5]
    assert test.classes[99] == "99"
    names = [f"fine {i}" for i in range(100)]
    (folder / "meta").write_bytes(pickle.dumps({"fine_label_names": names}))
    assert read_cifar100(folder, "test").classes[99] == "fine 99"


def test_without_the_meta_file_the_classes_have_their_known_names(tmp_path: Path) -> None:
    folder = write_cifar10(tmp_path)
    (folder / "batches.meta").unlink()
    assert read_cifar10(folder).classes[9] == "truck"


def test_a_missing_split_suggests_the_other(tmp_path: Path) -> None:
    folder = write_cifar100(tmp_path)
    with pytest.raises(DataError, match=r"has no train, which .*cifar100:.*#test"):
        read_cifar100(folder)
    (write_cifar10(tmp_path) / "data_batch_3").unlink()
    with pytest.raises(DataError, match=r"has no data_batch_3, .*cifar10:.*#test"):
        read_cifar10(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="give the folder cifar-10-batches-py or cifar-10-python"):
        read_cifar10(tmp_path / "empty")


def test_names_outside_the_folder_of_the_archive_are_ignored(tmp_path: Path) -> None:
    def add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))

    batch = pickle.dumps({"data": pixels(0), "labels": [1] * 4})
    with tarfile.open(tmp_path / "odd.tar.gz", "w:gz") as archive:
        add(archive, "../test_batch", b"nonsense")
        add(archive, "/cifar-10-batches-py/test_batch", b"nonsense")
        add(archive, "elsewhere/test_batch", b"nonsense")
        link = tarfile.TarInfo("cifar-10-batches-py/batches.meta")
        link.type, link.linkname = tarfile.SYMTYPE, "../../secret"
        archive.addfile(link)
        add(archive, "./cifar-10-batches-py/test_batch", batch)
    read = read_cifar10(tmp_path / "odd.tar.gz", "test")
    assert read.labels.tolist() == [1] * 4


def test_what_a_folder_or_archive_holds_is_recognised(tmp_path: Path) -> None:
    ten, hundred = write_cifar10(tmp_path / "a"), write_cifar100(tmp_path / "b")
    assert editions_in(ten) == editions_in(ten.parent) == [CIFAR10]
    assert editions_in(hundred) == editions_in(hundred.parent) == [CIFAR100]
    assert editions_in(archived(hundred, tmp_path / "x.tar.gz")) == [CIFAR100]
    (tmp_path / "c" / "train").mkdir(parents=True)
    assert editions_in(tmp_path / "c") == []


# --- Distrust ---------------------------------------------------------------------------------


class Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", range(2, 6))
def test_an_evil_pickle_is_refused_and_not_run(tmp_path: Path, protocol: int) -> None:
    folder = write_cifar10(tmp_path)
    batch = {"extra": Evil(tmp_path / "made"), "data": pixels(0), "labels": [0] * 4}
    (folder / "test_batch").write_bytes(pickle.dumps(batch, protocol))
    with pytest.raises(DataError, match=r"test_batch of .* asks for \w+\.mkdir, .*nothing was run"):
        read_cifar10(folder, "test")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("keep", [0, 1, 50, 1000])
def test_a_file_cut_short_is_an_error(tmp_path: Path, keep: int) -> None:
    folder = write_cifar10(tmp_path)
    (folder / "test_batch").write_bytes((folder / "test_batch").read_bytes()[:keep])
    with pytest.raises(DataError, match="test_batch of .* is damaged"):
        read_cifar10(folder, "test")


def test_an_archive_cut_short_is_an_error(tmp_path: Path) -> None:
    archive = archived(write_cifar10(tmp_path), tmp_path / "a.tar.gz")
    archive.write_bytes(archive.read_bytes()[:20_000])
    with pytest.raises(DataError, match=r"cannot read .* as a tar: it is cut short"):
        read_cifar10(archive, "test")
    archive.write_text("no archive")
    with pytest.raises(DataError, match="copy or download it again"):
        editions_in(archive)


def test_files_too_large_to_be_true_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_cifar10(tmp_path / "a")
    archive = archived(folder, tmp_path / "a.tar.gz")
    with (folder / "test_batch").open("r+b") as stream:
        stream.truncate(257 * 2**20)  # sparse: takes no room
    with pytest.raises(DataError, match="test_batch there are 257 MB, more than the 256 MB"):
        read_cifar10(folder, "test")
    monkeypatch.setattr("oddone.data.cifar.MOST_BYTES", 100)
    with pytest.raises(DataError, match="more than the 0 MB"):
        read_cifar10(archive, "test")


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ([1, 2], "holds no dict but list"),
        ({"labels": [0] * 4}, "has no `data` of uint8 in rows of 3072"),
        ({"data": pixels(0)[:, :100], "labels": [0] * 4}, "has no `data` of uint8"),
        ({"data": pixels(0).astype(float), "labels": [0] * 4}, "has no `data` of uint8"),
        ({"data": pixels(0), "labels": [0] * 3}, "has no list `labels` of 4 numbers"),
        ({"data": pixels(0), "fine_labels": [0] * 4}, "is it of another CIFAR"),
        ({"data": pixels(0), "labels": [0, 1, 2, 10]}, "the label 10, which is not one of 0 to 9"),
        ({"data": pixels(0), "labels": [0, 1, 2, "x"]}, "the label 'x'"),
        ({"data": pixels(0), "labels": [0, 1, 2, [3]]}, "the label list"),
        ({"data": pixels(0)[:0], "labels": []}, "has no `data` of uint8"),
    ],
)
def test_a_batch_that_is_none_is_named(tmp_path: Path, batch: object, message: str) -> None:
    folder = write_cifar10(tmp_path)
    (folder / "test_batch").write_bytes(pickle.dumps(batch))
    with pytest.raises(DataError, match=message):
        read_cifar10(folder, "test")


def test_a_meta_file_without_all_names_is_an_error(tmp_path: Path) -> None:
    folder = write_cifar10(tmp_path)
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": ["a"]}))
    with pytest.raises(DataError, match="no list `label_names` of 10 names"):
        read_cifar10(folder)
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": [*NAMES[1:], 7]}))
    with pytest.raises(DataError, match="no list `label_names` of 10 names"):
        read_cifar10(folder)


@pytest.mark.skipif("ODDONE_DATA" not in os.environ, reason="ODDONE_DATA names no folder")
def test_real_cifar100_is_read() -> None:
    folder = Path(os.environ["ODDONE_DATA"]) / "cifar-100-python"
    test = read_cifar100(folder, "test")
    assert test.images.shape == (5000, 3, 32, 32)
    assert set(test.labels.tolist()) == set(range(100))
    assert test.classes[0] == "apple"
    with pytest.raises(DataError, match="has no train"):
        read_cifar100(folder)
