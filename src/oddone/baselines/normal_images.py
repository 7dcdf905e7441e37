"""The images from which a method learns what is normal."""

import numpy as np
from jaxtyping import Int

from oddone.data import ImageSet
from oddone.detector.detector import checked_indices
from oddone.detector.fitting import check_classes, check_labels
from oddone.training import TrainedNetwork


def normal_images(
    trained: TrainedNetwork, source: ImageSet, indices: Int[np.ndarray, " some"] | None
) -> Int[np.ndarray, " some"]:
    """Return their numbers, all by default; raise an error where they are not of the classes."""
    indices = checked_indices(source, indices)
    check_classes(source, trained)
    check_labels(source.labels[indices], len(trained.classes))
    return indices
