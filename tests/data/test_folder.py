import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from pictures import bomb_png, encoded, lock, make_folder, noise

from oddone.data.folder import read_flat_folder, read_labelled_folder
from oddone.data.image_set import BrokenFile
from oddone.data.notation import load
from oddone.errors import DataError, DataWarning


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODDONE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "root", {"dog": 2, "cat": 3})


def test_each_subfolder_is_a_class_in_sorted_order(root: Path) -> None:
    image_set = read_labelled_folder(root)
    assert image_set.classes == ("cat", "dog")
    assert image_set.labels.tolist() == [0, 0, 0, 1, 1]
    assert image_set.paths[3] == str(root / "dog" / "0.png")
    assert image_set.broken == ()


def test_pictures_lie_at_any_depth_below_their_class(root: Path) -> None:
    (root / "cat" / "2024" / "june").mkdir(parents=True)
    noise().save(root / "cat" / "2024" / "june" / "deep.JPG", "JPEG")
    image_set = read_labelled_folder(root)
    assert image_set.labels.tolist() == [0, 0, 0, 0, 1, 1]
    assert str(root / "cat" / "2024" / "june" / "deep.JPG") in image_set.paths


def test_a_folder_above_the_class_folders_is_noticed(tmp_path: Path) -> None:
    above = tmp_path / "above"
    for place in ("train/cat", "train/dog", "more/cat", "more/bird"):
        (above / place).mkdir(parents=True)
        noise().save(above / place / "1.png")
    with pytest.warns(
        DataWarning, match=r"the classes \(more, train\), and all pictures lie deeper"
    ) as told:
        assert read_labelled_folder(above).classes == ("more", "train")
    inner = above / "more"
    assert f"in {inner / 'bird'}; if the classes are there, name {inner}" in str(told[0].message)
    noise().save(above / "train" / "1.png")  # a folder of each year, say, and a loose picture
    read_labelled_folder(above)


def test_one_folder_in_each_class_is_as_good_as_none(root: Path) -> None:
    for name in ("cat", "dog"):  # as in Tiny ImageNet
        pictures = list((root / name).iterdir())
        (root / name / "images").mkdir()
        for path in pictures:
            path.rename(root / name / "images" / path.name)
    assert read_labelled_folder(root).classes == ("cat", "dog")


def test_one_class_is_enough(tmp_path: Path) -> None:
    make_folder(tmp_path / "parts", {"good": 3})
    image_set = load(str(tmp_path / "parts"))
    assert image_set.classes == ("good",)
    assert image_set.labels.tolist() == [0, 0, 0]


def test_images_without_a_class_folder_are_told_how_to_become_one_class(tmp_path: Path) -> None:
    make_folder(tmp_path, {"parts": 2})
    around = re.escape(str(tmp_path / "parts" / "NAME"))
    with pytest.raises(DataError, match=rf"one class, a single {around} around the images"):
        load(f"folder:{tmp_path / 'parts'}")


def test_a_flat_folder_has_no_labels(root: Path) -> None:
    noise().save(root / "loose.png")
    image_set = read_flat_folder(root)
    assert image_set.classes == ()
    assert image_set.labels.tolist() == [-1] * 6


def test_hidden_files_are_ignored_without_a_word_and_others_counted(root: Path) -> None:
    before = read_labelled_folder(root).fingerprint
    for name in (".DS_Store", "Thumbs.db", "desktop.ini", "notes.txt", "._0.png"):
        (root / "cat" / name).write_text("no picture")
        (root / name).write_text("no picture")
    make_folder(root / ".git", {"objects": 1})
    make_folder(root / "cat" / ".thumbnails", {"small": 1})
    image_set = read_labelled_folder(root)
    assert image_set.fingerprint == before
    assert image_set.broken == ()
    assert image_set.left_out == {".txt": 2}


