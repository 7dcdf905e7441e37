"""The file of `--out`, for every command that writes one."""

import errno
import os
from pathlib import Path

import pytest

from oddone.cli.out_file import check_out_file, out_file_in_parts, write_out_file
from oddone.errors import SettingsError


def test_a_new_file_in_a_folder_passes(tmp_path: Path) -> None:
    check_out_file(tmp_path / "result.json")
    check_out_file(tmp_path / "result.JSON", (".json", ".csv"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "endings", "message"),
    [
        ("page.txt", (".html",), "page.txt: let the name end in .html"),
        ("page.txt", (".json", ".csv"), "let the name end in .json or .csv"),
        ("page", (".csv", ".jsonl", ".parquet"), "end in .csv, .jsonl or .parquet"),
        (".", (), "name a file in a folder that exists"),
        ("nowhere/page.html", (), "nowhere/page.html: name a file in a folder that exists"),
    ],
)
def test_what_cannot_be_written_is_an_error_before_the_work(
    tmp_path: Path, name: str, endings: tuple[str, ...], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        check_out_file(tmp_path / name, endings)


def test_a_folder_that_may_not_be_written_to_is_an_error_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda _path, mode: mode != os.W_OK)  # root may write all
    with pytest.raises(SettingsError, match=f"page.html: you may not write to {tmp_path}; choose"):
        check_out_file(tmp_path / "page.html")


def test_a_file_system_that_takes_no_files_is_an_error_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(SettingsError, match=r"page.html cannot be written: Read-only .* --out"):
        check_out_file(tmp_path / "page.html")


def test_a_file_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere" / "page.html"
    with pytest.raises(SettingsError, match=r"page.html cannot be written: No such file .* --out"):
        write_out_file(missing, b"page")


def test_a_file_in_parts_takes_its_name_when_it_is_complete(tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    out.write_text("before")
    with out_file_in_parts(out) as part:
        part.write_text("after")
        assert out.read_text() == "before"
    assert out.read_text() == "after"
    assert list(tmp_path.iterdir()) == [out]


def test_a_file_in_parts_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    out.write_text("before")

    def write_half() -> None:
        with out_file_in_parts(out) as part:
            part.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert out.read_text() == "before"
    assert list(tmp_path.iterdir()) == [out]


def test_two_runs_to_one_file_do_not_meet(tmp_path: Path) -> None:
    out, own = tmp_path / "rows.csv", tmp_path / "rows.csv.part"
    own.write_text("the user's own")
    with out_file_in_parts(out) as one:
        with out_file_in_parts(out) as other:
            one.write_text("one, and more of it")
            other.write_text("other")
        assert out.read_text() == "other"
    assert out.read_text() == "one, and more of it"
    assert own.read_text() == "the user's own"
    assert sorted(tmp_path.iterdir()) == [out, own]


def test_what_an_earlier_run_left_is_removed(tmp_path: Path) -> None:
    left = tmp_path / f".oddone-{'0' * 16}.part"
    left.touch()
    os.utime(left, (0, 0))
    write_out_file(tmp_path / "page.html", b"page")
    assert not left.exists()


def test_an_error_of_something_else_does_not_blame_the_file(tmp_path: Path) -> None:
    def read_a_source() -> None:
        with out_file_in_parts(tmp_path / "rows.csv"):
            raise OSError(5, "Input/output error", "source.png")

    with pytest.raises(OSError, match="source.png"):
        read_a_source()
