"""Which rows of a batch attract and repel each other, as matrices of numbers.

Seen from one row of a batch:

    siblings     the other rows of its parent (the other views of the same posed image)
    twins        the rows of its group: of its class, in its pose
    partners     the twins that are not its siblings (the paper's set B+, Eq. 7)
    class mates  the rows of its class, in any pose

A mask compares the ids of two rows and holds 1 where they are equal, 0 elsewhere. So each mask of
equal ids includes the row itself: siblings without the row are `siblings - itself`. A mask covers
the rows of a block against those of a window (see `contrast.py`), never all rows against all.

Masks are floats, not booleans: torch compares floats into floats, and multiplies float by float,
several times faster on a CPU than it mixes booleans with floats.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from oddone.errors import DataError


class Masks(NamedTuple):
    """One term of a contrastive loss: what the rows of a window are to the rows of a block."""

    attract: Float[Tensor, "block window"]
    """The weights of the row's positives: they sum to one, or are all zero if it has none."""
    repel: Float[Tensor, "block window"]
    """What multiplies the similarity in the denominator: the mask CCM(i, k) of Eq. 3 and 11."""
    absent: Float[Tensor, "block window"]
    """1 where a row has no term in the denominator at all, 0 elsewhere."""


def working_dtype(embeddings: Tensor) -> torch.dtype:
    """Return the precision of the similarities: float64 for float64, float32 for all others."""
    return torch.float64 if embeddings.dtype == torch.float64 else torch.float32


def float_ids(ids: Int[Tensor, " rows"], like: Tensor) -> Float[Tensor, " rows"]:
    """Return the ids as floats 0, 1, 2, ..., in the precision of the similarities of `like`.

    Floats hold these numbers exactly: there are no more of them than rows.
    """
    number: Tensor = ids.unique(return_inverse=True)[1]
    return number.to(working_dtype(like))


def number_rows(embeddings: Float[Tensor, "rows dim"]) -> Float[Tensor, " rows"]:
    """Return ids by which each row differs from all others."""
    return torch.arange(len(embeddings), device=embeddings.device, dtype=working_dtype(embeddings))


def joint_labels(labels: Int[Tensor, " rows"], poses: Int[Tensor, " rows"]) -> Int[Tensor, " rows"]:
    """Return one id per (label, pose) pair, whatever integers the labels and poses are."""
    label: Tensor = labels.unique(return_inverse=True)[1]
    pose: Tensor = poses.unique(return_inverse=True)[1]
    return label * len(poses) + pose


def same(
    ids: Float[Tensor, " rows"], block: Int[Tensor, " block"], window: Int[Tensor, " window"]
) -> Float[Tensor, "block window"]:
    """Return 1 where a row of the block and a row of the window have the same id, else 0."""
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
    """Raise a `DataError` if two rows of one parent differ in a fact, such as the label."""
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
    """How many rows have no positive, in each term of the MCL loss."""

    ccm: int
    """Rows whose parent has no other view in the batch."""
    spa: int
    """Rows with no row of another parent in their group (class and pose)."""


def count_unpaired(
    labels: Int[Tensor, " rows"],
    poses: Int[Tensor, " rows"] | None,
    parents: Int[Tensor, " rows"],
) -> Unpaired:
    """Return how many rows have no positive, and so add nothing to the CCM or the SPA term."""
    of_parent = _rows_with_same_id(parents)
    of_group = _rows_with_same_id(labels if poses is None else joint_labels(labels, poses))
    return Unpaired(ccm=int((of_parent == 1).sum()), spa=int((of_group == of_parent).sum()))


def draw_partners(
    group_ids: Float[Tensor, " rows"],
    parent_ids: Float[Tensor, " rows"],
    samples: int,
    *,
    generator: torch.Generator,
) -> Int[Tensor, "rows samples"]:
    """Return, for each row, so many of its partners, drawn uniformly with replacement.

    The partners are rows of the same group and another parent. A row that has none gets itself.
    """
    # Sorted by group and then by parent, the rows of a group are one run, and those of a parent a
    # run inside it. Draw a place in the group's run as if the parent's run were cut out of it; a
    # place behind the cut is then moved on by the length of the cut.
    order = torch.argsort(parent_ids)
    order = order[torch.argsort(group_ids[order], stable=True)]
    group_start, group_size = _runs(group_ids[order])
    parent_start, parent_size = _runs(parent_ids[order])
    partners = (group_size - parent_size)[:, None]

    uniform = torch.rand(
        len(order), samples, generator=generator, device=generator.device, dtype=torch.float64
    )
    place = (uniform.to(group_ids.device) * partners).long() + group_start[:, None]
    place = place + parent_size[:, None] * (place >= parent_start[:, None])
    itself = torch.arange(len(order), device=group_ids.device)[:, None]
    drawn = torch.empty_like(place)
    drawn[order] = order[torch.where(partners == 0, itself, place)]
    return drawn


def draw_partner_images(
    group_ids: Float[Tensor, " rows"],
    parent_ids: Float[Tensor, " rows"],
    samples: int,
    *,
    generator: torch.Generator,
) -> Int[Tensor, "rows samples"]:
    """Return, for each row, the same view of the partner images that its parent has drawn.

    Each parent draws so many other parents of its group, uniformly with replacement, and all of
    its rows share the draw: its first row gets the first rows of the drawn parents, its second row
    the second rows, and so on. First and second are places among the rows of one parent, in the
    order of the batch. Where a drawn parent has fewer rows, counting goes round: of a parent with
    two rows, a third row gets the first. A row whose parent has no partner gets itself.

    The draw depends on the ids alone, so rows may come in any order that keeps the views of each
    parent in theirs.
    """
    _, parent, n_views = parent_ids.unique(return_inverse=True, return_counts=True)
    by_parent = parent.argsort(stable=True)
    first = n_views.cumsum(dim=0) - n_views  # where the rows of each parent start in `by_parent`
    view = torch.empty_like(parent)
    view[by_parent] = torch.arange(len(parent), device=parent.device) - first[parent[by_parent]]

    # One row stands for each parent, so that drawing partner rows is drawing partner images.
    drawn = draw_partners(
        group_ids[by_parent[first]], parent_ids[by_parent[first]], samples, generator=generator
    )[parent]
    same_views: Tensor = by_parent[first[drawn] + view[:, None] % n_views[drawn]]
    return same_views


def _rows_with_same_id(ids: Int[Tensor, " rows"]) -> Int[Tensor, " rows"]:
    """Return how many rows have the same id as each row."""
    _, inverse, counts = ids.unique(return_inverse=True, return_counts=True)
    sizes: Tensor = counts[inverse]
    return sizes


def _runs(ids: Float[Tensor, " rows"]) -> tuple[Int[Tensor, " rows"], Int[Tensor, " rows"]]:
    """Return where the run of equal ids around each row starts, and how long it is."""
    _, run, sizes = torch.unique_consecutive(ids, return_inverse=True, return_counts=True)
    starts = sizes.cumsum(dim=0) - sizes
    return starts[run], sizes[run]
