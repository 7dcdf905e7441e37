"""The one loop over images: a batch in memory at a time, of a set or of a stream of any length.

The detector, every baseline, evaluation, the bench and the report score images by it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from oddone.data import ImageSet
from oddone.data.stream import Source, StreamedImage, stream
from oddone.errors import SettingsError
from oddone.progress import Progress, described
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


@dataclass(frozen=True, eq=False)
class ProcessedBatch(Generic[Result]):
    """Some images in a row, and what was made of them."""

    pictures: list[StreamedImage]
    """In order. Those that could not be read have no image, but a reason."""
    result: Result | None
    """Of those that could be read; None where none could."""


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
    if batch_size < 1:
        raise SettingsError(f"batch_size={batch_size}: choose 1 or more, or None for a good one")
    if not isinstance(source, ImageSet) or progress is None:
        pictures = stream(source, size=size, indices=indices, progress=progress)
        return _processed(process, pictures, batch_size)
    batches = _processed(process, stream(source, size=size, indices=indices), batch_size)
    return _shown(batches, len(source) if indices is None else len(indices), progress)


def _processed(
    process: Callable[[ImageBatch], Result], pictures: Iterator[StreamedImage], batch_size: int
) -> Iterator[ProcessedBatch[Result]]:
    while batch := list(islice(pictures, batch_size)):
        images = [picture.image for picture in batch if picture.image is not None]
        result = process(torch.from_numpy(np.stack(images))) if images else None
        yield ProcessedBatch(batch, result)


def _shown(
    batches: Iterator[ProcessedBatch[Result]], total: int, progress: Progress
) -> Iterator[ProcessedBatch[Result]]:
    """Yield the batches of a set, whose progress counts what is processed, not what is read."""
    done = 0
    for batch in batches:
        done += len(batch.pictures)
        progress(done, total, "images")
        yield batch


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
