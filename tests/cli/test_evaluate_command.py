import csv
import errno
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from oddone.data import ImageSet
from oddone.detector import Detector
from runs import tiny_source

Run = Callable[..., tuple[int, str, str]]


def written(path: Path, source: ImageSet) -> str:
    """Return the notation of a file with these images."""
    images = source.images.transpose(0, 2, 3, 1)
    np.savez(path, images=images, labels=source.labels, classes=np.array(source.classes))
    return f"arrays:{path}"


@pytest.fixture
def new_images(tmp_path: Path) -> str:
    return written(tmp_path / "test.npz", tiny_source(images=30, seed=7))


@pytest.fixture
def noise(tmp_path: Path) -> str:
    pixels = np.random.default_rng(0).integers(0, 256, (20, 16, 16, 3), dtype=np.uint8)
    np.save(tmp_path / "noise.npy", pixels)
    return f"arrays:{tmp_path / 'noise.npy'}"


@pytest.fixture
def dark(tmp_path: Path) -> str:
    np.save(tmp_path / "dark.npy", np.zeros((10, 16, 16, 3), dtype=np.uint8))
    return f"arrays:{tmp_path / 'dark.npy'}"


def cells(printed: str, name: str) -> list[str]:
    """Return the cells of the row of the table that begins with this name."""
    row = next(line for line in printed.splitlines() if line.startswith(f"{name} "))
    return row.removeprefix(name).split()


def test_the_table_shows_what_the_files_hold(
    run_oddone: Run, detector_file: Path, new_images: str, noise: str, dark: str, tmp_path: Path
) -> None:
    outs = [tmp_path / "result.json", tmp_path / "result.csv"]
    code, printed, complained = run_oddone(
        "evaluate", str(detector_file), new_images,
        "--ood", f"noise={noise}", "--ood", f"dark={dark}", "--near", "noise", "--near", "dark",
        "--out", str(outs[0]), "--out", str(outs[1]),
    )  # fmt: skip
    assert (code, complained) == (0, "")
    result = json.loads(outs[0].read_text())
    assert f"{result['accuracy']:.2%} of 30 test images get their label" in printed
    assert f"{result['false_alarms']:.2%} of them are called anomalous: false alarms" in printed
    columns = ("detected", "auroc", "fpr_at_95_ind", "fpr_at_95_ood", "aupr_in", "aupr_out")
    for name, images in (("noise", 20), ("dark", 10)):
        ood = result["oods"][name]
        shares = [f"{ood[column]:.2%}" for column in columns]
        assert cells(printed, name) == [str(images), *shares]
    near = result["averages"]["near"]
    assert cells(printed, "mean of near") == [f"{near[column]:.2%}" for column in columns]
    with outs[1].open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["dataset"] for row in rows] == ["noise", "dark", "nearood"]
    assert rows[2]["AUROC"] == f"{100 * near['auroc']:.2f}"
    assert (
        f"the result is {outs[1]}, and class by class {tmp_path / 'result-classes.csv'}" in printed
    )


