"""What the commands that use a detector have in common."""

from pathlib import Path
from typing import Literal

from oddone.detector import Detector
from oddone.device import choose_device
from oddone.errors import ArtifactError
from oddone.training import RunDirectory


def open_detector(path: Path) -> Detector:
    """Return the detector in a file, or in the directory of a finished run, on the best device."""
    return Detector.load(file_of("detector", path)).to(choose_device())


def file_of(what: Literal["detector", "encoder"], path: Path) -> Path:
    """Return the file of a detector or encoder, which may be named by the directory of its run."""
    if not path.is_dir():
        return path
    run = RunDirectory(path)
    file = run.detector_path if what == "detector" else run.encoder_path
    if not file.is_file():
        raise ArtifactError(
            f"{path} holds no {file.name}; name the file, or the directory of a run that oddone "
            f"train has finished"
        )
    return file


def describe_threshold(detector: Detector) -> str:
    """Return in words what the detector calls anomalous."""
    calibration = detector.calibration
    if calibration is None:
        return "it has no threshold yet"
    low, high = calibration.interval
    images = len(calibration.scores)
    return (
        f"scores above {calibration.threshold:.3f} are anomalous, which for normal images happens "
        f"in {calibration.rank / (images + 1):.1%} of cases (95 % sure: {low:.1%} to {high:.1%}, "
        f"by {images:,} held-out images)"
    )
