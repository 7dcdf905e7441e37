"""SupCLR (Khosla et al.): a row attracts every row of its class and repels all rows alike."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from oddone.losses.contrast import masked_contrast
from oddone.losses.masks import (
    Masks,
    check_parents,
    check_rows,
    float_ids,
    number_rows,
    same,
    share,
)
from oddone.losses.simclr import check_temperature


def supcon_loss(
    embeddings: Float[Tensor, "rows dim"],
    labels: Int[Tensor, " rows"],
    parents: Int[Tensor, " rows"],
    temperature: float,
    siblings: bool = True,
) -> Float[Tensor, ""]:
    """Return the supervised contrastive loss.

    With `siblings` a row also attracts the other views of its own parent, as Khosla et al. define
    it; without, it attracts only rows of other parents, as the paper prints it (Eq. 33 to 35). The
    denominator runs over all other rows in both.

    Parameters
    ----------
    embeddings
        The output of the head; it is normalised here.
    labels
        The class of each row.
    parents
        Which image each row is a view of.
    temperature
        What similarities are divided by.
    siblings
        Whether a row attracts the other views of its own parent too.

    Examples
    --------
    >>> import torch
    >>> labels, parents = torch.tensor([0, 0, 1, 1]), torch.arange(4)
    >>> supcon_loss(torch.eye(4), labels, parents, temperature=0.2)
    tensor(1.0986)

    """
    check_temperature(temperature)
    check_rows(embeddings, labels=labels, parents=parents)
    check_parents(parents, labels=labels)
    row_ids = number_rows(embeddings)
    parent_ids, class_ids = float_ids(parents, embeddings), float_ids(labels, embeddings)

    def masks(block: Tensor, window: Tensor) -> Sequence[Masks]:
        itself = same(row_ids, block, window)
        unattracted = itself if siblings else same(parent_ids, block, window)
        repel = torch.full_like(itself, 1 / temperature)
        attract = share(same(class_ids, block, window) - unattracted)
        return (Masks(attract=attract, repel=repel, absent=itself),)

    return masked_contrast(embeddings, labels, masks, temperature).total
