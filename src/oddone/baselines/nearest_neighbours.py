"""Distance to the k-th nearest training image (Sun, Ming, Zhu and Li, ICML 2022)."""

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from oddone.baselines.judging import Judge, Judged, in_batches
from oddone.baselines.normal_images import normal_images
from oddone.data import ImageSet
from oddone.detector import Space, ViewEmbedder
from oddone.detector.references import choose_evenly
from oddone.detector.view_embedder import batches_of
from oddone.errors import SettingsError
from oddone.training import TrainedNetwork
from oddone.transforms import one_view

MOST_NEIGHBOURS = 50_000
"""Training images that are remembered: all of CIFAR-10, in 100 MB for 512 features."""
SIMILARITIES_AT_ONCE = 2**24


def nearest_neighbours(
    trained: TrainedNetwork,
    source: ImageSet,
    *,
    k: int = 50,
    indices: Int[np.ndarray, " some"] | None = None,
    space: Space = "features",
) -> Judge:
    """Return the judge by the distance to the k-th nearest training image, at unit length.

    The label is what most of the k nearest are, so that encoders without a classifier have one too.
    `only` are the numbers of the training images, all by default.
    """
    indices = normal_images(trained, source, indices)
    indices = indices[choose_evenly(source.labels[indices], MOST_NEIGHBOURS, trained.settings.seed)]
    if not 1 <= k <= len(indices):
        raise SettingsError(f"k={k}: choose it from 1 to {len(indices)}, the number of images")
    encoder = ViewEmbedder(trained, one_view, space)
    known = torch.cat(
        [
            encoder(batch).embeddings[0]
            for _, batch in batches_of(source.images, indices, encoder.images_at_once)
        ]
    )
    known_labels = torch.from_numpy(source.labels[indices]).to(known.device)

    @torch.no_grad()
    def judge_batch(images: UInt8[Tensor, "images 3 height width"]) -> Judged:
        rows = encoder(images).embeddings[0]
        nearest = k_nearest(rows, known, k)
        # Measured anew: of a cosine near 1, little is left after its subtraction from 1.
        scores = (rows - known[nearest[:, -1]]).norm(dim=1)
        return Judged(scores, most_common(known_labels[nearest], len(trained.classes)))

    return in_batches(judge_batch, encoder.images_at_once)


def k_nearest(
    rows: Float[Tensor, "rows dim"], known: Float[Tensor, "known dim"], k: int
) -> Int[Tensor, "rows k"]:
    """Return which known rows of unit length are the nearest, the nearest first."""
    at_once = max(1, SIMILARITIES_AT_ONCE // len(known))
    return torch.cat([(part @ known.mT).topk(k, dim=1).indices for part in rows.split(at_once)])


def most_common(labels: Int[Tensor, "images k"], classes: int) -> Int[Tensor, " images"]:
    """Return the label that most of an image's neighbours have; of equally many, the lowest."""
    votes = torch.zeros(len(labels), classes, dtype=torch.long, device=labels.device)
    return votes.scatter_add_(1, labels, torch.ones_like(labels)).argmax(dim=1)
