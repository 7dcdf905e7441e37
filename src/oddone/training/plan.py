"""What to train, so that it fits into the time and the memory there are: image size and batch."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from oddone.training.cost import RowCost, measure_cost
from oddone.training.settings import TrainSettings

WANTED_EPOCHS = 100
"""How often images should be seen before larger ones are worth their time: of 480 photographs in
ten minutes, 64 x 64 pixels seen 350 times were told far better than 224 x 224 seen 30 times."""
FEWEST_EPOCHS = 10
MOST_BYTES = 2e9
SMALLEST_BATCH = 8


class SizePlan(NamedTuple):
    """An image size, and how often every image will then be seen."""

    image_size: int
    epochs: float


def rows_per_image(settings: TrainSettings) -> int:
    """Return how many rows of a batch show the same image."""
    return settings.poses_per_image * settings.views


def epochs_in_time(settings: TrainSettings, images: int, cost: RowCost) -> float:
    """Return about how often each of the images will be seen; infinity where no time is set."""
    minutes = math.inf if settings.minutes is None else settings.minutes
    return 60 * minutes / (images * rows_per_image(settings) * cost.seconds_per_row)


def plan_image_size(settings: TrainSettings, images: int, sizes: Sequence[int]) -> SizePlan:
    """Return the largest of the sizes at which each image is seen often enough, or the smallest."""
    plans = (
        SizePlan(size, epochs_in_time(settings, images, measure_cost(settings, size)))
        for size in sorted(sizes, reverse=True)
    )
    for plan in plans:
        if plan.epochs >= WANTED_EPOCHS:
            break
    return plan


def bytes_of_step(settings: TrainSettings, images: int, cost: RowCost) -> float:
    """Return about how much memory a step takes, if that many images are trained on."""
    rows = min(settings.batch.images, images) * rows_per_image(settings)
    if settings.batch.chunk is not None:
        rows = min(rows, settings.batch.chunk)
    return rows * cost.bytes_per_row


def cut_batch(settings: TrainSettings, cost: RowCost) -> TrainSettings:
    """Return the settings with as many images a step as fit into two gigabytes, eight at least."""
    fitting = int(MOST_BYTES / (rows_per_image(settings) * cost.bytes_per_row))
    return replace(settings, batch=settings.batch.of_images(max(SMALLEST_BATCH, fitting)))
