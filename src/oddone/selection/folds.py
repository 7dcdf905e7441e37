"""Training images that stand in for images to come: for normal ones, and for unseen classes."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int, Int64

LEAST_FOLDS, MOST_FOLDS = 5, 10
IMAGE_FOLDS = 5


class Fold(NamedTuple):
    """A way to divide images; the indices of each part are ascending."""

    fitted: Int64[np.ndarray, " fitted"]
    """Those that statistics are fitted on."""
    held_out: Int64[np.ndarray, " held_out"]
    """Others of the same classes: normal images, and new."""
    left_out: Int64[np.ndarray, " left_out"]
    """All images of the classes that are treated as never seen."""


def folds_of_classes(
    labels: Int[np.ndarray, " images"], *, generator: torch.Generator, most: int = MOST_FOLDS
) -> list[Fold]:
    """Return folds in which every image is held out once, and left out with its class once.

    There are as many folds as classes, but no more than `most`, and at least five: some of these
    may leave no class out. With one class there are none, as none can be left out. An image is
    never held out from a fold that leaves its class out.
    """
    classes = np.unique(labels)
    if len(classes) < 2:
        return []
    n_folds = min(max(len(classes), LEAST_FOLDS), most)
    held_in, left_in = (np.empty(len(labels), dtype=np.int64) for _ in range(2))
    order = torch.randperm(len(classes), generator=generator).tolist()
    for place, label in zip(order, classes.tolist(), strict=True):
        members = _shuffled(np.flatnonzero(labels == label), generator)
        left_in[members] = place % n_folds
        # Any of the others, the first of them at random: else few images all go to fold 0.
        start = int(torch.randint(n_folds - 1, (1,), generator=generator))
        others = (start + np.arange(len(members))) % (n_folds - 1)
        held_in[members] = (place + 1 + others) % n_folds
    folds = [
        Fold(
            np.flatnonzero((held_in != fold) & (left_in != fold)),
            np.flatnonzero(held_in == fold),
            np.flatnonzero(left_in == fold),
        )
        for fold in range(n_folds)
    ]
    return [fold for fold in folds if len(fold.held_out) + len(fold.left_out) > 0]


def folds_of_images(
    labels: Int[np.ndarray, " images"], *, generator: torch.Generator
) -> list[Fold]:
    """Return folds in which every image is held out once, a fifth of each class at a time.

    A class with a single image is not held out at all, as nothing would be left to know it by.
    """
    held_in = np.full(len(labels), -1)
    for label in np.unique(labels):
        members = _shuffled(np.flatnonzero(labels == label), generator)
        if len(members) > 1:
            start = int(torch.randint(IMAGE_FOLDS, (1,), generator=generator))
            held_in[members] = (start + np.arange(len(members))) % IMAGE_FOLDS
    nothing = np.empty(0, dtype=np.int64)
    folds = [
        Fold(np.flatnonzero(held_in != fold), np.flatnonzero(held_in == fold), nothing)
        for fold in range(IMAGE_FOLDS)
    ]
    return [fold for fold in folds if len(fold.held_out) > 0]


def _shuffled(
    members: Int64[np.ndarray, " members"], generator: torch.Generator
) -> Int64[np.ndarray, " members"]:
    order = torch.randperm(len(members), generator=generator).numpy()
    return np.take(members, order)
