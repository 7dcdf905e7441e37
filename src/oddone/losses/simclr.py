"""SimCLR's NT-Xent: attract the other views of the same parent, repel all other rows alike."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from oddone.errors import SettingsError
from oddone.losses.contrast import masked_contrast
from oddone.losses.masks import Masks, check_rows, numbered, same, share


def simclr_loss(
    embeddings: Float[Tensor, "rows dim"], parents: Int[Tensor, " rows"], temperature: float
) -> Float[Tensor, ""]:
    """Return NT-Xent (Eq. 1 and 2), averaged over a row's siblings where it has several."""
    check_temperature(temperature)
    check_rows(embeddings, parents=parents)
    numbers = numbered(torch.arange(len(parents), device=parents.device), embeddings)
    families = numbered(parents, embeddings)

    def masks(block: Tensor, window: Tensor) -> Sequence[Masks]:
        itself, siblings = same(numbers, block, window), same(families, block, window)
        repel = torch.full_like(itself, 1 / temperature)
        return (Masks(attract=share(siblings - itself), repel=repel, absent=itself),)

    return masked_contrast(embeddings, parents, masks, temperature).total


def check_temperature(temperature: float) -> None:
    """Raise a `SettingsError` unless the temperature is a positive number."""
    if not 0 < temperature < float("inf"):
        raise SettingsError(f"temperature={temperature}: choose a positive number, such as 0.2")
