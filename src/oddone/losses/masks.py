"""Who attracts and who repels whom, as matrices of numbers.

A mask compares the ids of two rows and holds 1 where they are equal, 0 elsewhere. It covers the
rows of a block against those of a window (see `contrast.py`), never all rows against all.

Masks are floats, not booleans: torch compares floats into floats, and multiplies float by float,
several times faster on a CPU than it mixes booleans with floats.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from oddone.errors import DataError


class Masks(NamedTuple):
    """One term of a contrastive loss: how a block of rows treats the rows of its window."""

    attract: Float[Tensor, "block window"]
    """How a row's pull is shared out: weights that sum to one, or all zero for no positive."""
    repel: Float[Tensor, "block window"]
    """How hard each row pushes: the inverse temperature of its term in the denominator."""
    absent: Float[Tensor, "block window"]
    """1 where a row has no term in the denominator at all, 0 elsewhere."""


def working_dtype(embeddings: Tensor) -> torch.dtype:
    """Return the precision of the similarities: float64 for float64, float32 for all others."""
    return torch.float64 if embeddings.dtype == torch.float64 else torch.float32


def numbered(ids: Int[Tensor, " rows"], like: Tensor) -> Float[Tensor, " rows"]:
    """Return the ids as 0, 1, 2, ... in the precision that `like` is worked in.

    Floats hold these numbers exactly: there are no more of them than rows.
    """
    number: Tensor = ids.unique(return_inverse=True)[1]
    return number.to(working_dtype(like))


def joint(labels: Int[Tensor, " rows"], poses: Int[Tensor, " rows"]) -> Int[Tensor, " rows"]:
    """Return one id per (label, pose) pair, whatever integers the labels and poses are."""
    label: Tensor = labels.unique(return_inverse=True)[1]
    pose: Tensor = poses.unique(return_inverse=True)[1]
    return label * len(poses) + pose


def same(
    ids: Float[Tensor, " rows"], block: Int[Tensor, " block"], window: Int[Tensor, " window"]
) -> Float[Tensor, "block window"]:
    """Return 1 where a row of the block and a row of the window carry the same id, else 0."""
    mask = ids.new_empty(len(block), len(window))
    return torch.eq(ids[block, None], ids[window], out=mask)


def share(mask: Float[Tensor, "block window"]) -> Float[Tensor, "block window"]:
    """Return each row of a 0/1 mask as equal weights that sum to one (or all zero)."""
    return mask / mask.sum(dim=1, keepdim=True).clamp(min=1)


def check_rows(embeddings: Float[Tensor, "rows dim"], **ids: Tensor) -> None:
    """Raise a `DataError` unless every id tensor has one entry per row of the embeddings."""
    for name, values in ids.items():
        if values.shape != embeddings.shape[:1]:
            raise DataError(
                f"{name} has shape {tuple(values.shape)} but there are {len(embeddings)} "
                f"embeddings; pass one entry per row"
            )


def check_parents(parents: Int[Tensor, " rows"], **facts: Int[Tensor, " rows"]) -> None:
    """Raise a `DataError` unless all rows of one parent agree on each fact, such as its label."""
    by_parent = parents.argsort()
    siblings = parents[by_parent][1:] == parents[by_parent][:-1]
    for name, values in facts.items():
        disagree = siblings & (values[by_parent][1:] != values[by_parent][:-1])
        if disagree.any():
            parent = parents[by_parent][1:][disagree][0].item()
            raise DataError(
                f"the rows of parent {parent} have different {name}; a parent is one posed image, "
                f"so give each pose of an image its own parent id"
            )


class Unpaired(NamedTuple):
    """How many rows have nobody to attract, in each term of the MCL loss."""

    ccm: int
    """Rows whose parent has no other view in the batch."""
    spa: int
    """Rows with no row of another parent in their group (class and pose)."""


def count_unpaired(
    labels: Int[Tensor, " rows"],
    poses: Int[Tensor, " rows"] | None,
    parents: Int[Tensor, " rows"],
) -> Unpaired:
    """Return how many rows add nothing to the CCM and to the SPA term for want of a positive."""
    family = _size_of(parents)
    group = _size_of(labels if poses is None else joint(labels, poses))
    return Unpaired(ccm=int((family == 1).sum()), spa=int((group == family).sum()))


def draw_partners(
    groups: Float[Tensor, " rows"],
    parents: Float[Tensor, " rows"],
    samples: int,
    *,
    generator: torch.Generator,
) -> Int[Tensor, "rows samples"]:
    """Return, per row, rows drawn uniformly (with replacement) from its group but not its parent.

    A row that has no such partner gets itself.
    """
    # Sorted by group, then by parent, a group is one run of rows and a parent a run inside it:
    # draw a place in the group's run as if the parent's were cut out, then step over the cut.
    order = torch.argsort(parents)
    order = order[torch.argsort(groups[order], stable=True)]
    group_start, group_size = _runs(groups[order])
    family_start, family_size = _runs(parents[order])
    partners = (group_size - family_size)[:, None]

    coins = torch.rand(
        len(order), samples, generator=generator, device=generator.device, dtype=torch.float64
    )
    place = (coins.to(groups.device) * partners).long() + group_start[:, None]
    place = place + family_size[:, None] * (place >= family_start[:, None])
    itself = torch.arange(len(order), device=groups.device)[:, None]
    drawn = torch.empty_like(place)
    drawn[order] = order[torch.where(partners == 0, itself, place)]
    return drawn


def _size_of(ids: Int[Tensor, " rows"]) -> Int[Tensor, " rows"]:
    """Return how many rows carry the same id as each row."""
    _, inverse, counts = ids.unique(return_inverse=True, return_counts=True)
    sizes: Tensor = counts[inverse]
    return sizes


def _runs(ids: Float[Tensor, " rows"]) -> tuple[Int[Tensor, " rows"], Int[Tensor, " rows"]]:
    """Return where the run of equal ids around each row starts, and how long it is."""
    _, run, sizes = torch.unique_consecutive(ids, return_inverse=True, return_counts=True)
    starts = sizes.cumsum(dim=0) - sizes
    return starts[run], sizes[run]
