"""Batches of features for a head on an encoder that stays as it is: each view is encoded once.

A view is then one of eight: an image or its mirror image, in one of the four poses. To encode them
costs as much as one epoch of the paper's batches, and every epoch after it next to nothing. The
random crops and colours of `augment` would need new features in every step.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from oddone import distributed
from oddone.encoders import TrainedNetwork
from oddone.features import encode_once
from oddone.progress import Progress
from oddone.rng import stream
from oddone.training.batches import Batches
from oddone.training.objective import Rows
from oddone.transforms import POSES, rotations_and_mirrors

MOST_BYTES = 2**30


class FeatureBatch(NamedTuple):
    """What one step sees: the features of its views, and what is known about each."""

    features: Float[Tensor, "own feature_dim"]
    """Of the rows that this process takes."""
    rows: Rows


@dataclass(frozen=True, eq=False)
class FeatureBatches:
    """The batches of a run, as features in place of views."""

    batches: Batches
    features: Float[Tensor, "views training feature_dim"]
    """Of the images that are trained on, in the views of `rotations_and_mirrors`."""

    @staticmethod
    def fit_into_memory(batches: Batches, feature_dim: int) -> bool:
        """Return whether the features of all images take at most a gigabyte."""
        n_views = len(rotations_and_mirrors)
        return 4 * n_views * len(batches.members) * feature_dim <= MOST_BYTES

    @staticmethod
    def encode(
        batches: Batches, trained: TrainedNetwork, progress: Progress | None = None
    ) -> "FeatureBatches":
        """Return batches of what the encoder of a network makes of all views, on its device."""
        features = encode_once(
            trained, rotations_and_mirrors, batches.source, batches.members, progress=progress
        )
        return FeatureBatches(batches, features.to(trained.device))

    @property
    def steps_per_epoch(self) -> int:
        return self.batches.steps_per_epoch

    @property
    def rows_per_step(self) -> int:
        return self.batches.rows_per_step

    def make(self, step: int, device: torch.device) -> FeatureBatch:
        """Return the batch of a step: the same images and poses as of `Batches`, in these views."""
        rows = self.batches.rows(step)
        places = np.searchsorted(self.batches.members, self.batches.picked(step))
        images = torch.from_numpy(places).repeat(len(rows.poses) // len(places))
        views = rows.poses + POSES * self._mirrored(step, rows)
        own = distributed.own_part(len(views))  # a head has no batch norm, so parts do not matter
        features = self.features[views[own], images[own]]
        return FeatureBatch(features, Rows(*(fact.to(device) for fact in rows)))

    def _mirrored(self, step: int, rows: Rows) -> Int[Tensor, " rows"]:
        """Return which rows are mirrored: of two views the second, of one view any."""
        n_rows, settings = len(rows.poses), self.batches.settings
        if settings.views == 2:
            return torch.arange(n_rows) // (n_rows // 2)
        return torch.randint(2, (n_rows,), generator=stream(settings.seed, "augment", step))
