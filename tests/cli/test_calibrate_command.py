import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from oddone.detector import Detector
from runs import tiny_source

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def normal(tmp_path: Path) -> str:
    """Return the notation of 150 normal images that are new."""
    np.save(tmp_path / "normal.npy", tiny_source(images=150, seed=9).images.transpose(0, 2, 3, 1))
    return f"arrays:{tmp_path / 'normal.npy'}"


@pytest.fixture
def run(uncalibrated_file: Path, tmp_path: Path) -> Path:
    """Return a directory with a detector that may be changed."""
    folder = tmp_path / "run"
    folder.mkdir()
    shutil.copy(uncalibrated_file, folder / "detector.oddone")
    return folder


def test_the_detector_of_a_run_is_calibrated_in_place(
    run_oddone: Run, run: Path, normal: str
) -> None:
    code, printed, complained = run_oddone("calibrate", str(run), normal, "--false-alarms", "0.1")
    assert (code, complained) == (0, "")
    detector = Detector.load(run / "detector.oddone")
    assert detector.calibration is not None
    assert (len(detector.calibration.scores), detector.calibration.false_alarms) == (150, 0.1)
    shown = re.search(r"scores above (\S+) are .* 9.9% .* (\S+)% to (\S+)%, by 150 ", printed)
    assert shown is not None
    assert float(shown[1]) == pytest.approx(detector.threshold, abs=0.001)
    assert float(shown[2]) < 10 < float(shown[3])
    assert [path.name for path in run.iterdir()] == ["detector.oddone"]


def test_each_class_gets_a_threshold_of_its_own_where_it_has_enough_images(
    run_oddone: Run, run: Path, normal: str
) -> None:
    words = ["calibrate", str(run), normal, "--per-class", "--false-alarms", "0.1"]
    code, printed, complained = run_oddone(*words)
    assert (code, complained) == (0, "")
    thresholds = Detector.load(run / "detector.oddone").thresholds
    assert thresholds is not None
    low, high = min(thresholds), max(thresholds)
    assert low < high
    assert (
        f"3 classes have their own threshold, {low:.3f} (class {thresholds.index(low)}) to "
        f"{high:.3f} (class {thresholds.index(high)})\n"
    ) in printed
    assert "happens in at most 10.0% of cases on average" in printed
    code, _, complained = run_oddone("score", str(run), normal)
    assert "anomalous (score above the threshold of the class)" in complained


def test_a_detector_learns_how_many_views_it_needs_and_scores_by_them(
    run_oddone: Run, run: Path, tmp_path: Path
) -> None:
    source = tiny_source(images=420, seed=9)
    np.save(tmp_path / "many.npy", source.images.transpose(0, 2, 3, 1))
    many = f"arrays:{tmp_path / 'many.npy'}"
    code, printed, complained = run_oddone("calibrate", str(run), many, "--adaptive")
    assert (code, complained) == (0, "")
    assert "; new images are scored by 2 to 8 views, as needed\n" in printed
    assert len(Detector.load(run / "detector.oddone").stages) == 4
    code, printed, _ = run_oddone("score", str(run), many, "--out", str(tmp_path / "a.csv"))
    assert code == 0
    assert len((tmp_path / "a.csv").read_text().splitlines()) == 421
    code, _, _ = run_oddone("calibrate", str(run), many)
    assert Detector.load(run / "detector.oddone").stages == ()


def test_too_few_images_for_a_threshold_of_each_class_are_told(
    run_oddone: Run, run: Path, tmp_path: Path
) -> None:
    """Show it 20 images of one class and 4 of another, by what it predicts."""
    source = tiny_source(images=120, seed=9)
    labels = Detector.load(run / "detector.oddone")(source.images).labels.numpy()
    few = np.concatenate([np.flatnonzero(labels == 0)[:20], np.flatnonzero(labels == 2)[:4]])
    np.save(tmp_path / "few.npy", source.images[few].transpose(0, 2, 3, 1))
    words = ["calibrate", str(run), f"arrays:{tmp_path / 'few.npy'}", "--per-class"]
    code, printed, complained = run_oddone(*words)
    assert code == 0
    assert "note: 1 of 2 predicted classes have fewer than 19 held-out images" in complained
    detector = Detector.load(run / "detector.oddone")
    own, *shared = detector.thresholds
    assert shared == [detector.threshold] * 2
    assert (
        f"1 class has its own threshold, {own:.3f} (class 0); 2 classes with fewer than 19 "
        f"held-out images have that of all images, {detector.threshold:.3f}\n"
    ) in printed


def test_with_out_the_old_detector_is_left_as_it_was(
    run_oddone: Run, run: Path, normal: str, tmp_path: Path
) -> None:
    before = (run / "detector.oddone").read_bytes()
    new = tmp_path / "new.oddone"
    words = ["calibrate", str(run), normal, "--false-alarms", "0.2", "--out", str(new)]
    code, printed, _ = run_oddone(*words)
    assert code == 0
    assert f"the detector is {new};" in printed
    assert (run / "detector.oddone").read_bytes() == before
    assert Detector.load(new).threshold < float("inf")


def test_too_few_images_get_one_line_of_advice(run_oddone: Run, run: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "few.npy", tiny_source(images=5, seed=9).images.transpose(0, 2, 3, 1))
    code, _, complained = run_oddone("calibrate", str(run), f"arrays:{tmp_path / 'few.npy'}")
    assert code == 0
    assert complained.startswith("note: 5 held-out images cannot promise false alarms as rare as")
    assert complained.count("\n") == 1


def test_images_that_were_trained_on_are_refused(
    run_oddone: Run, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (run / "detector.oddone").read_bytes()
    monkeypatch.setattr("oddone.cli.loading.load", lambda *_, **__: tiny_source(images=192))
    code, _, complained = run_oddone("calibrate", str(run), "photos")
    assert code == 2
    assert (
        "100% of the 192 images of photos are some that the detector was trained on" in complained
    )
    assert (run / "detector.oddone").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("RUN NORMAL --false-alarms 5", "false_alarms=5: choose a share above 0 and below 1"),
        ("RUN nowhere", "'nowhere' does not exist"),
        ("RUN NORMAL --adaptive", "150 images are too few to learn how many views a verdict needs"),
        ("RUN/nowhere/old.oddone NORMAL", "nowhere/old.oddone"),
        ("RUN/.. NORMAL", "holds no detector.oddone; name the file"),
        ("RUN NORMAL --out RUN", "name a file in a folder that exists"),
        ("RUN NORMAL --out RUN/nowhere/new.oddone", "name a file in a folder that exists"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    run_oddone: Run, run: Path, normal: str, words: str, message: str
) -> None:
    filled = words.replace("RUN", str(run)).replace("NORMAL", normal).split()
    code, printed, complained = run_oddone("calibrate", *filled)
    assert (code, printed) == (2, "")
    assert message in complained
    assert complained.count("\n") == 1
