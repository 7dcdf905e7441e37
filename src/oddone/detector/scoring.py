"""Images judged as they come: from a stream of pictures to one of verdicts."""

from collections.abc import Iterator
from itertools import islice

import numpy as np

from oddone.data.stream import Source, StreamedImage, stream
from oddone.detector.detector import Detector, Scored
from oddone.errors import SettingsError
from oddone.progress import Progress


def score(
    detector: Detector,
    source: Source,
    batch_size: int | None,
    neighbours: int,
    progress: Progress | None,
) -> Iterator[Scored]:
    """Return the verdicts on the pictures of the source, in order, a batch at a time."""
    at_once = detector.encoder.images_at_once if batch_size is None else batch_size
    if at_once < 1:
        raise SettingsError(f"batch_size={batch_size}: choose 1 or more, or None for a good one")
    # While the network judges a batch, threads of the stream decode the next pictures.
    pictures = stream(source, size=detector.image_size, progress=progress)
    return _batch_by_batch(detector, pictures, at_once, neighbours)


def _batch_by_batch(
    detector: Detector, pictures: Iterator[StreamedImage], at_once: int, neighbours: int
) -> Iterator[Scored]:
    while batch := list(islice(pictures, at_once)):
        yield from _scored(detector, batch, neighbours)


def _scored(detector: Detector, batch: list[StreamedImage], neighbours: int) -> Iterator[Scored]:
    images = [picture.image for picture in batch if picture.image is not None]
    explanations = iter(detector.explain(np.stack(images), neighbours) if images else ())
    for picture in batch:
        if picture.image is None:
            yield Scored(picture.path, None, None, None, None, picture.reason)
            continue
        explanation = next(explanations)
        yield Scored(
            picture.path,
            detector.classes[explanation.label],
            explanation.score,
            explanation.p_value,
            None if detector.calibration is None else explanation.anomalous,
            None,
            explanation.neighbours,
        )
