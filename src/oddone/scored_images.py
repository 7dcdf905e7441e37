"""The one loop over images: a batch in memory at a time, of a set or of a stream of any length.

Nothing here needs torch, so that what is scored by other means is scored by the same loop.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Int, UInt8

from oddone.data import ImageSet
from oddone.data.stream import Source, StreamedImage, stream
from oddone.errors import SettingsError
from oddone.progress import Progress
from oddone.verdict import Neighbour, Verdict

ArrayBatch = UInt8[np.ndarray, "images 3 height width"]
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class ProcessedBatch(Generic[Result]):
    """Some images in a row, and what was made of them."""

    pictures: list[StreamedImage]
    """In order. Those that could not be read have no image, but a reason."""
    result: Result | None
    """Of those that could be read; None where none could."""


class DecidedImage(NamedTuple):
    """What was decided about one image of a batch."""

    verdict: Verdict
    neighbours: tuple[Neighbour, ...] = ()


class ScoredImage(NamedTuple):
    """An image of a stream and its verdict, or the reason why there is none."""

    path: str
    verdict: Verdict | None
    class_name: str | None
    """The name of the verdict's label."""
    reason: str | None
    """Why there is no verdict: the file cannot be read, or its score is no number; else None."""
    neighbours: tuple[Neighbour, ...] = ()


def process_arrays(
    process: Callable[[ArrayBatch], Result],
    source: Source,
    *,
    size: int,
    batch_size: int,
    indices: Int[np.ndarray, " some"] | None = None,
    progress: Progress | None = None,
) -> Iterator[ProcessedBatch[Result]]:
    """Return what a function makes of the images of a source: see `scoring.process_batches`."""
    if batch_size < 1:
        raise SettingsError(f"batch_size={batch_size}: choose 1 or more, or None for a good one")
    if not isinstance(source, ImageSet) or progress is None:
        pictures = stream(source, size=size, indices=indices, progress=progress)
        return _processed(process, pictures, batch_size)
    batches = _processed(process, stream(source, size=size, indices=indices), batch_size)
    return _shown(batches, len(source) if indices is None else len(indices), progress)


def _processed(
    process: Callable[[ArrayBatch], Result], pictures: Iterator[StreamedImage], batch_size: int
) -> Iterator[ProcessedBatch[Result]]:
    while batch := list(islice(pictures, batch_size)):
        images = [picture.image for picture in batch if picture.image is not None]
        result = process(np.stack(images)) if images else None
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


def scored_images(
    batches: Iterable[ProcessedBatch[list[DecidedImage]]], classes: Sequence[str]
) -> Iterator[ScoredImage]:
    """Yield every image of the batches with what was decided, or with why nothing was."""
    for batch in batches:
        decided = iter(batch.result or ())
        for picture in batch.pictures:
            if picture.image is None:
                yield ScoredImage(picture.path, None, None, picture.reason)
                continue
            verdict, neighbours = next(decided)
            if not math.isfinite(verdict.score):
                reason = f"its score is {verdict.score}, which is no number; fit the detector anew"
                yield ScoredImage(picture.path, None, None, reason)
                continue
            yield ScoredImage(picture.path, verdict, classes[verdict.label], None, neighbours)
