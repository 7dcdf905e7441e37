"""A small step of every pixel towards a lower anomaly score.

The scores of normal images fall more by it than those of OOD images, which tells the two apart
better (Liang, Li and Srikant, ICLR 2018).
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from oddone.detector import ViewEmbedder
from oddone.errors import SettingsError

GRADIENT_MEMORY = 8
"""A gradient keeps the maps of all layers, so a batch has this many times fewer images."""


def perturb(
    rows: Float[Tensor, "rows 3 height width"],
    scores_of: Callable[[Float[Tensor, "rows 3 height width"]], Float[Tensor, " rows"]],
    magnitude: float,
) -> Float[Tensor, "rows 3 height width"]:
    """Return the images with every pixel moved by `magnitude`, to where the score is lower.

    Pixels may leave 0 to 1, as in the original. The gradient of a row's score must not depend on
    other rows, which holds for networks in evaluation mode.
    """
    if magnitude == 0:
        return rows
    with torch.enable_grad():
        leaves = rows.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(scores_of(leaves).sum(), leaves)
    return rows - magnitude * gradient.sign()


def gradient_batch_size(embedder: ViewEmbedder) -> int:
    """Return how many images make a good batch for a gradient."""
    return max(1, embedder.batch_size // GRADIENT_MEMORY)


def check_magnitude(magnitude: float) -> None:
    """Raise a SettingsError unless pixels can be moved by so much."""
    if not 0 <= magnitude <= 1:
        raise SettingsError(
            f"magnitude={magnitude:g}: choose it from 0 (leave images as they are) to 1, such as "
            f"0.0014"
        )
