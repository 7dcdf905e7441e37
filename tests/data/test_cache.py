import errno
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from pictures import make_folder, noise

import oddone.data.cache as caching
from oddone.data.cache import CacheSize, Listing, cache_size, clean_cache, load_or_decode
from oddone.data.decode import DecodedImage, decode, decode_picture
from oddone.data.folder import read_flat_folder, read_labelled_folder
from oddone.data.image_set import BrokenFile, ImageSet
from oddone.errors import DataError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ODDONE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "decoded"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "root", {"cat": 3, "dog": 2})


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return a list that every decoded path is appended to."""
    paths: list[Path] = []

    def counted(path: Path, size: int) -> DecodedImage:
        paths.append(path)
        return decode_picture(path, size)

    monkeypatch.setattr("oddone.data.decode.decode_picture", counted)
    return paths


def assert_same(ours: ImageSet, theirs: ImageSet) -> None:
    np.testing.assert_array_equal(ours.images, theirs.images)
    np.testing.assert_array_equal(ours.labels, theirs.labels)
    assert (ours.classes, ours.paths) == (theirs.classes, theirs.paths)
    assert (ours.fingerprint, ours.broken) == (theirs.fingerprint, theirs.broken)
    assert (ours.left_out, ours.enlarged) == (theirs.left_out, theirs.enlarged)


def test_a_second_load_decodes_nothing(root: Path, calls: list[Path]) -> None:
    (root / "dog" / "bad.jpg").write_text("no picture")
    first = read_labelled_folder(root)
    assert len(calls) == 6
    second = read_labelled_folder(root)
    assert len(calls) == 6
    assert_same(second, first)
    assert isinstance(second.images, np.memmap)
    assert not second.images.flags.writeable


def test_the_cache_holds_what_decoding_gives(root: Path) -> None:
    image_set = read_labelled_folder(root, size=20)
    for image, path in zip(image_set.images, image_set.paths, strict=True):
        np.testing.assert_array_equal(image, decode(Path(path), 20))


def test_another_size_is_another_entry(root: Path, calls: list[Path]) -> None:
    small, large = read_labelled_folder(root, size=16), read_labelled_folder(root, size=24)
    assert (small.images.shape[2], large.images.shape[2], len(calls)) == (16, 24, 10)
    assert small.fingerprint != large.fingerprint


def test_a_changed_added_removed_or_renamed_file_is_noticed(root: Path) -> None:
    fingerprints = {read_labelled_folder(root).fingerprint}
    noise(99).save(root / "cat" / "0.png")
    fingerprints.add(read_labelled_folder(root).fingerprint)
    noise(98).save(root / "cat" / "new.png")
    fingerprints.add(read_labelled_folder(root).fingerprint)
    (root / "cat" / "new.png").rename(root / "cat" / "newer.png")
    fingerprints.add(read_labelled_folder(root).fingerprint)
    (root / "cat" / "1.png").unlink()
    fingerprints.add(read_labelled_folder(root).fingerprint)
    (root / "cat").rename(root / "lynx")
    fingerprints.add(read_labelled_folder(root).fingerprint)
    assert len(fingerprints) == 6


def test_a_touched_file_is_decoded_again(root: Path, calls: list[Path]) -> None:
    read_labelled_folder(root)
    os.utime(root / "cat" / "0.png", ns=(1, 1))
    read_labelled_folder(root)
    assert len(calls) == 10


def test_a_moved_folder_keeps_its_entry_and_names_the_new_place(
    root: Path, calls: list[Path], tmp_path: Path
) -> None:
    read_labelled_folder(root)
    root.rename(tmp_path / "moved")
    moved = read_labelled_folder(tmp_path / "moved")
    assert len(calls) == 5
    assert moved.paths[0] == str(tmp_path / "moved" / "cat" / "0.png")


def make_twins(tmp_path: Path) -> tuple[Path, Path]:
    """Return two folders whose files differ in their pixels alone."""
    folders = tmp_path / "one", tmp_path / "other"
    for seed, folder in enumerate(folders):
        folder.mkdir()
        noise(seed).save(folder / "a.bmp")
        os.utime(folder / "a.bmp", ns=(10**18, 10**18))
    return folders


def test_a_folder_never_gets_the_pixels_of_another(tmp_path: Path) -> None:
    one, other = (read_flat_folder(folder) for folder in make_twins(tmp_path))
    np.testing.assert_array_equal(one.images[0], decode(tmp_path / "one" / "a.bmp", 32))
    np.testing.assert_array_equal(other.images[0], decode(tmp_path / "other" / "a.bmp", 32))


def test_a_file_whose_time_was_set_back_is_decoded_again(tmp_path: Path, calls: list[Path]) -> None:
    one, other = make_twins(tmp_path)
    read_flat_folder(one)
    (one / "a.bmp").write_bytes((other / "a.bmp").read_bytes())
    os.utime(one / "a.bmp", ns=(10**18, 10**18))
    image_set = read_flat_folder(one)
    assert len(calls) == 2
    np.testing.assert_array_equal(image_set.images[0], decode(other / "a.bmp", 32))


def test_a_copy_that_keeps_the_times_has_the_same_fingerprint(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root, tmp_path / "copy")
    copied = read_labelled_folder(tmp_path / "copy")
    assert copied.fingerprint == read_labelled_folder(root).fingerprint


def damage_images(entry: Path) -> None:
    with (entry / "images.npy").open("r+b") as stream:
        stream.truncate(1000)


def damage_header(entry: Path) -> None:
    with (entry / "images.npy").open("r+b") as stream:
        stream.write(b"nonsense")


def swap_images(entry: Path) -> None:
    np.save(entry / "images.npy", np.zeros((5, 3, 8, 8), dtype=np.uint8))


def damage_index(entry: Path) -> None:
    (entry / "index.json").write_text('{"good": [0, 1')


def change_index(entry: Path) -> None:
    (entry / "index.json").write_text(
        json.dumps({"good": [0, 1, 2, 3, 99], "broken": [], "enlarged": 0})
    )


def age_index(entry: Path) -> None:
    (entry / "index.json").write_text(json.dumps({"good": [0, 1, 2, 3, 4], "broken": []}))


def empty_index(entry: Path) -> None:
    (entry / "index.json").write_text("[]")


def remove_images(entry: Path) -> None:
    (entry / "images.npy").unlink()


@pytest.mark.parametrize(
    "damage",
    [
        damage_images,
        damage_header,
        swap_images,
        damage_index,
        change_index,
        age_index,
        empty_index,
        remove_images,
    ],
)
def test_a_damaged_entry_is_rebuilt(root: Path, cache: Path, damage: object) -> None:
    assert callable(damage)
    first = read_labelled_folder(root)
    expected = np.array(first.images)
    (entry,) = cache.iterdir()
    damage(entry)
    again = read_labelled_folder(root)
    np.testing.assert_array_equal(again.images, expected)
    assert list(cache.iterdir()) == [entry]


def test_a_file_in_place_of_an_entry_is_replaced(root: Path, cache: Path) -> None:
    read_labelled_folder(root)
    (entry,) = cache.iterdir()
    clean_cache()
    entry.write_text("in the way")
    assert len(read_labelled_folder(root)) == 5


def test_an_interrupted_build_leaves_nothing_behind(root: Path, cache: Path) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read_labelled_folder(root, progress=interrupt)
    assert list(cache.iterdir()) == []
    assert len(read_labelled_folder(root)) == 5


def test_threads_that_build_the_same_entry_all_end_well(tmp_path: Path, cache: Path) -> None:
    make_folder(tmp_path / "many", {"cat": 40, "dog": 40})
    together = threading.Barrier(4)
    results: list[ImageSet] = []

    def build() -> None:
        together.wait()
        results.append(read_flat_folder(tmp_path / "many"))

    threads = [threading.Thread(target=build) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    for result in results[1:]:
        assert_same(result, results[0])
    assert len(list(cache.iterdir())) == 1


def test_processes_that_build_the_same_entry_all_end_well(tmp_path: Path, cache: Path) -> None:
    root = make_folder(tmp_path / "many", {"cat": 60, "dog": 60})
    script = (
        "import sys; from pathlib import Path; from oddone.data.folder import read_flat_folder;"
        "s = read_flat_folder(Path(sys.argv[1])); print(len(s), s.fingerprint, s.images.sum())"
    )
    command = [sys.executable, "-c", script, str(root)]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603
        for _ in range(2)
    ]
    printed = {process.communicate()[0] for process in running}
    assert [process.returncode for process in running] == [0, 0]
    assert len(printed) == 1
    assert len(list(cache.iterdir())) == 1


def test_the_build_that_ends_second_uses_the_first(
    root: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = caching._write
    raced: list[ImageSet] = []

    def overtaken(*arguments: object) -> None:
        write(*arguments)  # type: ignore[arg-type]
        monkeypatch.setattr("oddone.data.cache._write", write)
        raced.append(read_labelled_folder(root))

    monkeypatch.setattr("oddone.data.cache._write", overtaken)
    assert_same(read_labelled_folder(root), raced[0])
    assert len(list(cache.iterdir())) == 1


def test_an_entry_that_keeps_vanishing_is_an_error(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oddone.data.cache._build", lambda *_: None)
    with pytest.raises(DataError, match="was damaged or removed 3 times"):
        read_labelled_folder(root)


def test_a_cache_that_cannot_be_written_names_the_way_out(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ODDONE_CACHE", str(tmp_path / "file"))
    with pytest.raises(DataError, match=r"cannot keep 5 decoded images .* set ODDONE_CACHE"):
        read_labelled_folder(root)


def test_broken_files_are_kept_with_their_reasons(root: Path) -> None:
    (root / "cat" / "bad.jpg").write_bytes(b"")
    image_set = read_labelled_folder(root)
    assert image_set.broken == (BrokenFile(str(root / "cat" / "bad.jpg"), "empty file"),)
    assert len(image_set) == 5
    assert read_labelled_folder(root).broken == image_set.broken


def test_pictures_none_of_which_can_be_read_are_an_error(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "a.jpg").write_text("no")
    with pytest.raises(DataError, match=r"none of the 1 images .* \(a.jpg: not an image"):
        read_flat_folder(tmp_path / "root")
    assert list(cache.iterdir()) == []


def test_cleaning_removes_entries_and_nothing_else(root: Path, cache: Path) -> None:
    assert clean_cache() == CacheSize(0, 0, 0)
    read_labelled_folder(root, size=16)
    read_labelled_folder(root, size=24)
    (cache / "letter.txt").write_text("mine")
    (cache / "holiday").mkdir()
    (cache / "0123456789abcdef.0123456789abcdef").mkdir()  # left by a process that was killed
    size = cache_size()
    assert size.entries == 3
    assert size.bytes > 5 * 3 * (16**2 + 24**2)
    assert clean_cache() == size
    assert sorted(path.name for path in cache.iterdir()) == ["holiday", "letter.txt"]
    assert cache_size() == CacheSize(0, 0, 0)


def test_cleaning_removes_features_and_nothing_else(cache: Path) -> None:
    folder = cache.parent / "features"
    folder.mkdir(parents=True)
    ours = [f"{'0a' * 16}.safetensors", f"{'0b' * 16}.safetensors.part"]
    others = ["model.safetensors", f"{'0g' * 16}.safetensors", "0a" * 16, "letter.txt"]
    for name in (*ours, *others):
        (folder / name).write_bytes(b"12345")
    (folder / f"{'0c' * 16}.safetensors").mkdir()
    assert clean_cache() == CacheSize(0, 2, 10)
    left = sorted(path.name for path in folder.iterdir())
    assert left == sorted([*others, f"{'0c' * 16}.safetensors"])
    assert cache_size() == CacheSize(0, 0, 0)


def test_the_cache_lies_where_the_platform_keeps_caches(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("ODDONE_CACHE")
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(tmp_path / name))
    assert caching._folder() == tmp_path / "oddone" / "decoded"


@pytest.mark.skipif(sys.platform == "win32", reason="home folders are found in other ways there")
@pytest.mark.parametrize("chosen", [None, "~/cache"])
def test_without_a_home_folder_the_way_out_is_named(
    chosen: str | None, root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def nobody(_: int) -> None:
        raise KeyError

    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "XDG_CACHE_HOME", "ODDONE_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", nobody)
    if chosen is not None:
        monkeypatch.setenv("ODDONE_CACHE", chosen)
    with pytest.raises(DataError, match="no home folder is known .*; set HOME, or ODDONE_CACHE"):
        read_labelled_folder(root)
    assert not (tmp_path / "~").exists()


def test_a_cache_that_cannot_be_emptied_is_named(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    read_labelled_folder(root)
    monkeypatch.setattr("shutil.rmtree", refuse)
    with pytest.raises(DataError, match="cannot empty the cache in .*: Permission denied"):
        clean_cache()


def test_a_folder_that_goes_away_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot look at .*gone: No such file"):
        load_or_decode(Listing(tmp_path / "gone", (), ()), 32)


def test_progress_counts_to_the_number_of_files(root: Path) -> None:
    seen: list[tuple[int, int, str]] = []
    read_labelled_folder(root, progress=lambda *report: seen.append(report))
    assert seen[-1] == (5, 5, "decoding root")


def test_an_empty_listing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="none of the 0 images"):
        load_or_decode(Listing(tmp_path, (), ()), 32)
