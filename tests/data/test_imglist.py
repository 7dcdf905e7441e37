import errno
from pathlib import Path

import pytest
from pictures import make_folder, noise

from oddone.data.imglist import read_imglist
from oddone.errors import DataError


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODDONE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "root", {"cat": 2, "dog": 2})


def test_a_list_gives_order_and_labels(root: Path) -> None:
    (root / "list.txt").write_text("dog/1.png 7\ncat/0.png 3\n\ndog/0.png 7\n")
    image_set = read_imglist(root / "list.txt")
    assert image_set.classes == ("3", "7")
    assert image_set.labels.tolist() == [1, 0, 1]
    assert image_set.paths[0] == str(root / "dog" / "1.png")


def test_the_mark_that_windows_puts_before_a_text_is_no_part_of_a_name(root: Path) -> None:
    (root / "list.txt").write_text("dog/1.png 7\n", encoding="utf-8-sig")
    assert read_imglist(root / "list.txt").paths == (str(root / "dog" / "1.png"),)


def test_paths_are_relative_to_the_given_root(root: Path, tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("cat/0.png 0\n")
    assert len(read_imglist(tmp_path / "list.txt", root)) == 1
    with pytest.raises(DataError, match=r"none of the 1 files .*list.txt@FOLDER"):
        read_imglist(tmp_path / "list.txt")


def test_labels_of_minus_one_mean_none(root: Path) -> None:
    (root / "list.txt").write_text("cat/0.png -1\ndog/0.png 4\n")
    image_set = read_imglist(root / "list.txt")
    assert image_set.labels.tolist() == [-1, 0]
    assert image_set.classes == ("4",)
    (root / "list.txt").write_text("cat/0.png -1\ndog/0.png -1\n")
    assert read_imglist(root / "list.txt").classes == ()


def test_paths_may_hold_spaces(root: Path) -> None:
    noise().save(root / "a big cat.png")
    (root / "list.txt").write_text("a big cat.png 0\n")
    assert len(read_imglist(root / "list.txt")) == 1


def test_missing_and_broken_files_are_listed(root: Path) -> None:
    (root / "bad.png").write_text("no")
    (root / "list.txt").write_text("cat/0.png 0\ngone.png 0\ncat 0\nbad.png 0\n")
    image_set = read_imglist(root / "list.txt")
    assert len(image_set) == 1
    assert [file.reason for file in image_set.broken] == [
        "no such file or directory",
        "is a directory",
        "not an image of a known format",
    ]
    with pytest.raises(DataError, match="3 files of"):
        read_imglist(root / "list.txt", strict=True)


@pytest.mark.parametrize(
    "line",
    [
        *("cat/0.png", "cat/0.png one", "cat/0.png -2", "7", "a.png 1.5", "a.png 4294967296000"),
        *(f"a.png {10**29}", "a.png " + "9" * 60),
    ],
)
def test_a_line_that_is_no_path_and_label_is_named(root: Path, line: str) -> None:
    (root / "list.txt").write_text(f"cat/0.png 0\n{line}\n")
    with pytest.raises(DataError, match=f"line 2 of .*list.txt is '{line}'"):
        read_imglist(root / "list.txt")


def test_an_empty_list_is_an_error(root: Path) -> None:
    (root / "list.txt").write_text("\n")
    with pytest.raises(DataError, match="lists no images"):
        read_imglist(root / "list.txt")


def test_a_list_that_is_no_text_is_an_error(root: Path) -> None:
    (root / "list.txt").write_bytes(b"\xff\xfe\x80")
    with pytest.raises(DataError, match="is not a text file"):
        read_imglist(root / "list.txt")


def test_a_label_of_thousands_of_digits_is_named(root: Path) -> None:
    (root / "list.txt").write_text(f"cat/0.png {'9' * 5000}\n")
    with pytest.raises(DataError, match="line 1 of .* as a number from 0 to 999999999"):
        read_imglist(root / "list.txt")


def test_names_that_no_file_can_have_are_listed(root: Path) -> None:
    (root / "list.txt").write_text(f"cat/0.png 0\ncat\0/0.png 0\n{'x/' * 3000}0.png 0\n")
    image_set = read_imglist(root / "list.txt")
    assert len(image_set) == 1
    assert image_set.broken[0].reason == "no name of a file"
    assert "too long" in image_set.broken[1].reason


def test_a_list_that_cannot_be_read_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise PermissionError(errno.EACCES, "Permission denied")

    (root / "list.txt").touch()
    monkeypatch.setattr("oddone.data.imglist.open_regular", refuse)
    with pytest.raises(DataError, match="cannot read .*list.txt: Permission denied; name a list"):
        read_imglist(root / "list.txt")
