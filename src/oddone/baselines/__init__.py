"""Other ways to score how odd an image is, to compare with; each is one file."""

from oddone.baselines.energy import energy_scores
from oddone.baselines.logits import logits_of
from oddone.baselines.msp import msp_scores

__all__ = ["energy_scores", "logits_of", "msp_scores"]
