"""Maximum softmax probability (Hendrycks and Gimpel, ICLR 2017)."""

from jaxtyping import Float, Float64
from torch import Tensor


def msp_scores(logits: Float[Tensor, "images classes"]) -> Float64[Tensor, " images"]:
    """Return how little a classifier trusts its guess: minus the highest probability.

    In float64, because in float32 the probabilities of all sure guesses would be the same 1.
    """
    return -logits.double().softmax(dim=1).amax(dim=1)
