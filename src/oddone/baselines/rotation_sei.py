"""Auxiliary rotation with Self-Ensemble Inference on its logits (Cho, Seol and Lee, IJCAI 2021).

The row "Auxiliary Rotation + SEI" of the paper's main table. The paper does not say how the logits
are joined. Here they are averaged (Eq. 17), which after the softmax is the same as to average the
log-probabilities: views that disagree leave the ensemble unsure.
"""

from oddone.baselines.judging import Judge
from oddone.baselines.rotation import by_views
from oddone.fusion import average
from oddone.training import TrainedNetwork
from oddone.transforms import MakeViews, rotations_and_mirrors


def rotation_sei(trained: TrainedNetwork, views: MakeViews = rotations_and_mirrors) -> Judge:
    """Return the judge of `rotation`, with the logits and turns of all views averaged."""
    return by_views(trained, views, average)
