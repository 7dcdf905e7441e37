import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from oddone.cli import terminal
from oddone.cli.loading import load_images
from oddone.data import download

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(run_oddone: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Return a function that runs `oddone data ...` in a folder and with a cache of its own."""
    monkeypatch.setenv("ODDONE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return partial(run_oddone, "data")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Three cats, one of them broken, and two dogs."""
    for name in ("cat/1.png", "cat/2.png", "dog/1.png", "dog/2.png"):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 50), "red").save(path)
    (tmp_path / "photos" / "cat" / "3 [bold].png").write_text("meow")
    return tmp_path / "photos"


def test_list_shows_every_notation(run: Run) -> None:
    code, printed, _ = run("list")
    assert code == 0
    for notation in ("fashion[:known|:unseen]", "folder:PATH", "cifar10:PATH", "svhn:PATH", "PATH"):
        assert notation in printed


def test_info_of_the_embedded_images_shows_the_classes_with_their_counts(run: Run) -> None:
    code, printed, _ = run("info", "fashion:unseen#test")
    assert code == 0
    lines = [line.split() for line in printed.splitlines()]
    assert printed.startswith("400 images of 28 x 28 pixels, 2 classes, fingerprint ")
    assert lines[1:] == [
        ["label", "class", "name", "images"],
        ["0", "sneaker", "200"],
        ["1", "bag", "200"],
    ]


def test_names_of_classes_cannot_steer_the_terminal(run: Run, tmp_path: Path) -> None:
    pixels = np.zeros((2, 8, 8), np.uint8)
    np.savez(tmp_path / "a.npz", images=pixels, labels=["\x1b]0;title\x07", "plain"])
    code, printed, _ = run("info", str(tmp_path / "a.npz"))
    assert code == 0
    assert "\x1b" not in printed
    assert r"\x1b]0;title\x07" in printed


def test_info_resizes_when_asked(run: Run) -> None:
    assert "of 12 x 12 pixels" in run("info", "fashion:unseen", "--size", "12")[1]


def test_info_of_a_folder_lists_broken_files_with_the_reason(run: Run, photos: Path) -> None:
    code, printed, _ = run("info", str(photos))
    assert code == 0
    assert printed.startswith("4 images of 32 x 32 pixels, 2 classes")
    assert "1 file could not be read:" in printed
    broken = next(line for line in printed.splitlines() if "3 [bold].png" in line)
    assert broken.split(": ", maxsplit=1)[1]


def test_info_counts_what_was_left_out_by_ending(run: Run, photos: Path) -> None:
    assert "left out" not in run("info", str(photos))[1]
    for name in ("a.txt", "cat/b.txt", "dog/film.mov", "dog/README"):
        (photos / name).write_text("no picture")
    assert "\nleft out: 2 .txt, 1 .mov, 1 without ending\n" in run("info", str(photos))[1]


def test_info_says_how_many_images_are_enlarged(run: Run, photos: Path) -> None:
    assert "enlarged" not in run("info", str(photos))[1]  # 32 pixels
    Image.new("RGB", (99, 99), "red").save(photos / "cat" / "large.png")
    printed = run("info", str(photos), "--size", "64")[1]
    assert printed.endswith("\nenlarged: 4 of 5 images, smaller than 64 x 64 pixels\n")


def test_what_was_left_out_is_one_short_line() -> None:
    many = {f".{ending}": ord(ending) * 100 for ending in "abcdefg"}
    shown = "left out: 10,300 .g, 10,200 .f, 10,100 .e, 10,000 .d, 9,900 .c, 19,500 others"
    assert terminal.describe_left_out(many) == shown


