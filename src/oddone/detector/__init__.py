"""From a trained network to verdicts: fit, calibrate, score, explain."""

from oddone.detector.calibration import Calibration, Interval
from oddone.detector.detector import Detector, Explanation, ScoredImage
from oddone.detector.probe import LinearProbe
from oddone.detector.references import Neighbour, References
from oddone.detector.settings import DetectorSettings
from oddone.detector.view_embedder import Space, ViewEmbedder

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