def test_what_does_not_decode_is_listed_and_the_rest_goes_on(root: Path) -> None:
    jpeg = encoded(noise(), "JPEG")
    (root / "cat" / "cut.jpg").write_bytes(jpeg[: len(jpeg) // 2])
    (root / "cat" / "empty.png").write_bytes(b"")
    (root / "dog" / "fake.jpg").write_text("text")
    (root / "dog" / "huge.png").write_bytes(bomb_png())
    image_set = read_labelled_folder(root)
    assert image_set.labels.tolist() == [0, 0, 0, 1, 1]
    assert image_set.broken == (
        BrokenFile(str(root / "cat" / "cut.jpg"), "truncated"),
        BrokenFile(str(root / "cat" / "empty.png"), "empty file"),
        BrokenFile(str(root / "dog" / "fake.jpg"), "not an image of a known format"),
        BrokenFile(str(root / "dog" / "huge.png"), "12000 x 90000 pixels is too large"),
    )


@pytest.mark.filterwarnings("error")
def test_what_pillow_warns_about_is_no_warning_of_ours(root: Path) -> None:
    (root / "cat" / "odd.tif").write_bytes(b"II*\x00\x08\x00\x00\x00\x05\x00")
    image_set = read_labelled_folder(root)
    assert [file.reason for file in image_set.broken] == ["damaged TIFF header"]


def test_strict_makes_broken_files_an_error_that_names_five(root: Path) -> None:
    for i in range(7):
        (root / "cat" / f"bad{i}.jpg").write_text("text")
    first = os.path.join("cat", "bad0.jpg")  # noqa: PTH118, as it is printed
    with pytest.raises(DataError) as caught:
        read_labelled_folder(root, strict=True)
    message = str(caught.value)
    assert "7 files of" in message
    assert f"{first} (not an image of a known format)" in message
    assert message.count("bad") == 5
    assert "and 2 more" in message
    with pytest.raises(DataError, match="7 files of"):  # from the cache as well
        read_flat_folder(root, strict=True)
    assert len(read_labelled_folder(root).broken) == 7


def test_loose_pictures_beside_the_classes_are_listed(root: Path) -> None:
    noise().save(root / "loose.png")
    image_set = read_labelled_folder(root)
    assert len(image_set) == 5
    assert image_set.broken == (BrokenFile(str(root / "loose.png"), "lies in no class folder"),)


# --- Links ------------------------------------------------------------------------------------


def test_links_to_files_and_folders_are_followed(root: Path, tmp_path: Path) -> None:
    make_folder(tmp_path / "elsewhere", {"bird": 2})
    (root / "bird").symlink_to(tmp_path / "elsewhere" / "bird")
    (root / "cat" / "link.png").symlink_to(root / "dog" / "0.png")
    image_set = read_labelled_folder(root)
    assert image_set.classes == ("bird", "cat", "dog")
    assert image_set.labels.tolist() == [0, 0, 1, 1, 1, 1, 2, 2]
    np.testing.assert_array_equal(image_set.images[5], image_set.images[6])


def test_loops_of_links_end(root: Path) -> None:
    (root / "cat" / "up").symlink_to(root / "cat")
    (root / "dog" / "self.png").symlink_to(root / "dog" / "self.png")
    image_set = read_labelled_folder(root)
    assert len(image_set) == 5
    assert [file.path for file in image_set.broken] == [str(root / "dog" / "self.png")]
    (root / "dog" / "root").symlink_to(root)
    assert len(read_flat_folder(root)) == 5


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pipes among files")
def test_links_to_nowhere_and_pipes_are_listed(root: Path) -> None:
    (root / "cat" / "gone.png").symlink_to(root / "gone.png")
    os.mkfifo(root / "dog" / "pipe.jpg")
    os.mkfifo(root / "dog" / "pipe without ending")
    broken = read_labelled_folder(root).broken
    assert [file.reason for file in broken] == ["no such file or directory", "not a regular file"]


# --- Locked folders ---------------------------------------------------------------------------

LOCKED = "folder cannot be opened: permission denied"


def test_a_locked_folder_is_listed_and_the_rest_goes_on(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = root / "cat" / "locked"
    locked.mkdir()
    lock(monkeypatch, locked)
    for image_set in (read_labelled_folder(root), read_flat_folder(root)):
        assert len(image_set) == 5
        assert image_set.broken == (BrokenFile(str(locked), LOCKED),)
    with pytest.raises(DataError, match=f"1 file of .* cannot be read: cat/locked .{LOCKED}."):
        read_labelled_folder(root, strict=True)


def test_a_locked_class_is_left_out_and_said(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "lost+found").mkdir()  # on the disks of Linux it belongs to root
    (root / "cow").mkdir()
    lock(monkeypatch, root / "cow", root / "lost+found")
    image_set = read_labelled_folder(root)
    assert image_set.classes == ("cat", "dog")
    assert image_set.labels.tolist() == [0, 0, 0, 1, 1]
    assert [file.path for file in image_set.broken] == [
        str(root / "cow"),
        str(root / "lost+found"),
    ]


def test_nothing_but_locked_folders_is_an_error(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock(monkeypatch, root / "cat", root / "dog")
    with pytest.raises(DataError, match=f"no class folder of .* can be read: cat .{LOCKED}., dog"):
        read_labelled_folder(root)
    with pytest.raises(DataError, match=f"no images below .*; cat .{LOCKED}., dog"):
        read_flat_folder(root)


def test_a_locked_root_is_an_error(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock(monkeypatch, root)
    with pytest.raises(DataError, match="cannot look into .*root: Permission denied"):
        read_flat_folder(root)


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may open every folder"
)
@pytest.mark.parametrize("mode", [0o000, 0o400, 0o100])
def test_a_folder_is_locked_by_its_mode(root: Path, mode: int) -> None:
    locked = root / "cat" / "locked"
    locked.mkdir()
    noise().save(locked / "a.png")
    (root / "dog" / "link.png").symlink_to(locked / "a.png")
    locked.chmod(mode)
    try:
        broken = read_labelled_folder(root).broken
    finally:
        locked.chmod(0o700)
    assert BrokenFile(str(locked), LOCKED) in broken


# --- What cannot be learned from --------------------------------------------------------------


def test_an_empty_class_is_an_error_that_says_what_was_found(root: Path) -> None:
    (root / "bird").mkdir()
    with pytest.raises(DataError, match=r"class 'bird' has no images \(found in .*: nothing\)"):
        read_labelled_folder(root)
    (root / "bird" / "notes.txt").write_text("")
    with pytest.raises(DataError, match=r"'bird' has no images \(found in .*: notes.txt\)"):
        read_labelled_folder(root)


def test_a_class_of_broken_files_only_is_an_error(root: Path) -> None:
    (root / "bird").mkdir()
    (root / "bird" / "a.jpg").write_text("text")
    with pytest.raises(DataError, match=r"class 'bird' has no image that can be read: .*a.jpg"):
        read_labelled_folder(root)


@pytest.mark.parametrize("beside", [[], ["Val"], ["ground_truth"]])
def test_splits_do_not_pass_for_classes(tmp_path: Path, beside: list[str]) -> None:
    for name in ("train", "test", *beside):
        make_folder(tmp_path / "photos" / name, {"cat": 1, "dog": 1})
    with pytest.raises(DataError) as caught:
        load(str(tmp_path / "photos"))
    photos = tmp_path / "photos"
    message = str(caught.value)
    assert message.startswith(f"the folders of {photos} are splits, not classes (train, ")
    assert f"name one of them, such as {photos / 'train'} ({photos / 'test'} serves" in message
    assert load(str(photos / "train")).classes == ("cat", "dog")


@pytest.mark.parametrize("splits", [["train"], ["test", "validation"]])
def test_splits_of_one_kind_are_noticed_by_the_folders_in_them(
    tmp_path: Path, splits: list[str]
) -> None:
    for name in splits:
        make_folder(tmp_path / "photos" / name, {"cat": 1, "dog": 1})
    first = tmp_path / "photos" / splits[0]
    with pytest.raises(DataError, match=rf"are splits, not classes .*, such as {first}$"):
        read_labelled_folder(tmp_path / "photos")


def test_a_class_may_be_called_train(tmp_path: Path) -> None:
    make_folder(tmp_path / "root", {"bus": 1, "train": 1})
    assert read_labelled_folder(tmp_path / "root").classes == ("bus", "train")


def test_splits_without_classes_in_them_are_noticed_too(tmp_path: Path) -> None:
    make_folder(tmp_path / "root", {"Test": 1, "Train": 2})
    with pytest.raises(DataError, match=r"splits, not classes \(Train, Test\)"):
        read_labelled_folder(tmp_path / "root")


def test_a_folder_without_images_names_up_to_five_things(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    for i in range(7):
        (tmp_path / "texts" / f"{i}.txt").write_text("")
    expected = r"\(found: 0.txt, 1.txt, 2.txt, 3.txt, 4.txt and 2 more\)"
    with pytest.raises(DataError, match=rf"no images below .*{expected}"):
        read_flat_folder(tmp_path / "texts")
    with pytest.raises(DataError, match=rf"has no class folders {expected}"):
        read_labelled_folder(tmp_path / "texts")


def test_a_folder_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot look into"):
        read_flat_folder(tmp_path / "file")


# --- Size -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("side", "expected"), [(20, 32), (32, 32), (63, 32), (64, 64), (130, 128), (300, 224)]
)
def test_the_size_follows_the_pictures(tmp_path: Path, side: int, expected: int) -> None:
    make_folder(tmp_path / "root", {"cat": 2, "dog": 1}, side)
    assert read_labelled_folder(tmp_path / "root").images.shape[2:] == (expected, expected)


def test_the_size_follows_the_shorter_side_of_most(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    for i, (width, height) in enumerate([(400, 70), (70, 400), (66, 66), (500, 500), (10, 10)]):
        noise(i, width, height).save(tmp_path / "root" / f"{i}.png")
    (tmp_path / "root" / "bad.png").write_text("no")
    assert read_flat_folder(tmp_path / "root").images.shape[2] == 64


def test_images_smaller_than_the_size_are_counted(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    sides = [(31, 400), (400, 31), (32, 32), (33, 33), (8, 8)]
    for i, (width, height) in enumerate(sides):
        noise(i, width, height).save(root / f"{i}.png")
    noise(9, 900, 700).save(root / "decoded at a fraction.jpg")
    (root / "bad.png").write_text("no")
    assert read_flat_folder(root, size=32).enlarged == 3
    assert read_flat_folder(root, size=32).enlarged == 3  # from the cache
    assert read_flat_folder(root, size=8).enlarged == 0
    assert read_flat_folder(root, size=1000).enlarged == 6
