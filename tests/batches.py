"""Batches of rows as training makes them, small and in any shape, for tests."""

from typing import NamedTuple

import torch
from hypothesis import strategies as st
from torch import Tensor

from oddone.losses import MCLSettings, MCLTerms, mcl_loss


class LossBatch(NamedTuple):
    embeddings: Tensor
    labels: Tensor
    poses: Tensor
    parents: Tensor

    def take(self, rows: Tensor) -> "LossBatch":
        return LossBatch(*(tensor[rows] for tensor in self))

    def shuffle_parents(self, seed: int) -> "tuple[LossBatch, Tensor]":
        """Return the rows in another order, which keeps the views of each parent in theirs.

        The second result holds the old number of each row.
        """
        shuffle = torch.randperm(len(self.parents), generator=seeded(seed))
        rows = torch.empty_like(shuffle)
        rows[self.parents[shuffle].argsort(stable=True)] = self.parents.argsort(stable=True)
        return self.take(rows), rows


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def loss_of(batch: LossBatch, settings: MCLSettings, **changes: Tensor) -> MCLTerms:
    """Return the MCL loss of the batch with some of its tensors changed, always drawn alike."""
    return mcl_loss(*batch._replace(**changes), settings, generator=seeded())


def make_batch(
    *,
    parents: int = 8,
    views: int = 2,
    classes: int = 3,
    poses: int = 2,
    dim: int = 5,
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
) -> LossBatch:
    """Return `parents` posed images with so many views each, in a shuffled order."""
    generator = seeded(seed)
    # Odd ids, so that nothing relies on 0, 1, 2, ...
    label = torch.randint(classes, (parents,), generator=generator) * 7 - 5
    pose = torch.randint(poses, (parents,), generator=generator) * 90
    parent = torch.arange(parents) * 3 + 100
    order = torch.randperm(parents * views, generator=generator)
    embeddings = torch.randn(parents * views, dim, dtype=torch.float64, generator=generator)
    return LossBatch(
        embeddings.to(dtype),
        label.repeat(views)[order],
        pose.repeat(views)[order],
        parent.repeat(views)[order],
    )


@st.composite
def batches(draw: st.DrawFn) -> LossBatch:
    """Any batch: one class or many, one to four views a parent, parents without a partner."""
    batch = make_batch(
        parents=draw(st.integers(1, 9)),
        views=draw(st.integers(1, 4)),
        classes=draw(st.integers(1, 4)),
        poses=draw(st.integers(1, 3)),
        dim=draw(st.integers(1, 6)),
        seed=draw(st.integers(0, 2**16)),
    )
    rows = len(batch.parents)
    kept = draw(st.integers(1, rows))  # leaves parents with unequal numbers of views
    return batch.take(torch.arange(kept))
