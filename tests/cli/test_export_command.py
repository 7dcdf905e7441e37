"""`oddone export`, and what `oddone score` makes of its files."""

import csv
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from oddone.detector import Detector, DetectorSettings
from oddone.transforms import one_view
from runs import tiny_source

Run = Callable[..., tuple[int, str, str]]


def arrays(path: Path, seed: int, *, negative: bool = False) -> Path:
    source = tiny_source(images=60, seed=seed)
    pixels = 255 - source.images if negative else source.images
    np.savez(path, images=pixels.transpose(0, 2, 3, 1), labels=source.labels)
    return path


@pytest.fixture
def normal(tmp_path: Path) -> Path:
    return arrays(tmp_path / "normal.npz", 5)


def test_a_small_fast_file_tells_what_it_changed_and_scores(
    run_oddone: Run, detector_file: Path, normal: Path, tmp_path: Path
) -> None:
    pytest.importorskip("onnxscript", reason="needs oddone[onnx]")
    out, odd = tmp_path / "small.onnx", arrays(tmp_path / "odd.npz", 6, negative=True)
    code, printed, complained = run_oddone(
        *("export", str(detector_file), "--out", str(out), "--int8", "--no-sei", "--fixed-size"),
        *("--calibration", str(normal), "--ood", f"odd={odd}"),
    )
    assert code == 0, complained
    assert "images of 16 x 16 pixels, and looks at 1 view of 16 x 16 pixels" in printed
    assert "of 60 images, " in printed
    assert "AUROC against odd: " in printed
    table = tmp_path / "scores.csv"
    code, _, complained = run_oddone("score", str(out), str(normal), "--out", str(table))
    assert code == 0, complained
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert len(rows) == 60
    anomalous = sum(row["anomalous"] == "True" for row in rows)
    scores = sorted((float(row["score"]) for row in rows), reverse=True)
    threshold = scores[5]  # a tenth of 61; in int8, others may have the same score
    assert anomalous == sum(score > threshold for score in scores)
    assert 3 <= anomalous <= 5
    assert f"{anomalous} anomalous (score above" in complained


def test_no_sei_changes_nothing_of_a_detector_that_looks_at_one_view(
    run_oddone: Run, uncalibrated: Detector, normal: Path, tmp_path: Path
) -> None:
    images = tiny_source(images=192)
    settings = DetectorSettings(views=one_view)
    detector = Detector.fit(uncalibrated.embedder.trained, images, settings)
    detector.save(tmp_path / "one.oddone")
    code, printed, complained = run_oddone(
        *("export", str(tmp_path / "one.oddone"), "--out", str(tmp_path / "one.pt2"), "--no-sei"),
        *("--fixed-size", "--calibration", str(normal)),
    )
    assert code == 0, complained
    assert "this detector looks at one view already; --no-sei changes nothing" in complained
    assert "looks at 1 view" in printed


def test_what_is_said_of_all_views_is_not_said_with_no_sei(
    run_oddone: Run, detector_file: Path, normal: Path, tmp_path: Path
) -> None:
    images = tiny_source(images=402, seed=9)
    adaptive = Detector.load(detector_file).calibrate(images, adaptive=True)
    assert adaptive.stages
    adaptive.save(tmp_path / "adaptive.oddone")
    words = ("export", str(tmp_path / "adaptive.oddone"), "--out", str(tmp_path / "a.pt2"))
    for options, is_said in ((("--no-sei", "--calibration", str(normal)), False), ((), True)):
        code, _, complained = run_oddone(*words, "--fixed-size", *options)
        assert code == 0, complained
        assert ("the file always looks at all 8" in complained) is is_said


def test_a_detector_without_a_threshold_is_exported_without_one(
    run_oddone: Run, uncalibrated_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "detector.pt2"
    code, printed, complained = run_oddone(
        "export", str(uncalibrated_file), "--out", str(out), "--fixed-size"
    )
    assert code == 0, complained
    assert "calls nothing anomalous" in complained
    assert "looks at 8 views" in printed
    assert out.stat().st_size > 100_000


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--out", "d.zip"), "let the name end in .onnx or .pt2"),
        (("--out", "d.pt2", "--int8", "--calibration", "x"), "--int8 is for ONNX files"),
        (("--out", "d.onnx", "--int8"), "give normal images"),
        (("--out", "d.onnx", "--no-sei"), "give normal images"),
        (("--out", "d.onnx", "--ood", "x=y"), "--ood compares with normal images"),
        (("--out", "no/d.onnx"), "name a file in a folder that exists"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(
    run_oddone: Run, detector_file: Path, options: tuple[str, ...], complaint: str
) -> None:
    code, _, complained = run_oddone("export", str(detector_file), *options)
    assert code == 2
    assert complaint in complained
    assert len(complained.strip().splitlines()) == 1


def test_the_images_of_the_training_set_no_threshold(
    run_oddone: Run, detector_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tiny_source(images=192)
    monkeypatch.setattr("oddone.cli.loading.load", lambda *_, **__: source)
    code, _, complained = run_oddone(
        *("export", str(detector_file), "--out", str(tmp_path / "d.onnx"), "--no-sei"),
        *("--calibration", "photos"),
    )
    assert code == 2
    assert "would set the threshold too low" in complained


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_a_missing_package_is_named_with_how_to_install_it(
    run_oddone: Run,
    detector_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    package: str,
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    out = tmp_path / "d.onnx"
    code, _, complained = run_oddone("export", str(detector_file), "--out", str(out))
    assert code == 2
    assert "pip install 'oddone[onnx]'" in complained


def test_a_file_that_is_no_detector_and_one_that_cannot_be_explained_are_one_line(
    run_oddone: Run, normal: Path, tmp_path: Path
) -> None:
    path = tmp_path / "d.onnx"
    path.write_bytes(b"junk")
    for options, complaint in (
        ((), "is no file of oddone export"),
        (("--explain",), "--explain shows training images"),
    ):
        code, _, complained = run_oddone("score", str(path), str(normal), *options)
        assert code == 2
        assert complaint in complained