def test_every_command_that_loads_images_says_what_was_left_out(
    photos: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODDONE_CACHE", str(photos.parent / "cache"))
    (photos / "cat" / "film.mov").touch()
    load_images(str(photos), 32)
    printed = capsys.readouterr().out
    assert "1 file could not be read:" in printed
    assert printed.endswith("left out: 1 .mov\n")


def test_a_broken_file_whose_name_is_no_unicode_can_still_be_told(run: Run, photos: Path) -> None:
    (photos / "cat" / "3 [bold].png").rename(photos / "cat" / "caf\udce9.png")
    assert "caf\\udce9.png: " in run("info", str(photos))[1]
    code, _, complained = run("info", str(photos / "caf\udce9"))
    assert code == 2
    assert "caf" in complained


def test_info_of_many_broken_files_shows_some_and_counts_the_rest(
    run: Run, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "BROKEN_SHOWN", 2)
    for index in range(5):
        (photos / "dog" / f"broken{index}.jpg").touch()
    _, printed, _ = run("info", str(photos))
    assert "6 files could not be read:" in printed
    assert "and 4 more" in printed


def test_info_without_labels_shows_no_classes(run: Run, photos: Path) -> None:
    code, printed, _ = run("info", f"flat:{photos}")
    assert code == 0
    assert printed.startswith("4 images of 32 x 32 pixels, no labels, fingerprint ")
    assert "\nlabel" not in printed


def test_info_of_one_class_is_like_that_of_several(run: Run, tmp_path: Path) -> None:
    (tmp_path / "parts" / "good").mkdir(parents=True)
    Image.new("RGB", (40, 50), "red").save(tmp_path / "parts" / "good" / "1.png")
    code, printed, _ = run("info", "parts")
    assert code == 0
    assert printed.startswith("1 image of 32 x 32 pixels, 1 class, fingerprint ")
    assert printed.splitlines()[-1].split() == ["0", "good", "1"]


def test_info_of_what_is_not_there_says_so(run: Run) -> None:
    code, printed, complained = run("info", "fashon")
    assert (code, printed) == (2, "")
    assert "did you mean fashion" in complained


def test_get_ends_with_the_command_to_run_next(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    md5 = hashlib.md5(b"pictures", usedforsecurity=False).hexdigest()
    official = download.OFFICIAL["cifar10"][0]._replace(md5=md5)
    monkeypatch.setitem(download.OFFICIAL, "cifar10", (official,))
    folder = tmp_path / "my data"
    folder.mkdir()
    (folder / official.name).write_bytes(b"pictures")
    code, printed, _ = run("get", "cifar10", "--to", str(folder))
    assert code == 0
    assert "cifar-10-python.tar.gz is there and whole" in printed
    assert printed.endswith(f"Next: oddone train 'cifar10:{folder}'\n")


def test_get_without_a_folder_makes_one_and_says_what_to_do_when_the_host_is_away(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(download, "RETRIES", 0)
    nobody = download.OfficialFile("http://127.0.0.1:9/train_32x32.mat", "0" * 32)
    monkeypatch.setitem(download.OFFICIAL, "svhn", (nobody,))
    code, _, complained = run("get", "svhn")
    assert code == 2
    assert "http://127.0.0.1:9/train_32x32.mat cannot be downloaded to svhn (" in complained
    assert f"get train_32x32.mat (md5 {nobody.md5}) some other way and put it there" in complained
    assert (tmp_path / "svhn").is_dir()


def test_fix_writes_small_pictures_and_lists_broken_ones(
    run: Run, photos: Path, tmp_path: Path
) -> None:
    (photos / "notes.txt").touch()
    code, printed, _ = run("fix", str(photos), "small")
    assert code == 0
    assert printed.endswith("left out: 1 .txt\n")
    assert printed.startswith(
        "4 pictures in small\n1 file could not be read:\n  cat/3 [bold].png: "
    )
    with Image.open(tmp_path / "small" / "000003.png") as small:
        assert small.size == (32, 32)


def test_fix_passes_its_options_on(run: Run, photos: Path, tmp_path: Path) -> None:
    code, printed, _ = run("fix", str(photos), "two", "--count", "2", "--seed", "5", "--aliased")
    assert (code, printed.splitlines()[0]) == (0, "2 pictures in two")
    assert len(list((tmp_path / "two").glob("*.png"))) == 2


def test_fix_does_not_write_where_something_is(run: Run, photos: Path) -> None:
    code, _, complained = run("fix", str(photos), str(photos))
    assert code == 2
    assert "not empty" in complained


def test_clean_says_what_was_freed(run: Run, photos: Path) -> None:
    run("info", str(photos))
    code, printed, _ = run("clean")
    assert code == 0
    assert printed == "1 decoded folder and 0 files of features deleted, 0.0 MB freed\n"
    assert run("clean")[1].startswith("0 decoded folders and 0 files of features deleted, 0.0 MB")


def test_a_bar_is_shown_on_a_terminal_once_the_work_takes_its_time(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with terminal.progress_bar() as progress:
        progress(1, 4, "short work")
    assert capsys.readouterr().err == ""
    with terminal.progress_bar(after_seconds=0.0) as progress:
        progress(1, 4, "long work")
        progress(0, 0, "work of unknown length")
    shown = capsys.readouterr().err
    assert "long work" in shown
    assert "work of unknown length" in shown
