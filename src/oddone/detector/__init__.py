"""From a trained encoder to verdicts: fit, calibrate, judge, explain."""

from oddone.detector.calibration import Calibration, Interval
from oddone.detector.detector import Detector, Explanation, Names, Scored
from oddone.detector.naming import Naming
from oddone.detector.of_run import detector_of_run
from oddone.detector.references import Neighbour, References
from oddone.detector.view_encoder import Space, ViewEncoder

__all__ = [
    "Calibration",
    "Detector",
    "Explanation",
    "Interval",
    "Names",
    "Naming",
    "Neighbour",
    "References",
    "Scored",
    "Space",
    "ViewEncoder",
    "detector_of_run",
]
