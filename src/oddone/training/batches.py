"""Which images a step sees, in which poses and views. All of it follows from seed and step."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int, Int64, UInt8
from torch import Tensor

from oddone.data import ImageSet
from oddone.data.class_names import check_class_names
from oddone.encoders.network import SMALLEST_IMAGE
from oddone.errors import DataError, SettingsError
from oddone.rng import stream
from oddone.training.objective import NO_CLASS, Rows
from oddone.training.settings import BatchSettings, TrainSettings
from oddone.training.shares import count_parts, own_share
from oddone.transforms import (
    POSES,
    CroppedViews,
    ViewDraws,
    colour,
    cut_views,
    draw_views,
    rotate,
)

ENOUGH_TO_SPARE_ONE = 5
"""Images of a class, of which one is held out even where the share would be less than one."""


class PlannedViews(NamedTuple):
    """Views that are drawn, and still to be cut out of their images."""

    pixels: UInt8[Tensor, "images 3 height width"]
    sources: Int[Tensor, " rows"]
    """Which of the images each row is cut from."""
    poses: Int[Tensor, " rows"]
    draws: ViewDraws

    def take(self, rows: Int[Tensor, " some"] | slice) -> "PlannedViews":
        """Return some of the views."""
        return PlannedViews(
            self.pixels, self.sources[rows], self.poses[rows], self.draws.take(rows)
        )

    def split(self, sizes: Sequence[int]) -> "list[PlannedViews]":
        """Return the views in parts of so many rows."""
        ends = [0, *accumulate(sizes)]
        return [self.take(slice(start, end)) for start, end in pairwise(ends)]

    def cut(self) -> CroppedViews:
        """Return the views: rotated, then cropped, each row its own way."""
        images = self.pixels[self.sources]
        if self.poses.any():
            images = rotate(images, self.poses)  # while they are bytes: less to move
        return cut_views(images.float().div_(255), self.poses, self.draws)

    def __add__(self, other: "PlannedViews") -> "PlannedViews":  # type: ignore[override]
        """Return the views of both."""
        return PlannedViews(
            torch.cat([self.pixels, other.pixels]),
            torch.cat([self.sources, other.sources + len(self.pixels)]),
            torch.cat([self.poses, other.poses]),
            self.draws + other.draws,
        )


class BatchPlan(NamedTuple):
    """What one step sees, before any process takes its share of it."""

    views: PlannedViews
    rows: Rows

    def own_batch(self, batch: BatchSettings) -> "TrainBatch":
        """Return what this process takes. Chunks are cut when their turn comes, to save memory."""
        views = self.views.take(own_share(len(self.rows.labels), batch).rows)
        return TrainBatch(views.cut() if batch.chunk is None else views, self.rows)


class TrainBatch(NamedTuple):
    """What one step sees: this process's views, still to be coloured, and what all rows are."""

    views: CroppedViews | PlannedViews
    rows: Rows


def colour_views(
    views: CroppedViews | PlannedViews,
) -> Float[Tensor, "rows 3 height width"]:
    """Return the views as the network sees them, in the layout that convolutions like."""
    cropped = views.cut() if isinstance(views, PlannedViews) else views
    return colour(cropped).contiguous(memory_format=torch.channels_last)


class HeldOutSplit(NamedTuple):
    """The indices of a source's images, ascending."""

    training: Int64[np.ndarray, " training"]
    held_out: Int64[np.ndarray, " held_out"]


