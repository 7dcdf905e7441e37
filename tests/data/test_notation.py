import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from pictures import make_folder, noise
from test_cifar import archived, write_cifar10, write_cifar100
from test_idx import write_mnist
from test_svhn import write_svhn

import oddone.data
from oddone.data.notation import SCHEMES, describe_sources, load
from oddone.errors import DataError, SettingsError


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODDONE_CACHE", str(tmp_path / "cache"))


def make_arrays(path: Path) -> Path:
    path.mkdir()
    pixels = np.zeros((4, 20, 30, 3), dtype=np.uint8)
    np.savez(path / "set.npz", images=pixels, labels=[0, 1, 0, 1])
    return path / "set.npz"


def make_npy(path: Path) -> Path:
    path.mkdir()
    np.save(path / "set.npy", np.zeros((4, 20, 20), dtype=np.uint8))
    return path / "set.npy"


def make_labelled(path: Path) -> Path:
    return make_folder(path, {"cat": 2, "dog": 2})


def make_flat(path: Path) -> Path:
    path.mkdir()
    noise().save(path / "a.png")
    return path


def make_imglist(path: Path) -> Path:
    make_labelled(path)
    (path / "list.txt").write_text("cat/0.png 0\ndog/1.png 1\n")
    return path / "list.txt"


def make_archive(path: Path) -> Path:
    return archived(write_cifar10(path), path / "mine.tar.gz")


def make_svhn(path: Path) -> Path:
    path.mkdir()
    write_svhn(path / "train_32x32.mat")
    return path


def make_mat(path: Path) -> Path:
    path.mkdir()
    return write_svhn(path / "train_32x32.mat")


def make_idx(path: Path) -> Path:
    path.mkdir()
    write_mnist(path)
    return path


def make_idx_file(path: Path) -> Path:
    path.mkdir()
    return write_mnist(path, packed=True)


MAKERS = [
    ("arrays", make_arrays, 20),
    ("arrays", make_npy, 20),
    ("folder", make_labelled, 32),
    ("flat", make_flat, 32),
    ("imglist", make_imglist, 32),
    ("cifar10", write_cifar10, 32),
    ("cifar10", make_archive, 32),
    ("svhn", make_svhn, 32),
    ("svhn", make_mat, 32),
    ("idx", make_idx, 28),
    ("idx", make_idx_file, 28),
]


@pytest.mark.parametrize(("scheme", "make", "native"), MAKERS)
def test_a_plain_path_is_guessed_by_what_it_is(
    tmp_path: Path, scheme: str, make: Callable[[Path], Path], native: int
) -> None:
    path = make(tmp_path / "set")
    guessed, named = load(str(path)), load(f"{scheme}:{path}")
    assert guessed.fingerprint == named.fingerprint
    assert guessed.paths == named.paths
    assert guessed.images.shape[2:] == (native, native)


@pytest.mark.parametrize(("scheme", "make", "native"), MAKERS)
def test_every_source_comes_in_the_size_that_is_asked(
    tmp_path: Path, scheme: str, make: Callable[[Path], Path], native: int
) -> None:
    path = make(tmp_path / "set")
    assert load(f"{scheme}:{path}", size=native - 4).images.shape[2:] == (native - 4,) * 2


def test_splits_are_named_after_a_hash(tmp_path: Path) -> None:
    folder = write_cifar10(tmp_path)
    assert len(load(f"cifar10:{folder}")) == len(load(f"cifar10:{folder}#train")) == 20
    assert len(load(f"cifar10:{folder}#test")) == len(load(f"{folder}#test")) == 4


def test_cifar100_without_train_suggests_test(tmp_path: Path) -> None:
    folder = write_cifar100(tmp_path)
    with pytest.raises(DataError, match="#test"):
        load(f"cifar100:{folder}")
    assert len(load(f"{folder}#test")) == 4


def test_an_image_list_may_name_its_root(tmp_path: Path) -> None:
    make_labelled(tmp_path / "pictures")
    (tmp_path / "list.txt").write_text("cat/0.png 0\n")
    assert len(load(f"imglist:{tmp_path / 'list.txt'}@{tmp_path / 'pictures'}")) == 1


