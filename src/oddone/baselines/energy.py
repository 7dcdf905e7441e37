"""Free energy (Liu, Wang, Owens and Li, NeurIPS 2020)."""

from functools import partial

from jaxtyping import Float
from torch import Tensor

from oddone.baselines.judging import Judge
from oddone.baselines.logits import by_logits, check_temperature
from oddone.training import TrainedNetwork


def energy(trained: TrainedNetwork, temperature: float = 1.0) -> Judge:
    """Return the judge by how loudly a classifier speaks."""
    check_temperature(temperature)
    return by_logits(trained, partial(energy_scores, temperature=temperature))


def energy_scores(
    logits: Float[Tensor, "images classes"], temperature: float = 1.0
) -> Float[Tensor, " images"]:
    """Return the free energy of a classifier's logits: low where some class speaks up.

    Unlike a softmax it keeps how large the logits are, not only how they differ.
    """
    check_temperature(temperature)
    return -temperature * (logits / temperature).logsumexp(dim=1)
