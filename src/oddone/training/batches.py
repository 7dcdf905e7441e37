"""Which images a step sees, in which poses and views. All of it follows from seed and step."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from oddone.data import ImageSet
from oddone.rng import stream
from oddone.training.held_out import split
from oddone.training.objective import Rows
from oddone.training.settings import TrainSettings
from oddone.transforms import POSES, CroppedViews, colour, crop_views, rotate


class TrainBatch(NamedTuple):
    """What one step sees: the views, still to be coloured, and what is known about each."""

    views: CroppedViews
    rows: Rows


def coloured(views: CroppedViews) -> Float[Tensor, "rows 3 height width"]:
    """Return the views as the network sees them, in the layout that convolutions like."""
    return colour(views).contiguous(memory_format=torch.channels_last)


@dataclass(frozen=True, eq=False)
class Batches:
    """The batches of a run."""

    source: ImageSet
    settings: TrainSettings

    @cached_property
    def members(self) -> Int[np.ndarray, " training"]:
        """The numbers of the images that are trained on."""
        return split(self.source, self.settings).training

    @property
    def images_per_step(self) -> int:
        return min(self.settings.batch.images, len(self.members))

    @property
    def steps_per_epoch(self) -> int:
        """How many whole batches the images fill; the rest of a pass sits out until the next."""
        return len(self.members) // self.images_per_step

    def make(self, step: int, device: torch.device) -> TrainBatch:
        """Return the batch of a step, on the device."""
        rows = Rows(*(fact.to(device) for fact in self.rows(step)))
        return TrainBatch(self._views(step, rows.poses), rows)

    def rows(self, step: int) -> Rows:
        """Return what the rows of a step are: parents in the order of their first view."""
        labels = torch.from_numpy(self.source.labels[self._picked(step)])
        poses = self._poses(step, len(labels))
        posed = len(poses)
        views = self.settings.views
        return Rows(
            labels.repeat(posed // len(labels)).repeat(views),
            poses.repeat(views),
            torch.arange(posed).repeat(views),
        )

    def _views(self, step: int, poses: Int[Tensor, " rows"]) -> CroppedViews:
        """Return the views of a step: turned, then cropped, each row its own way."""
        pixels = torch.from_numpy(np.ascontiguousarray(self.source.images[self._picked(step)]))
        posed = len(poses) // self.settings.views
        sources = pixels.to(poses.device).repeat(posed // len(pixels), 1, 1, 1)
        if self.settings.rotations != "none":
            sources = rotate(sources, poses[:posed])  # while they are bytes: less to move
        sources = sources.float().div_(255).repeat(self.settings.views, 1, 1, 1)
        generator = stream(self.settings.seed, "augment", step)
        return crop_views(sources, poses, self.settings.augment, generator=generator)

    def _picked(self, step: int) -> Int[np.ndarray, " images"]:
        epoch, index = divmod(step, self.steps_per_epoch)
        start = index * self.images_per_step
        order = _order(self.settings.seed, epoch, len(self.members))
        picked: Int[np.ndarray, " images"] = self.members[
            order[start : start + self.images_per_step]
        ]
        return picked

    def _poses(self, step: int, images: int) -> Int[Tensor, " posed"]:
        if self.settings.rotations == "none":
            return torch.zeros(images, dtype=torch.long)
        if self.settings.poses_per_image == POSES:
            return torch.arange(POSES).repeat_interleave(images)
        generator = stream(self.settings.seed, "poses", step)
        return torch.randint(POSES, (images,), generator=generator)


@lru_cache(maxsize=2)
def _order(seed: int, epoch: int, images: int) -> Int[np.ndarray, " images"]:
    return torch.randperm(images, generator=stream(seed, "order", epoch)).numpy()
