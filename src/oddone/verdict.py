"""What is thought of one image, in plain values, so that who scores without torch has it too."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import UInt8


class Verdict(NamedTuple):
    """What is thought of one image.

    Examples
    --------
    >>> Verdict(score=5.0, label=1, anomalous=True, p_value=0.005).anomalous
    True

    """

    score: float
    """The anomaly score: higher = more anomalous."""
    label: int
    """The class it looks like, whether or not it is anomalous."""
    anomalous: bool | None = None
    """Whether the score exceeds the threshold; None without a threshold."""
    p_value: float | None = None
    """The share of normal images that are at least as anomalous; None without a calibration."""
    probabilities: Any = None  # a tensor of [classes]; its type would import torch
    """How likely each class is, if it is one of them at all; None where that is not known."""


class Neighbour(NamedTuple):
    """A training image that looks, to the encoder, like the image in question."""

    label: int
    path: str
    similarity: float
    """The cosine between the embeddings, -1 to 1."""
    thumbnail: UInt8[np.ndarray, "height width 3"]