def test_paths_may_hold_the_marks_of_the_notation(tmp_path: Path) -> None:
    make_labelled(tmp_path / "a:b#c@d")
    assert len(load(str(tmp_path / "a:b#c@d"))) == 4
    assert len(load(f"folder:{tmp_path / 'a:b#c@d'}")) == 4
    (tmp_path / "a:b#c@d" / "list.txt").write_text("cat/0.png 0\n")
    assert len(load(f"imglist:{tmp_path / 'a:b#c@d' / 'list.txt'}")) == 1


def test_the_home_folder_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    make_labelled(tmp_path / "pictures")
    assert len(load("~/pictures")) == len(load("flat:~/pictures")) == 4


def test_strict_and_progress_reach_the_folder(tmp_path: Path) -> None:
    root = make_labelled(tmp_path / "set")
    (root / "cat" / "bad.jpg").write_text("no")
    seen: list[int] = []
    load(f"folder:{root}", progress=lambda done, _total, _what: seen.append(done))
    assert seen[-1] == 5
    for scheme in ("folder", "flat"):
        with pytest.raises(DataError, match="1 file of"):
            load(f"{scheme}:{root}", strict=True)


@pytest.mark.parametrize("part", ["", ":known", ":unseen"])
def test_the_embedded_images_are_read(part: str) -> None:
    pytest.importorskip("oddone.data.fashion")
    train, test = load(f"fashion{part}"), load(f"fashion{part}#test", size=32)
    assert len(train) > len(test) > 0
    assert test.images.shape[2:] == (32, 32)
    with pytest.raises(DataError, match="fashion:known"):
        load("fashion:new")


