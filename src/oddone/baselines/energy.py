"""Free energy (Liu, Wang, Owens and Li, NeurIPS 2020)."""

from jaxtyping import Float
from torch import Tensor

from oddone.errors import SettingsError


def energy_scores(
    logits: Float[Tensor, "images classes"], temperature: float = 1.0
) -> Float[Tensor, " images"]:
    """Return the free energy of a classifier's logits: low where some class speaks up.

    Unlike a softmax it keeps how large the logits are, not only how they differ.
    """
    if not temperature > 0:
        raise SettingsError(f"temperature={temperature:g}: choose it above 0, such as 1")
    return -temperature * (logits / temperature).logsumexp(dim=1)
