from dataclasses import replace
from pathlib import Path

import pytest
import torch

import oddone
from oddone.detector import Detector
from oddone.detector.rules import StandardisedRule
from oddone.errors import ArtifactError
from oddone.training import RunDirectory
from runs import tiny_settings
from small_detector import fitted


@pytest.fixture(scope="module")
def detector() -> Detector:
    return fitted()


def test_a_detector_shows_itself_in_three_lines(detector: Detector) -> None:
    data = {"source": "photos/", "images": 48, "fingerprint": "f" * 64}
    made = replace(detector, provenance={"date": "2026-01-02T03:04:05+00:00", "data": data})
    threshold = f"{detector.threshold:.4g}"
    assert repr(made) == (
        "Detector of 3 classes ('class 0', 'class 1', 'class 2'); "
        "resnet10-w16, 16 x 16 pixels, 8 views\n"
        "  score: harmonic distance in the space of the head; "
        f"anomalous above {threshold} (0.1 of normal images, by 60 held out)\n"
        "  provenance: date '2026-01-02T03:04:05+00:00', source 'photos/', images 48"
    )


def test_a_detector_without_threshold_and_provenance_says_so(detector: Detector) -> None:
    lines = repr(replace(detector, calibration=None)).splitlines()
    assert lines[1].endswith("; no threshold yet")
    assert lines[2] == "  provenance: unknown"


def test_all_rules_that_make_the_score_are_named(detector: Detector) -> None:
    rules = (StandardisedRule("distance", 3.0, 2.0), StandardisedRule("energy", 1.0, 2.0))
    decision = repr(replace(detector, rules=rules)).splitlines()[1]
    assert decision.startswith("  score: harmonic distance in the space of the head + energy; ")


def test_thresholds_per_class_are_named_and_not_numbered(detector: Detector) -> None:
    calibration = replace(detector.calibration, labels=torch.arange(60) % 3)
    decision = repr(replace(detector, calibration=calibration)).splitlines()[1]
    words = "anomalous above the threshold of the predicted class (0.1 of normal images, by 60 held"
    assert words in decision


@pytest.mark.parametrize(
    "provenance",
    [{"data": "photos"}, {"date": "a\nb" * 1000, "data": {"source": ["\x1b[31m"] * 99}}],
)
def test_whatever_a_file_says_of_its_origin_it_is_three_short_lines(
    detector: Detector, provenance: dict[str, object]
) -> None:
    lines = repr(replace(detector, provenance=provenance)).split("\n")
    assert len(lines) == 3
    assert all(line.isprintable() and len(line) < 200 for line in lines)


def test_many_classes_are_cut_short() -> None:
    first, *_ = repr(fitted(classes=12)).splitlines()
    assert first.startswith("Detector of 12 classes ('class 0', 'class 1', 'class 2', ...); ")


def test_a_detector_is_loaded_from_the_directory_of_its_run(
    detector: Detector, tmp_path: Path
) -> None:
    run = RunDirectory.create(tmp_path / "run", tiny_settings(), {})
    with pytest.raises(ArtifactError, match="run holds no detector.oddone; name the file, or"):
        Detector.load(run.path)
    detector.save(run.detector_path)
    for path in (run.path, str(run.path), run.detector_path):
        assert repr(oddone.Detector.load(path)) == repr(detector)