# --- Mistakes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("cifar:somewhere", r"unknown scheme 'cifar' .*did you mean cifar10:PATH"),
        ("flodr:somewhere", r"did you mean folder:PATH\?"),
        ("zzzzz:somewhere", "the schemes are fashion, digits, folder, flat"),
        ("fashon", r"'fashon' does not exist; did you mean fashion"),
        ("cifar10", r"'cifar10' does not exist; did you mean cifar10:PATH"),
        ("no/such/path", "'no/such/path' does not exist; name a file or folder that does"),
        ("folder:no/such/path", "path does not exist; check the path of folder:"),
        ("imglist:no.txt@root", "no.txt does not exist"),
        ("folder:", "names no path; write folder:PATH"),
        ("cifar10:no/such#valid", "names the split 'valid'; write #train or #test"),
        ("C:/no/such", "does not exist"),
        ("", "'' names no images; name a file or folder, or . for this folder"),
        ("#test", "'#test' names no images"),
    ],
)
def test_a_source_that_is_none_says_what_to_write(source: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load(source)


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_split_of_what_has_none_is_an_error(tmp_path: Path, split: str) -> None:
    sources = [
        f"folder:{make_labelled(tmp_path / 'a')}",
        f"flat:{make_flat(tmp_path / 'b')}",
        f"arrays:{make_arrays(tmp_path / 'c')}",
        f"imglist:{make_imglist(tmp_path / 'd')}",
        f"svhn:{make_mat(tmp_path / 'e')}",
        f"idx:{make_idx_file(tmp_path / 'f')}",
        str(tmp_path / "a"),
    ]
    for source in sources:
        with pytest.raises(DataError, match=f"names the split '{split}', but .* has no splits"):
            load(f"{source}#{split}")


def test_a_path_that_can_be_read_in_several_ways_is_an_error(tmp_path: Path) -> None:
    root = make_labelled(tmp_path / "set")
    noise().save(root / "loose.png")
    with pytest.raises(DataError, match=r"several ways; write folder:.* or flat:"):
        load(str(root))
    write_cifar10(tmp_path / "both")
    write_cifar100(tmp_path / "both")
    with pytest.raises(DataError, match=r"several ways; write cifar10:.* or cifar100:"):
        load(str(tmp_path / "both"))


def test_a_folder_with_the_name_of_embedded_images_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, embedded in (("digits", 10), ("fashion", 10)):
        make_labelled(tmp_path / name)
        with pytest.raises(DataError, match=rf"write \./{name} for yours, or {name}: for those"):
            load(name)
        assert len(load(f"./{name}").classes) == 2
        assert len(load(f"{name}:").classes) == embedded
    assert len(load("fashion:known").classes) == 8


def test_a_path_that_cannot_be_guessed_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    with pytest.raises(DataError, match=r"holds no images that oddone knows \(found: nothing\)"):
        load(str(tmp_path / "set"))
    (tmp_path / "set" / "film.mkv").write_text("")
    with pytest.raises(DataError, match=r"\(found: film.mkv\)"):
        load(str(tmp_path / "set"))
    with pytest.raises(DataError, match="cannot tell what film.mkv is by its name; write SCHEME:"):
        load(str(tmp_path / "set" / "film.mkv"))
    noise().save(tmp_path / "one.png")
    with pytest.raises(DataError, match="is one picture; name its folder, as flat:"):
        load(str(tmp_path / "one.png"))
    with tarfile.open(tmp_path / "other.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "set", "set")
    with pytest.raises(DataError, match=r"other.tar.gz holds no pictures"):
        load(str(tmp_path / "other.tar.gz"))


def test_a_detector_is_no_source_of_images(tmp_path: Path) -> None:
    path = tmp_path / "garments.oddone"
    path.write_bytes(b"")
    fix = rf"is a detector, not images; open it with oddone.Detector.load\('{path}'\)"
    with pytest.raises(DataError, match=fix):
        load(str(path))


def test_a_file_for_a_folder_and_a_folder_for_a_file_are_errors(tmp_path: Path) -> None:
    path = make_arrays(tmp_path / "set")
    for scheme in ("folder", "flat"):
        with pytest.raises(DataError, match=f"is a file; {scheme}: reads a folder"):
            load(f"{scheme}:{path}")
    for scheme in ("arrays", "imglist"):
        with pytest.raises(DataError, match=f"is a folder; {scheme}: reads a file"):
            load(f"{scheme}:{tmp_path}")


@pytest.mark.parametrize("size", [0, -32, 10_001, 10**30])
def test_a_size_that_no_image_has_is_an_error(size: int) -> None:
    with pytest.raises(SettingsError, match=f"size={size}"):
        load("fashion", size=size)


# --- The package ------------------------------------------------------------------------------


def test_every_scheme_is_described() -> None:
    described = describe_sources()
    assert len(described) == len(SCHEMES) + 2
    for scheme, (notation, description) in zip(SCHEMES, described, strict=False):
        assert notation.startswith(scheme)
        assert description


def test_the_package_offers_what_users_need() -> None:
    names = {
        "BrokenFile",
        "ImageSet",
        "ImageStream",
        "StreamedImage",
        "clean_cache",
        "load",
        "stream",
    }
    assert set(oddone.data.__all__) == names


def test_importing_the_package_does_not_import_what_is_rarely_needed(
    run_python: Callable[[str], str],
) -> None:
    script = "import sys, oddone.data; print('scipy' in sys.modules)"
    assert run_python(script) == "False"


@pytest.mark.skipif("ODDONE_DATA" not in os.environ, reason="ODDONE_DATA names no folder")
def test_real_sources_are_guessed() -> None:
    data = Path(os.environ["ODDONE_DATA"])
    assert len(load(f"{data / 'svhn'}#test")) == 5000
    assert len(load(f"{data / 'cifar-100-python'}#test")) == 5000
    assert load(str(data / "ood" / "scenes.npz"), size=16).images.shape == (2000, 3, 16, 16)


def test_digits_need_no_path_and_have_no_splits() -> None:
    digits = load("digits", size=28)
    assert digits.images.shape == (1797, 3, 28, 28)
    assert digits.images.max() > 240
    assert np.bincount(digits.labels).min() > 170
    for wrong in ("digits:here", "digits#test"):
        with pytest.raises(DataError, match="digits"):
            load(wrong)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_a_pipe_is_no_file_of_arrays(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.npz")
    with pytest.raises(DataError, match="a.npz is no regular file; arrays: reads a file"):
        load(f"arrays:{tmp_path / 'a.npz'}")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
@pytest.mark.parametrize("scheme", ["", "idx:", "svhn:"])
@pytest.mark.parametrize(
    "name",
    [
        *("a.npz", "a.npy", "train_32x32.mat", "a-images-idx3-ubyte", "a-images-idx3-ubyte.gz"),
        *("a.tar", "a.parquet", "a.txt", "cifar-10-python.tar.gz"),
    ],
)
def test_nobody_waits_for_a_pipe(tmp_path: Path, scheme: str, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(DataError, match=name):
        load(f"{scheme}{tmp_path / name}")


def test_names_that_are_too_long_are_an_error() -> None:
    with pytest.raises(DataError, match="cannot look at .*: File name too long"):
        load("x/" * 3000)
