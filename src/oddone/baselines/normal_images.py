"""The images from which a method learns what is normal."""

import numpy as np
from jaxtyping import Int

from oddone.data import ImageSet
from oddone.detector.detector import image_numbers
from oddone.detector.fitting import check_classes, check_labels
from oddone.training import TrainedNetwork


def normal_images(
    trained: TrainedNetwork, source: ImageSet, only: Int[np.ndarray, " some"] | None
) -> Int[np.ndarray, " some"]:
    """Return their numbers, all by default; raise an error where they are not of the classes."""
    only = image_numbers(source, only)
    check_classes(source, trained)
    check_labels(source.labels[only], len(trained.classes))
    return only
