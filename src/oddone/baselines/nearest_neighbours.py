"""Distance to the k-th nearest training image (Sun, Ming, Zhu and Li, ICML 2022)."""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from oddone.baselines.scorer import BaselineScorer
from oddone.data import ImageSet
from oddone.detector import Space, ViewEmbedder
from oddone.detector.fitting import (
    PosedEmbeddings,
    choose_evenly,
    fit_statistics,
    training_indices,
)
from oddone.encoders import TrainedNetwork
from oddone.errors import SettingsError
from oddone.rng import stream
from oddone.scoring import ImageBatch
from oddone.transforms import one_view
from oddone.verdicts import Verdicts

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
) -> BaselineScorer:
    """Return the scorer by the distance to the k-th nearest training image, at unit length.

    The label is that of a classifier where the network has one, as in OpenOOD; otherwise what most
    of the k nearest are.

    Parameters
    ----------
    trained
        A network.
    source
        The images that it was trained on.
    k
        Which neighbour's distance is the score.
    indices
        Which of them were trained on; all by default.
    space
        Where distances are measured.

    Examples
    --------
    >>> from dataclasses import replace
    >>> import oddone
    >>> from oddone.baselines import nearest_neighbours
    >>> from oddone.presets import smoke
    >>> from oddone.scoring import score_images
    >>> detector = oddone.train("fashion:known", replace(smoke(), objective="cross-entropy"))
    >>> images = oddone.load("fashion:known")
    >>> scorer = nearest_neighbours(detector.embedder.trained, images)
    >>> len(score_images(scorer, oddone.load("fashion:unseen#test")).scores)
    400

    """
    indices = training_indices(trained, source, indices)
    known_at = choose_evenly(
        source.labels[indices], MOST_NEIGHBOURS, generator=stream(0, "references")
    )
    if not 1 <= k <= len(known_at):
        raise SettingsError(f"k={k}: choose it from 1 to {len(known_at)}, the number of images")
    embedder, classifier = ViewEmbedder(trained, one_view), trained.network.classifier

    def embed(images: ImageBatch) -> dict[Space, PosedEmbeddings]:
        return {space: PosedEmbeddings(embedder.embed(images).in_space(space), one_view.poses)}

    statistics = fit_statistics(
        embed, trained, source, indices, moments_of=(), samples_of={space: known_at}
    )
    known = statistics.samples[space][0].to(embedder.device)
    known_labels = torch.from_numpy(source.labels[indices[known_at]]).to(embedder.device)

    @torch.no_grad()
    def score_batch(images: ImageBatch) -> Verdicts:
        features, embeddings = trained.network(embedder.prepare(images))
        rows = normalize((features if space == "features" else embeddings).float(), dim=1)
        nearest = k_nearest(rows, known, k)
        # Measured anew: of a cosine near 1, little is left after its subtraction from 1.
        scores = (rows - known[nearest[:, -1]]).norm(dim=1)
        if classifier is not None:
            return Verdicts(scores, classifier(features).argmax(dim=1))
        return Verdicts(scores, most_common(known_labels[nearest], len(trained.classes)))

    return BaselineScorer(score_batch, trained.image_size, embedder.batch_size)


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
