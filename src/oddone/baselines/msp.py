"""Maximum softmax probability (Hendrycks and Gimpel, ICLR 2017)."""

from jaxtyping import Float, Float64
from torch import Tensor

from oddone.baselines.judging import Judge
from oddone.baselines.logits import by_logits
from oddone.training import TrainedNetwork


def msp(trained: TrainedNetwork) -> Judge:
    """Return the judge by how sure a classifier is of its guess."""
    return by_logits(trained, msp_scores)


def msp_scores(logits: Float[Tensor, "images classes"]) -> Float64[Tensor, " images"]:
    """Return how little a classifier trusts its guess: minus the highest probability.

    In float64, because in float32 the probabilities of all sure guesses would be the same 1.
    """
    return -logits.double().softmax(dim=1).amax(dim=1)
