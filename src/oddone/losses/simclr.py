"""SimCLR's NT-Xent: a row attracts the other views of its parent and repels all rows alike."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from oddone.errors import SettingsError
from oddone.losses.contrast import masked_contrast
from oddone.losses.masks import Masks, check_rows, float_ids, number_rows, same, share

SMALLEST_TEMPERATURE = 1e-30
"""So that its reciprocal, and what that is multiplied by, are numbers in float32."""


def simclr_loss(
    embeddings: Float[Tensor, "rows dim"], parents: Int[Tensor, " rows"], temperature: float
) -> Float[Tensor, ""]:
    """Return NT-Xent (Eq. 1 and 2), averaged over a row's siblings where it has several.

    Parameters
    ----------
    embeddings
        The output of the head; it is normalised here.
    parents
        Which image each row is a view of: rows with the same parent attract each other.
    temperature
        What similarities are divided by.

    Examples
    --------
    >>> import torch
    >>> simclr_loss(torch.eye(4), torch.tensor([0, 0, 1, 1]), temperature=0.2)
    tensor(1.0986)

    """
    check_temperature(temperature)
    check_rows(embeddings, parents=parents)
    row_ids, parent_ids = number_rows(embeddings), float_ids(parents, embeddings)

    def masks(block: Tensor, window: Tensor) -> Sequence[Masks]:
        itself, siblings = same(row_ids, block, window), same(parent_ids, block, window)
        repel = torch.full_like(itself, 1 / temperature)
        return (Masks(attract=share(siblings - itself), repel=repel, absent=itself),)

    return masked_contrast(embeddings, parents, masks, temperature).total


def check_temperature(temperature: float) -> None:
    """Raise a `SettingsError` unless the temperature is a number that float32 can divide by."""
    if not SMALLEST_TEMPERATURE <= temperature < float("inf"):
        raise SettingsError(
            f"temperature={temperature}: choose a positive number, {SMALLEST_TEMPERATURE:g} or more"
        )
