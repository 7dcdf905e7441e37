"""Outlier exposure (Hendrycks, Mazeika and Dietterich, ICLR 2019): odd images in every step."""

from dataclasses import dataclass, replace

import numpy as np
import torch

from oddone.data import ImageSet
from oddone.rng import stream
from oddone.training.batches import Batches, TrainBatch
from oddone.training.objective import NO_CLASS, Rows
from oddone.training.settings import TrainSettings


@dataclass(frozen=True, eq=False)
class ExposedBatches:
    """The batches of a run that sees outliers too: as many as normal images, or all there are."""

    normal: Batches
    outliers: Batches

    @staticmethod
    def of(source: ImageSet, outliers: ImageSet, settings: TrainSettings) -> "ExposedBatches":
        """Return batches whose outliers are posed and augmented alike, by streams of their own."""
        normal = Batches(source, settings)
        as_many = replace(settings.batch, images=max(2, normal.images_per_step))
        own_seed = stream(settings.seed, "outliers").initial_seed()
        of_no_class = replace(
            outliers, labels=np.full(len(outliers), NO_CLASS, dtype=np.int64), classes=()
        )
        alike = replace(settings, batch=as_many, seed=own_seed, held_out=0.0)
        return ExposedBatches(normal, Batches(of_no_class, alike))

    @property
    def steps_per_epoch(self) -> int:
        """How many steps show every normal image once."""
        return self.normal.steps_per_epoch

    def make(self, step: int, device: torch.device) -> TrainBatch:
        """Return the batch of a step: one batch, so that batch norm cannot tell the two apart."""
        normal, outliers = self.normal.make(step, device), self.outliers.make(step, device)
        labels, poses, parents = (
            torch.cat(facts) for facts in zip(normal.rows, outliers.rows, strict=True)
        )
        first = len(normal.rows.labels)
        parents[first:] += first  # no outlier has a normal parent
        # Every other row first: as many outliers then are in either half (see halves.py).
        order = torch.arange(len(labels), device=device)
        order = torch.cat([order[::2], order[1::2]])
        views = (normal.views + outliers.views).take(order)
        return TrainBatch(views, Rows(labels[order], poses[order], parents[order]))
