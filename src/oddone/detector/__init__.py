"""From a trained encoder to verdicts: fit, calibrate, judge, explain."""

from oddone.detector.calibration import Calibration, Interval
from oddone.detector.detector import Detector, Explanation, Names, Scored
from oddone.detector.of_run import detector_of_run
from oddone.detector.probe import LinearProbe
from oddone.detector.references import Neighbour, References
from oddone.detector.view_embedder import Space, ViewEmbedder

__all__ = [
    "Calibration",
    "Detector",
    "Explanation",
    "Interval",
    "LinearProbe",
    "Names",
    "Neighbour",
    "References",
    "Scored",
    "Space",
    "ViewEmbedder",
    "detector_of_run",
]
