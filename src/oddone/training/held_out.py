"""Images kept aside: normal, labelled, and new to the encoder, to calibrate a detector with."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int64

from oddone.data import ImageSet
from oddone.rng import stream
from oddone.training.settings import TrainSettings


class Split(NamedTuple):
    """The numbers of a source's images, ascending."""

    training: Int64[np.ndarray, " training"]
    held_out: Int64[np.ndarray, " held_out"]


def split(source: ImageSet, settings: TrainSettings) -> Split:
    """Return which images are trained on, and which `settings.held_out` keeps aside.

    Of every class the same share, rounded down, is kept aside.
    """
    shuffled = torch.randperm(len(source), generator=stream(settings.seed, "held out")).numpy()
    aside = np.zeros(len(source), dtype=bool)
    for label in np.unique(source.labels):
        members = shuffled[source.labels[shuffled] == label]
        aside[members[: int(settings.held_out * len(members))]] = True
    return Split(np.flatnonzero(~aside), np.flatnonzero(aside))
