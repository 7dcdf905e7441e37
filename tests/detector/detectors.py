"""What tests of detectors share besides their fixtures."""

from dataclasses import replace

import numpy as np

from oddone.data import ImageSet

FITTED = np.arange(60)
HELD_OUT = np.arange(60, 96)
"""Which images of the fixture `source` the fixture `detector` is fitted and calibrated on."""


def subset(source: ImageSet, numbers: np.ndarray) -> ImageSet:
    """Return some of the images as a set of their own."""
    return replace(
        source,
        images=source.images[numbers],
        labels=source.labels[numbers],
        paths=[source.paths[number] for number in numbers],
        fingerprint=f"{len(numbers)} of {source.fingerprint}",
    )
