import errno
import json
import os
import sys
from pathlib import Path
from unittest.mock import ANY

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from oddone.files import (
    file_beside,
    folder_beside,
    read_regular,
    remove_leftovers,
    write_atomic,
    write_dated_json,
    write_json,
)
from oddone.tensor_file import write_tensors


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    write_atomic(path, b"old")
    write_atomic(path, b"new")
    assert path.read_bytes() == b"new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.bin"]


def test_a_write_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.bin"
    write_atomic(path, b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.bin"]


def test_a_file_of_the_users_own_is_left_alone(tmp_path: Path) -> None:
    own = tmp_path / "a.bin.part"
    own.write_bytes(b"precious")
    write_atomic(tmp_path / "a.bin", b"new")
    assert own.read_bytes() == b"precious"


def test_two_who_write_one_file_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / ("a" * 250)  # as long as a name can be, almost
    with file_beside(path) as one, file_beside(path) as other:
        one.write_bytes(b"one" * 1000)
        other.write_bytes(b"other")
        remove_leftovers(tmp_path)
        one.replace(path)
        other.replace(path)
    assert path.read_bytes() == b"other"
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_may_be_read_by_those_whom_the_umask_lets(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        write_atomic(tmp_path / "a.bin", b"new")
    finally:
        os.umask(before)
    assert (tmp_path / "a.bin").stat().st_mode & 0o777 == 0o644


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no flock")
def test_leftovers_are_removed_unless_somebody_writes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oddone.files.YOUNG_SECONDS", -1.0)
    left = tmp_path / f".oddone-{'0' * 16}.part"
    left.touch()
    left_folder = tmp_path / f".oddone-{'1' * 16}.part"
    left_folder.mkdir()
    (left_folder / "a.png").touch()
    with file_beside(tmp_path / "a.csv") as part, folder_beside(tmp_path / "b") as folder:
        (folder / "a.png").touch()
        remove_leftovers(tmp_path)
        assert sorted(tmp_path.iterdir()) == sorted((part, folder))
        assert len(list(folder.iterdir())) == 1
    assert list(tmp_path.iterdir()) == []
    remove_leftovers(tmp_path / "nowhere")


def test_json_and_tensors_come_back(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"seed": 3})
    assert json.loads((tmp_path / "a.json").read_text()) == {"seed": 3}
    transposed = torch.arange(6.0).reshape(2, 3).mT
    write_tensors(tmp_path / "a.safetensors", {"w": transposed}, {"classes": ["cat"]})
    with safe_open(tmp_path / "a.safetensors", framework="pt") as file:
        assert torch.equal(file.get_tensor("w"), transposed)
        assert json.loads(file.metadata()["classes"]) == ["cat"]


def test_tensors_that_share_memory_are_each_written(tmp_path: Path) -> None:
    whole = torch.arange(6.0).reshape(2, 3)
    tensors = {"one": whole, "same": whole, "transposed": whole.mT, "part": whole[1]}
    write_tensors(tmp_path / "a.safetensors", tensors, {})
    loaded = load_file(tmp_path / "a.safetensors")
    assert all(torch.equal(loaded[name], tensor) for name, tensor in tensors.items())


def test_a_dated_file_has_its_date_in_its_name(tmp_path: Path) -> None:
    content = {"date": "2026-11-16T05:19:33+00:00", "seed": 0}
    path = write_dated_json(tmp_path / "results", "speed-loss", content)
    assert path == tmp_path / "results" / "2026-11-16-051933-speed-loss.json"
    assert json.loads(path.read_text()) == content
    later = write_dated_json(
        tmp_path / "results", "speed-loss", content | {"date": "2026-11-16T05:19:34+00:00"}
    )
    assert sorted([later, path]) == [path, later]


@pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
def test_dated_files_of_one_second_do_not_replace_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    contents = [{"date": "2026-11-16T05:19:59+00:00", "seed": seed} for seed in range(3)]
    paths = [write_dated_json(tmp_path, "speed-loss", content) for content in contents]
    assert [json.loads(path.read_text()) for path in paths] == contents
    assert sorted(tmp_path.iterdir()) == paths
    assert paths[1].name == "2026-11-16-052000-speed-loss.json"


def test_the_same_content_is_the_same_file(tmp_path: Path) -> None:
    tensors = {name: torch.arange(5.0) for name in ("b", "a", "ü")}
    about = {f"entry {number}": ["ü", number] for number in range(20)}
    write_tensors(tmp_path / "one", tensors, about)
    write_tensors(tmp_path / "other", tensors, dict(reversed(about.items())))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    with safe_open(tmp_path / "one", framework="pt") as file:
        assert {name: json.loads(text) for name, text in file.metadata().items()} == {
            **about,
            "digest": ANY,
        }
        assert torch.equal(file.get_tensor("ü"), tensors["ü"])


def test_a_file_that_does_not_say_how_long_it_is_is_read_whole() -> None:
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("there is no /proc here")
    assert status.stat().st_size == 0
    assert b"VmRSS" in read_regular(status, 10**6)
    with pytest.raises(OSError, match="over 10 bytes"):
        read_regular(status, 10)
