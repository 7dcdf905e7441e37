"""The one loop over images, as tensors: whatever scores by torch scores by it.

The detector, every baseline, evaluation, the bench and the report do.
"""

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from oddone.data import ImageSet
from oddone.data.stream import Source
from oddone.progress import Progress, described
from oddone.scored_images import ProcessedBatch, process_arrays
from oddone.verdicts import Verdicts

ImageBatch = UInt8[Tensor, "images 3 height width"]
Result = TypeVar("Result")


@runtime_checkable
class Scorer(Protocol):
    """A way to score images: a `Detector`, or a baseline."""

    @property
    def image_size(self) -> int:
        """Height and width of the images that it takes."""

    @property
    def batch_size(self) -> int:
        """How many images make a good batch."""

    def __call__(self, images: ImageBatch) -> Verdicts:
        """Return the verdicts on a batch of images; the same images always get the same."""


def process_batches(
    process: Callable[[ImageBatch], Result],
    source: Source,
    *,
    size: int,
    batch_size: int,
    indices: Int[np.ndarray, " some"] | None = None,
    progress: Progress | None = None,
) -> Iterator[ProcessedBatch[Result]]:
    """Return what a function makes of the images of a source, batch by batch, as it is asked for.

    While it processes a batch, threads decode the next images.

    Parameters
    ----------
    process
        Called with each batch of images that could be read.
    source
        An `ImageSet`, or what `oddone.load` takes: a folder, a file of images, or several; or an
        `ImageStream`, which shows its own progress.
    size
        Height and width to which images are resized.
    batch_size
        How many images a batch has.
    indices
        Which images of an `ImageSet`, and in which order; all by default.
    progress
        Called with how many are done.

    """
    return process_arrays(
        lambda images: process(torch.from_numpy(images)),
        source,
        size=size,
        batch_size=batch_size,
        indices=indices,
        progress=progress,
    )


def score_images(
    scorer: Scorer,
    images: ImageSet,
    *,
    indices: Int[np.ndarray, " some"] | None = None,
    progress: Progress | None = None,
    description: str = "scoring",
) -> Verdicts:
    """Return the verdicts on the images of a set, or on those with the given indices."""
    batches = process_batches(
        scorer,
        images,
        size=scorer.image_size,
        batch_size=scorer.batch_size,
        indices=indices,
        progress=described(progress, description),
    )
    return Verdicts.concatenate([batch.result for batch in batches if batch.result is not None])
