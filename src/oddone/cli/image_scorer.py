"""What scores images for a command: a detector, or a file of `oddone export`."""

from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from oddone.export.onnx_detector import OnnxDetector
from oddone.export.onnx_file import ENDING

if TYPE_CHECKING:
    from oddone.detector import Detector

ImageScorer: TypeAlias = "Detector | OnnxDetector"


def open_scorer(path: Path, sha256: str | None = None) -> ImageScorer:
    """Return what scores images; torch is imported only where it is needed for that."""
    if path.suffix.lower() == ENDING:
        return OnnxDetector.load(path, sha256=sha256)
    from oddone.cli.loading import open_detector  # noqa: PLC0415

    return open_detector(path, sha256)
