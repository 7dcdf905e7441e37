"""What every data source becomes: pictures of one size with labels, names and provenance."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Int64, UInt8


class BrokenFile(NamedTuple):
    """A file that could not be read as a picture, and why."""

    path: str
    reason: str


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images of one size, in memory or memory-mapped, never more than once decoded.

    An image without a label has the label -1; a set without labels has no classes.
    """

    images: UInt8[np.ndarray, "images 3 height width"]
    labels: Int64[np.ndarray, " images"]
    classes: tuple[str, ...]
    paths: Sequence[str]
    """Where each image came from, for people: a file's path, or such as "cifar10:DIR#test[17]"."""
    fingerprint: str
    """A hash that changes when the images or labels may have changed."""
    broken: tuple[BrokenFile, ...] = ()

    def __len__(self) -> int:
        return len(self.images)
