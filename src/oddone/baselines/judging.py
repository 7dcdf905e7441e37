"""What every method is in the end: images in, how odd each is and what it looks like out."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from oddone.detector.view_embedder import batches_of


class Judged(NamedTuple):
    """What a method thinks of each image."""

    scores: Float[Tensor, " images"]
    """The anomaly score: higher = more anomalous."""
    labels: Int[Tensor, " images"]
    """The class it looks like, whether or not it is anomalous."""


Judge = Callable[[UInt8[np.ndarray, "images 3 height width"]], Judged]
"""Judges images of the network's size, as many as there are; the same images always the same."""


def in_batches(
    judge_batch: Callable[[UInt8[Tensor, "images 3 height width"]], Judged], at_once: int
) -> Judge:
    """Return the judge that looks at so many images at a time."""

    def judge(images: UInt8[np.ndarray, "images 3 height width"]) -> Judged:
        scores, labels = [torch.empty(0)], [torch.empty(0, dtype=torch.long)]
        for _, batch in batches_of(images, np.arange(len(images)), at_once):
            judged = judge_batch(batch)
            scores.append(judged.scores.cpu())
            labels.append(judged.labels.cpu())
        return Judged(torch.cat(scores), torch.cat(labels))

    return judge
