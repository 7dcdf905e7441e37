"""The hand-written digits of 8 x 8 pixels that come with scikit-learn, to use as OOD images."""

import numpy as np
from sklearn.datasets import load_digits

from oddone.data.arrays import as_pixels, image_set
from oddone.data.image_set import ImageSet

BRIGHTEST = 16  # the value of a white pixel


def read_digits() -> ImageSet:
    """Return the 1,797 digits of 8 x 8 pixels, grey repeated to three channels."""
    digits = load_digits()
    pixels = as_pixels(digits.images / BRIGHTEST, "scikit-learn's digits")
    return image_set(pixels, digits.target, [str(digit) for digit in np.arange(10)], "digits")
