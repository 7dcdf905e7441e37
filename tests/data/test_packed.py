"""Pictures in tars and Parquet files, as sources of `load` and of `stream`."""

import gzip
import math
import sys
from collections import deque
from pathlib import Path

import numpy as np
import pytest

from memory import memory_below
from oddone.data import limits, load, stream
from oddone.data.decode import decode
from oddone.data.parquet_file import read_parquet, row_groups
from oddone.data.tar_shard import list_tar, read_tar
from oddone.errors import DataError
from packs import some_pictures, tar_of, write_parquet

PICTURES = some_pictures(4)


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODDONE_CACHE", str(tmp_path / "cache"))


def sample(number: int, label: str) -> dict[str, bytes]:
    return {f"{number:04}.png": PICTURES[number], f"{number:04}.cls": label.encode()}


@pytest.mark.parametrize("ending", [".tar", ".tar.gz", ".tgz"])
def test_a_tar_of_webdataset_is_loaded_with_the_labels_of_its_cls_entries(
    tmp_path: Path, ending: str
) -> None:
    path = tmp_path / f"shard{ending}"
    contents = sample(0, "10") | sample(1, "9") | sample(2, "10\n") | {"0000.json": b"{}"}
    path.write_bytes(tar_of(contents, "w" if ending == ".tar" else "w:gz"))
    images = load(str(path), size=16)
    assert images.classes == ("9", "10")  # as numbers, not as text
    assert images.labels.tolist() == [1, 0, 1]
    assert list(images.paths) == [f"{path}/{number:04}.png" for number in range(3)]
    assert (images.images[2] == decode(PICTURES[2], 16)).all()


def test_without_cls_entries_the_folder_of_a_picture_is_its_class(tmp_path: Path) -> None:
    path = tmp_path / "photos.tar"
    names = ["./cats/1.png", "./cats/2.png", "./dogs/1.png", "./dogs/.hidden.png"]
    path.write_bytes(tar_of(dict(zip(names, PICTURES, strict=True))))
    images = load(f"tar:{path}", size=16)
    assert images.classes == ("cats", "dogs")
    assert images.labels.tolist() == [0, 0, 1]


def test_names_that_do_not_fit_into_a_header_are_read(tmp_path: Path) -> None:
    name = f"{'long' * 40}/{'name' * 40}.png"
    path = tmp_path / "a.tar"
    path.write_bytes(tar_of({name: PICTURES[0]}))  # pax
    assert [label.name for label in list_tar(str(path))] == [f"{path}/{name}"]


def test_a_folder_of_tars_is_one_source_and_a_changed_one_is_decoded_again(tmp_path: Path) -> None:
    shards = tmp_path / "shards"
    shards.mkdir()
    for number in range(2):
        (shards / f"{number}.tar").write_bytes(tar_of(sample(number, "a") | sample(3, "b")))
    first = load(str(shards), size=16)
    assert len(first) == 4
    (shards / "1.tar").write_bytes(tar_of(sample(2, "a") | sample(3, "b")))
    again = load(str(shards), size=16)
    assert (first.images[2] != again.images[2]).any()


def test_a_damaged_tar_gives_what_is_before_the_damage_and_the_reason(tmp_path: Path) -> None:
    path, other = tmp_path / "a.tar", tmp_path / "b.tar"
    content = tar_of(sample(0, "a") | {"text.png": b"no picture"} | sample(1, "a"))
    path.write_bytes(content[: content.index(b"0001.png") + 600])
    other.write_bytes(tar_of(sample(2, "a")))
    found = list(stream([str(path), str(other)], size=16))
    assert [image.path for image in found] == [
        *(f"{path}/{name}" for name in ("0000.png", "text.png")),
        str(path),
        f"{other}/0002.png",
    ]
    assert found[1].reason == "not an image of a known format"
    assert found[2].reason is not None
    assert "it is cut short" in found[2].reason
    with pytest.raises(
        DataError, match="a.tar as a tar: it is cut short; copy or download it again"
    ):
        load(str(path), size=16)