def split_held_out(source: ImageSet, settings: TrainSettings) -> HeldOutSplit:
    """Return which images are trained on, and which `settings.held_out` keeps aside.

    Of every class the same share, rounded down, is kept aside: normal, labelled images that are new
    to the encoder, to calibrate a detector with. They mix as the classes do, so a limit makes the
    share of all classes smaller. A class of five images or more spares at least one. A picture of
    which there are copies is not held out, as it would not be new.
    """
    shuffled = torch.randperm(len(source), generator=stream(settings.seed, "held out")).numpy()
    aside = np.zeros(len(source), dtype=bool)
    alone = np.bincount(source.pictures)[source.pictures] == 1
    labels = np.unique(source.labels)
    at_most = settings.held_out_at_most * len(labels)
    for label in labels:
        members = shuffled[source.labels[shuffled] == label]
        wanted = int(settings.held_out * len(members))
        wanted = min(wanted, len(members) * at_most // len(source))
        if settings.held_out > 0 and len(members) >= ENOUGH_TO_SPARE_ONE:
            wanted = max(1, wanted)
        aside[members[alone[members]][:wanted]] = True
    return HeldOutSplit(np.flatnonzero(~aside), np.flatnonzero(aside))


@dataclass(frozen=True, eq=False)
class Batches:
    """The batches of a run."""

    source: ImageSet
    settings: TrainSettings

    @cached_property
    def members(self) -> Int[np.ndarray, " training"]:
        """The indices of the images that are trained on."""
        return split_held_out(self.source, self.settings).training

    @property
    def images_per_step(self) -> int:
        return min(self.settings.batch.images, len(self.members))

    @property
    def steps_per_epoch(self) -> int:
        """How many whole batches the images fill; the rest of a pass sits out until the next."""
        return len(self.members) // self.images_per_step

    @property
    def rows_per_step(self) -> int:
        return self.images_per_step * self.settings.poses_per_image * self.settings.views

    def make(self, step: int, device: torch.device) -> TrainBatch:
        """Return this process's share of the batch of a step, on the device."""
        return self.plan(step, device).own_batch(self.settings.batch)

    def plan(self, step: int, device: torch.device) -> BatchPlan:
        """Return the whole batch of a step, whose views are drawn but not yet cut."""
        rows = Rows(*(fact.to(device) for fact in self.rows(step)))
        pixels = torch.from_numpy(np.ascontiguousarray(self.source.images[self.picked(step)]))
        n_rows = len(rows.labels)
        sources = torch.arange(len(pixels), device=device).repeat(n_rows // len(pixels))
        generator = stream(self.settings.seed, "augment", step)
        size = (pixels.shape[2], pixels.shape[3])
        draws = draw_views(n_rows, size, self.settings.augment, generator=generator)
        planned = PlannedViews(pixels.to(device), sources, rows.poses, draws.to(device))
        return BatchPlan(planned, rows)

    def rows(self, step: int) -> Rows:
        """Return what the rows of a step are: parents in the order of their first view."""
        labels = torch.from_numpy(self.source.labels[self.picked(step)])
        poses = self._poses(step, len(labels))
        posed = len(poses)
        views = self.settings.views
        return Rows(
            labels.repeat(posed // len(labels)).repeat(views),
            poses.repeat(views),
            torch.arange(posed).repeat(views),
        )

    def picked(self, step: int) -> Int[np.ndarray, " images"]:
        """Return the indices of the images of a step."""
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
        share = self.settings.batch.upright_share
        if share == 1 / POSES:
            return torch.randint(POSES, (images,), generator=generator)
        rotated = torch.rand(images, generator=generator) >= share
        return torch.randint(1, POSES, (images,), generator=generator) * rotated


@dataclass(frozen=True, eq=False)
class ExposedBatches:
    """The batches of outlier exposure (Hendrycks, Mazeika and Dietterich, ICLR 2019).

    Every step sees as many outliers as normal images, or all there are.
    """

    normal: Batches
    outliers: Batches

    @staticmethod
    def build(source: ImageSet, outliers: ImageSet, settings: TrainSettings) -> "ExposedBatches":
        """Return batches whose outliers are posed and augmented alike, by streams of their own."""
        normal = Batches(source, settings)
        as_many = settings.batch.of_images(max(2, normal.images_per_step))
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

    @property
    def images_per_step(self) -> int:
        return self.normal.images_per_step

    @property
    def rows_per_step(self) -> int:
        return self.normal.rows_per_step + self.outliers.rows_per_step

    def make(self, step: int, device: torch.device) -> TrainBatch:
        """Return the batch of a step: one batch, so that batch norm cannot tell the two apart."""
        normal, outliers = self.normal.plan(step, device), self.outliers.plan(step, device)
        labels, poses, parents = (
            torch.cat(facts) for facts in zip(normal.rows, outliers.rows, strict=True)
        )
        first = len(normal.rows.labels)
        parents[first:] += first  # no outlier has a normal parent
        # Dealt out like cards: as many outliers then are in every part (see parts.py).
        batch = self.normal.settings.batch
        n_parts = count_parts(len(labels), batch)
        order = torch.arange(len(labels), device=device)
        order = torch.cat([order[part::n_parts] for part in range(n_parts)])
        views = (normal.views + outliers.views).take(order)
        plan = BatchPlan(views, Rows(labels[order], poses[order], parents[order]))
        return plan.own_batch(batch)


def check_source(source: ImageSet, settings: TrainSettings) -> None:
    """Raise a `DataError` unless the images and labels can be trained on."""
    if len(source) < 2:
        raise DataError(f"{len(source)} images are too few to train on; give at least 2")
    check_class_names(source.classes)
    needs_labels = settings.objective != "simclr"
    if needs_labels and (source.labels < 0).any():
        raise DataError(
            f"{int((source.labels < 0).sum())} of {len(source)} images have no label, and "
            f"{settings.objective} needs one each; sort them into one folder per class, or train "
            f"with --objective simclr"
        )
    if len(source.classes) == 1:
        _check_one_class(settings)
    height, width = source.images.shape[2:]
    if height != width:
        raise DataError(f"images of {height} x {width} pixels are not square; set model.image_size")
    if height < SMALLEST_IMAGE:
        raise DataError(
            f"images of {height} x {width} pixels are too small to train on; set model.image_size "
            f"to {SMALLEST_IMAGE} or more, and they are enlarged"
        )


def _check_one_class(settings: TrainSettings) -> None:
    """Raise a `SettingsError` where nothing would keep the images of one class from one point."""
    if settings.rotations != "task" and settings.objective in {"mcl", "supclr", "cross-entropy"}:
        raise SettingsError(
            f"with one class and rotations={settings.rotations!r} there is nothing to tell apart; "
            f"choose rotations='task', so that poses are told apart, as in the preset mcl"
        )


def check_outliers(outliers: ImageSet, source: ImageSet, settings: TrainSettings) -> None:
    """Raise an error unless the outliers can be trained on beside the source."""
    if settings.objective != "cross-entropy":
        raise SettingsError(
            f"outliers are shown to a classifier alone, and objective={settings.objective!r}; "
            f"choose objective='cross-entropy', or give no outliers"
        )
    if len(outliers) == 0:
        raise DataError("there are no images among the outliers; give at least 1")
    (height, width), size = outliers.images.shape[2:], source.images.shape[-1]
    if (height, width) != (size, size):
        raise DataError(
            f"the outliers have {height} x {width} pixels and the training images {size} x {size}, "
            f"which would give them away; load both with size={size}"
        )


@lru_cache(maxsize=2)
def _order(seed: int, epoch: int, images: int) -> Int[np.ndarray, " images"]:
    return torch.randperm(images, generator=stream(seed, "order", epoch)).numpy()
