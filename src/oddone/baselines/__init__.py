"""Other ways to score how odd an image is, to compare with; each is one file."""

from oddone.baselines.detection import detection
from oddone.baselines.energy import energy, energy_scores
from oddone.baselines.judging import Judge, Judged
from oddone.baselines.logits import logits_of
from oddone.baselines.mahalanobis import mahalanobis
from oddone.baselines.msp import msp, msp_scores
from oddone.baselines.nearest_neighbours import nearest_neighbours
from oddone.baselines.odin import odin
from oddone.baselines.rotation import rotation, rotation_scores
from oddone.baselines.rotation_sei import rotation_sei

__all__ = [
    "Judge",
    "Judged",
    "detection",
    "energy",
    "energy_scores",
    "logits_of",
    "mahalanobis",
    "msp",
    "msp_scores",
    "nearest_neighbours",
    "odin",
    "rotation",
    "rotation_scores",
    "rotation_sei",
]
