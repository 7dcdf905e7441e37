"""Which images a step sees, in which poses and views. All of it follows from seed and step."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from oddone.data import ImageSet
from oddone.rng import stream
from oddone.training.held_out import split
from oddone.training.objective import Rows
from oddone.training.settings import Training
from oddone.transforms import POSES, augment, turn

Half = Literal[0, 1]


class Batch(NamedTuple):
    """What one step sees: the views, and what is known about each."""

    images: Float[Tensor, "rows 3 height width"]
    rows: Rows


@dataclass(frozen=True, eq=False)
class Batches:
    """The batches of a run."""

    source: ImageSet
    settings: Training

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

    @property
    def parents_per_step(self) -> int:
        return self.images_per_step * self.settings.poses_per_image

    def make(self, step: int, device: torch.device, half: Half | None = None) -> Batch:
        """Return the batch of a step, or a half of its rows, which has a random stream of its own.

        It is on the device, in the layout that convolutions like.
        """
        rows, generator = self.rows(step), stream(self.settings.seed, "augment", step)
        if half is not None:
            rows = Rows(*(fact.tensor_split(2)[half] for fact in rows))
            generator = stream(self.settings.seed, "augment", step, half)
        images = self._images(step, rows, device, generator)
        return Batch(
            images.contiguous(memory_format=torch.channels_last),
            Rows(*(fact.to(device) for fact in rows)),
        )

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

    def _images(
        self, step: int, rows: Rows, device: torch.device, generator: torch.Generator
    ) -> Float[Tensor, "rows 3 height width"]:
        """Return views of a step: turned, then cropped and coloured, each row its own way."""
        numbers = self._picked(step)[rows.parents.numpy() % self.images_per_step]
        pixels = torch.from_numpy(np.ascontiguousarray(self.source.images[numbers]))
        floats = pixels.to(device).float().div_(255)
        poses = rows.poses.to(device)
        turned = floats if self.settings.rotations == "none" else turn(floats, poses)
        return augment(turned, poses, self.settings.augment, generator=generator)

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