def test_the_worst_classes_and_what_ood_images_look_like_are_shown(
    run_oddone: Run,
    detector_file: Path,
    new_images: str,
    dark: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "result.json"
    odd = written(tmp_path / "odd.npz", tiny_source(images=12, classes=4, seed=9))
    words = ("evaluate", str(detector_file), new_images, "--ood", f"odd={odd}", "--out", str(out))
    _, printed, _ = run_oddone(*words, "--ood", f"dark={dark}")
    result = json.loads(out.read_text())
    assert list(result["classes"]) == ["class 0", "class 1", "class 2"]
    for name, numbers in result["classes"].items():
        images, *shares = (
            numbers[key] for key in ("images", "recall", "precision", "false_alarms")
        )
        shown = ["" if share is None else f"{share:.2%}" for share in shares]
        assert cells(printed, name) == [str(images), *filter(None, shown)]
    fourth = result["oods"]["odd"]["classes"]["class 3"]
    like, share = next(iter(fourth["taken_for"].items()))
    numbers = ["3", f"{fourth['detected']:.2%}", f"{fourth['auroc']:.2%}"]
    assert cells(printed, "odd: class 3") == [*numbers, *like.split(), f"{share:.0%}"]
    assert "more" not in printed
    monkeypatch.setattr("oddone.cli.evaluate.CLASSES_SHOWN", 2)
    _, printed, _ = run_oddone(*words)
    assert printed.count("and 1 more: --out FILE has all") == 1
    assert printed.count("and 2 more: --out FILE has all") == 1


def test_what_to_expect_is_said_where_the_detectors_file_says_it(
    run_oddone: Run, detector_file: Path, new_images: str, tmp_path: Path
) -> None:
    detector = Detector.load(detector_file)
    estimate = {"auroc": 0.9, "classes": {"class 0": 0.95, "class 1": 0.85}}
    stated, odd = tmp_path / "stated.oddone", tmp_path / "odd.oddone"
    replace(detector, provenance={"estimate": estimate}).save(stated)
    replace(detector, provenance={"estimate": {"auroc": "high"}}).save(odd)
    said = "To expect on things it has never seen: Each of your 2 classes, left out in turn, "
    assert said in run_oddone("evaluate", str(stated), new_images)[1]
    without = run_oddone("evaluate", str(detector_file), new_images)
    assert "To expect" not in without[1]
    assert run_oddone("evaluate", str(odd), new_images) == without


def two_files(folder: Path) -> tuple[list[Path], list[str]]:
    """Return two files for the numbers, and the words that name them."""
    outs = [folder / "result.json", folder / "result.csv"]
    return outs, [word for path in outs for word in ("--out", str(path))]


def test_numbers_that_cannot_be_shown_are_written(
    run_oddone: Run,
    detector_file: Path,
    new_images: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outs, words = two_files(tmp_path)

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("oddone.cli.evaluate._show", fail)
    code, _, complained = run_oddone("evaluate", str(detector_file), new_images, *words)
    assert code == 2
    assert "No space left on device" in complained
    assert all(path.exists() for path in outs)


def test_a_file_that_fails_costs_neither_what_is_shown_nor_another_file(
    run_oddone: Run,
    detector_file: Path,
    new_images: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outs, words = two_files(tmp_path)

    def fail(path: Path, _: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr("oddone.cli.evaluate.write_json", fail)
    code, printed, complained = run_oddone("evaluate", str(detector_file), new_images, *words)
    assert code == 2
    assert f"{outs[0]} cannot be written: No space left on device" in complained
    assert "of 30 test images get their label" in printed
    assert outs[1].exists()


def test_no_file_is_written_twice(
    run_oddone: Run, detector_file: Path, new_images: str, tmp_path: Path
) -> None:
    outs = [str(tmp_path / name) for name in ("a.csv", "a-classes.csv")]
    words = ["--out", outs[0], "--out", outs[1]]
    code, _, complained = run_oddone("evaluate", str(detector_file), new_images, *words)
    assert (code, list(tmp_path.glob("a*.csv"))) == (2, [])
    assert f"{outs[1]} would be written twice" in complained


def test_a_class_whose_name_is_no_unicode_can_be_written(
    run_oddone: Run,
    detector_file: Path,
    new_images: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ODDONE_CACHE", str(tmp_path / "cache"))
    for name in ("caf\udce9", "[bold]b\x1b"):
        (tmp_path / "odd" / name).mkdir(parents=True)
        Image.new("RGB", (40, 40), "red").save(tmp_path / "odd" / name / "a.png")
    out = tmp_path / "result.csv"
    words = ["--ood", f"odd={tmp_path / 'odd'}", "--out", str(out)]
    code, printed, _ = run_oddone("evaluate", str(detector_file), new_images, *words)
    assert code == 0
    assert "caf\\udce9" in (tmp_path / "result-classes.csv").read_text(encoding="utf-8")
    assert "odd: caf\\udce9 " in printed
    assert "odd: [bold]b\\x1b " in printed


def test_the_directory_of_a_run_is_as_good_as_its_detectors_file(
    run_oddone: Run, detector_file: Path, new_images: str
) -> None:
    by_file = run_oddone("evaluate", str(detector_file), new_images)
    assert run_oddone("evaluate", str(detector_file.parent), new_images) == by_file
    assert "OOD set" not in by_file[1]


def test_an_ood_source_without_a_name_is_called_what_it_is(
    run_oddone: Run, detector_file: Path, noise: str, tmp_path: Path
) -> None:
    out = tmp_path / "result.json"
    run_oddone("evaluate", str(detector_file), noise, "--ood", noise, "--out", str(out))
    assert list(json.loads(out.read_text())["oods"]) == [noise]


def test_a_source_whose_name_is_no_unicode_can_be_evaluated(
    run_oddone: Run, detector_file: Path, noise: str, tmp_path: Path
) -> None:
    odd = (tmp_path / "noise.npy").rename(tmp_path / "caf\udce9.npy")
    np.save(tmp_path / "noise.npy", np.load(odd))
    out = tmp_path / "result.csv"
    words = ["evaluate", str(detector_file), noise, "--ood", f"arrays:{odd}", "--out", str(out)]
    assert run_oddone(*words)[0] == 0
    assert "caf\\udce9.npy,95.00,50.00," in out.read_text()


def test_what_cannot_be_said_is_said(run_oddone: Run, uncalibrated_file: Path, noise: str) -> None:
    code, printed, _ = run_oddone("evaluate", str(uncalibrated_file), noise, "--ood", f"n={noise}")
    assert code == 0
    assert "20 test images without labels, so there is no accuracy" in printed
    assert (
        f"nothing is called anomalous before oddone calibrate {uncalibrated_file} SOURCE" in printed
    )
    assert cells(printed, "n")[:2] == ["20", "50.00%"]  # the AUROC; no share is detected


def test_files_that_cannot_be_read_are_listed(
    run_oddone: Run,
    detector_file: Path,
    noise: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ODDONE_CACHE", str(tmp_path / "cache"))
    photos = tmp_path / "photos"
    photos.mkdir()
    Image.new("RGB", (40, 50), "red").save(photos / "red.png")
    (photos / "broken.png").write_text("meow")
    code, printed, _ = run_oddone("evaluate", str(detector_file), noise, "--ood", f"p={photos}")
    assert code == 0
    assert printed.startswith("1 file could not be read:\n")
    assert "broken.png: " in printed
    assert cells(printed, "p")[0] == "1"


def test_images_that_were_trained_on_get_one_line_of_advice(
    run_oddone: Run, detector_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oddone.cli.loading.load", lambda *_, **__: tiny_source(images=192))
    code, _, complained = run_oddone("evaluate", str(detector_file), "photos")
    assert code == 0
    assert complained.startswith("note: 100% of the 192 test images are some that the detector")
    assert complained.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--ood svhn=", "--ood svhn=: write NAME=SOURCE"),
        ("--ood =fashion", "--ood =fashion: write NAME=SOURCE"),
        ("--ood a=fashion --ood a=digits", "'a' is there already; choose another name"),
        ("--ood svhn=fashion --near shvn", "no OOD set 'shvn'; did you mean 'svhn'?"),
        ("--far svhn", "far: there is no OOD set 'svhn'; the OOD sets are: none"),
        ("--out result.txt", "--out result.txt: let the name end in .json or .csv"),
        ("--out nowhere/result.csv", "name a file in a folder that exists"),
        ("--ood a=nowhere", "'nowhere' does not exist"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    run_oddone: Run, detector_file: Path, new_images: str, words: str, message: str
) -> None:
    code, printed, complained = run_oddone(
        "evaluate", str(detector_file), new_images, *words.split()
    )
    assert (code, printed) == (2, "")
    assert message in complained
    assert complained.count("\n") == 1


def test_an_unknown_class_is_told_with_the_nearest(
    run_oddone: Run, detector_file: Path, tmp_path: Path
) -> None:
    four = written(tmp_path / "four.npz", tiny_source(classes=4))
    code, _, complained = run_oddone("evaluate", str(detector_file), four)
    assert code == 2
    assert "1 of 4 classes of the test images" in complained
    assert "such as 'class 3' (did you mean 'class " in complained
