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
from torch import Tensor, nn

from oddone import distributed
from oddone.data import ImageSet
from oddone.device import map_in_threads
from oddone.progress import Progress, described
from oddone.rng import stream
from oddone.training.batches import Batches
from oddone.training.objective import Rows
from oddone.transforms import POSES, rotations_and_mirrors

MOST_BYTES = 2**30
PIXELS_AT_ONCE = 2**20
IMAGES_AT_ONCE = 64


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
        batches: Batches,
        encoder: nn.Module,
        device: torch.device,
        progress: Progress | None = None,
    ) -> "FeatureBatches":
        """Return batches of the features that an encoder makes of all views, as its mode is."""
        members = batches.members[distributed.own_part(len(batches.members))]
        progress = described(progress, "encoding views")
        parts = []
        for start in range(0, len(members), IMAGES_AT_ONCE):
            some = members[start : start + IMAGES_AT_ONCE]
            parts.append(_features(encoder, batches.source, some, device))
            if progress is not None:
                progress(start + len(some), len(members), "")
        own = torch.cat(parts, dim=1)
        return FeatureBatches(batches, distributed.gather_rows(own.transpose(0, 1)).transpose(0, 1))

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


@torch.no_grad()
def _features(
    encoder: nn.Module, source: ImageSet, indices: Int[np.ndarray, " some"], device: torch.device
) -> Float[Tensor, "views some feature_dim"]:
    pixels = torch.from_numpy(np.ascontiguousarray(source.images[indices])).to(device)
    views = rotations_and_mirrors(pixels)

    def encode(rows: Tensor) -> Tensor:
        floats = rows.float().div_(255).contiguous(memory_format=torch.channels_last)
        features: Tensor = encoder(floats)
        return features

    at_once = max(1, PIXELS_AT_ONCE // views[0, 0, 0].numel())
    rows = torch.cat(map_in_threads(encode, views.flatten(0, 1).split(at_once), device))
    return rows.view(*views.shape[:2], -1)
