"""SupCLR (Khosla et al.): attract every row of the same class, repel all rows alike."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from oddone.losses.contrast import masked_contrast
from oddone.losses.masks import Masks, check_parents, check_rows, numbered, same, share
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
    it; without, it attracts only rows of other parents, as the paper's Appendix B prints it. The
    denominator runs over all other rows in both.
    """
    check_temperature(temperature)
    check_rows(embeddings, labels=labels, parents=parents)
    check_parents(parents, labels=labels)
    numbers = numbered(torch.arange(len(labels), device=labels.device), embeddings)
    families, classes = numbered(parents, embeddings), numbered(labels, embeddings)

    def masks(block: Tensor, window: Tensor) -> Sequence[Masks]:
        itself = same(numbers, block, window)
        unattracted = itself if siblings else same(families, block, window)
        repel = torch.full_like(itself, 1 / temperature)
        attract = share(same(classes, block, window) - unattracted)
        return (Masks(attract=attract, repel=repel, absent=itself),)

    return masked_contrast(embeddings, labels, masks, temperature).total