def test_a_packed_tar_that_was_cut_off_says_so_in_the_same_words(tmp_path: Path) -> None:
    path, whole = tmp_path / "a.tar.gz", gzip.compress(tar_of(sample(0, "a") | sample(1, "b")))
    path.write_bytes(whole[: len(whole) // 2])
    wanted = f"cannot read {path} as a tar: it is cut short; copy or download it again"
    with pytest.raises(DataError) as caught:
        load(str(path), size=16)
    assert str(caught.value) == wanted
    assert list(stream(str(path), size=16))[-1].reason == wanted


def test_a_picture_that_is_too_long_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MOST_PICTURE_BYTES", 1500)
    path = tmp_path / "a.tar"
    path.write_bytes(tar_of({"long.png": bytes(2000), "short.png": PICTURES[0]}))
    long, short = read_tar(str(path))
    assert long.content == "it has over 1,500 bytes, and is no file of its own on this machine"
    assert short.content == PICTURES[0]


def test_a_tar_that_unpacks_to_far_more_than_it_has_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.tar.gz"
    path.write_bytes(gzip.compress(tar_of({f"{n}.png": bytes(2**20) for n in range(100)})))
    with memory_below(20 * 2**20):
        (last,) = deque(read_tar(str(path)), maxlen=1)
    assert isinstance(last.content, str)
    assert "it unpacks to over" in last.content


# --- Parquet ----------------------------------------------------------------------------------


def test_a_parquet_file_is_loaded_with_its_labels(tmp_path: Path) -> None:
    columns = {"id": [5, 6, 7], "image": PICTURES[:3], "label": ["cat", "dog", "cat"]}
    path = write_parquet(tmp_path / "a.parquet", columns)
    images = load(str(path), size=16)
    assert images.classes == ("cat", "dog")
    assert images.labels.tolist() == [0, 1, 0]
    assert list(images.paths) == [f"{path}[{row}]" for row in range(3)]
    assert (images.images[1] == decode(PICTURES[1], 16)).all()


@pytest.mark.parametrize(
    ("labels", "classes", "numbers"),
    [
        ([True, False, None], ("False", "True"), [1, 0, -1]),
        ([10.0, 9.0, math.nan], ("9", "10"), [1, 0, -1]),
        ([1.0, 0.0, None], ("0", "1"), [1, 0, -1]),
    ],
)
def test_labels_may_be_true_or_false_or_whole_floats(
    tmp_path: Path, labels: list[object], classes: tuple[str, ...], numbers: list[int]
) -> None:
    path = write_parquet(tmp_path / "a.parquet", {"image": PICTURES[:3], "label": labels})
    images = load(str(path), size=16)
    assert images.classes == classes
    assert images.labels.tolist() == numbers


@pytest.mark.parametrize("label", [0.5, math.inf])
def test_a_label_that_is_no_whole_number_is_named(tmp_path: Path, label: float) -> None:
    path = write_parquet(tmp_path / "a.parquet", {"image": PICTURES[:2], "label": [1.0, label]})
    with pytest.raises(DataError, match=f"has the label {label:g}; write whole numbers or text"):
        load(str(path), size=16)
    assert all(image.reason is None for image in stream(str(path), size=16))


def test_structs_of_bytes_and_path_are_read_as_hugging_face_writes_them(tmp_path: Path) -> None:
    structs = [{"bytes": PICTURES[n], "path": f"{n}.png"} for n in range(2)]
    columns = {
        "image": [*structs, {"bytes": None, "path": "gone.png"}, None],
        "label": [3, 1, 3, 1],
    }
    path = write_parquet(tmp_path / "a.parquet", columns)
    images = load(str(path), size=16)
    assert images.classes == ("1", "3")
    assert images.labels.tolist() == [1, 0]
    assert list(images.paths) == [f"{path}/0.png", f"{path}/1.png"]
    assert [file.path for file in images.broken] == [f"{path}/gone.png", f"{path}[3]"]


def test_some_row_groups_are_read_by_themselves(tmp_path: Path) -> None:
    path = str(write_parquet(tmp_path / "a.parquet", {"image": PICTURES}, rows_per_group=3))
    assert [(group.first_row, group.rows) for group in row_groups(path)] == [(0, 3), (3, 1)]
    assert [picture.name for picture in read_parquet(path, [1])] == [f"{path}[3]"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": [1]}, "has no column of pictures (it has a); name one of bytes `image`"),
        ({"a": [b"1"], "b": [b"2"]}, "has no column of pictures (it has a, b)"),
    ],
)
def test_a_table_without_pictures_says_what_is_missing(
    tmp_path: Path, columns: dict[str, list[object]], message: str
) -> None:
    path = write_parquet(tmp_path / "a.parquet", columns)
    (image,) = stream(str(path), size=16)
    assert image.reason is not None
    assert message in image.reason
    with pytest.raises(DataError, match="has no column of pictures"):
        load(str(path))


def test_a_parquet_file_that_unpacks_to_far_more_than_it_has_is_refused(tmp_path: Path) -> None:
    rows = [bytes(2**20)] * 100
    path = tmp_path / "bomb.parquet"
    write_parquet(path, {"image": rows}, rows_per_group=100)
    (last,) = deque(read_parquet(str(path)), maxlen=1)
    assert isinstance(last.content, str)
    assert "it unpacks to over" in last.content


def test_damage_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1 and nothing else")
    with pytest.raises(DataError, match="cannot read .*a.parquet as Parquet"):
        load(str(path))


def test_without_its_package_parquet_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_parquet(tmp_path / "a.parquet", {"image": PICTURES})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match="pip install 'oddone.parquet.'"):
        load(str(path))


def test_size_is_chosen_by_the_first_pictures(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a.parquet", {"image": some_pictures(3)})
    assert load(str(path)).images.shape == (3, 3, 32, 32)
    assert np.unique(load(str(path)).labels).tolist() == [-1]
