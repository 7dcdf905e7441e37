"""From a trained network to verdicts: fit, calibrate, score, explain."""

from oddone.detector.calibration import Calibration, Interval
from oddone.detector.detector import Detector, Explanation
from oddone.detector.probe import LinearProbe
from oddone.detector.references import References
from oddone.detector.settings import DetectorSettings
from oddone.detector.view_embedder import Space, ViewEmbedder
from oddone.scored_images import ScoredImage
from oddone.verdict import Neighbour

__all__ = [
    "Calibration",
    "Detector",
    "DetectorSettings",
    "Explanation",
    "Interval",
    "LinearProbe",
    "Neighbour",
    "References",
    "ScoredImage",
    "Space",
    "ViewEmbedder",
]
