"""Other methods to detect anomalies, to compare with."""

from oddone.baselines.logits import energy, energy_scores, msp, msp_scores
from oddone.baselines.mahalanobis import mahalanobis, mds
from oddone.baselines.nearest_neighbours import nearest_neighbours
from oddone.baselines.odin import odin
from oddone.baselines.rotation import rotation, rotation_scores, rotation_sei
from oddone.baselines.scorer import BaselineScorer

__all__ = [
    "BaselineScorer",
    "energy",
    "energy_scores",
    "mahalanobis",
    "mds",
    "msp",
    "msp_scores",
    "nearest_neighbours",
    "odin",
    "rotation",
    "rotation_scores",
    "rotation_sei",
]
