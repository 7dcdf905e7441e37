"""Distances of images to classes in several representations, in one pass of the network.

The views of `rotations_and_mirrors` begin with those of `rotations`, and these with that of
`one_view`. So what is asked for in fewer views is a part of what the network has computed anyhow.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch

from oddone.data import ImageSet
from oddone.density import Gaussians, Shrinkage
from oddone.detector import Space, ViewEmbedder
from oddone.detector.fitting import PosedEmbeddings, fit_statistics, group_names
from oddone.encoders import TrainedNetwork
from oddone.fusion import PerView
from oddone.progress import Progress, described
from oddone.scoring import ImageBatch, process_batches
from oddone.transforms import ViewSet, one_view, rotations, rotations_and_mirrors

NumberOfViews = Literal[1, 4, 8]
VIEWS: dict[NumberOfViews, ViewSet] = {1: one_view, 4: rotations, 8: rotations_and_mirrors}

SHRINKAGE: Shrinkage = "oas"
"""A feature that never fires makes a plain covariance singular. This one is not, and with thousands
of images of a class it is nearly the same."""

IMAGES_AT_ONCE = 1024


class Representation(NamedTuple):
    """How many views of an image are embedded, and in which space they are compared."""

    n_views: NumberOfViews
    space: Space


Distances = Mapping[Representation, Mapping[str, PerView]]
"""The distances of images to the classes, by representation and by the name of their set."""


def class_distances(
    trained: TrainedNetwork,
    training: ImageSet,
    sets: Mapping[str, ImageSet],
    representations: Iterable[Representation],
    progress: Progress,
) -> Distances:
    """Return how far the images of all sets are from the classes of the training images."""
    wanted = sorted(set(representations))
    embedder = ViewEmbedder(trained, VIEWS[wanted[-1].n_views])  # those of the most views
    gaussians = _fitted(embedder, training, wanted, progress)

    def measure(images: ImageBatch) -> dict[Representation, PerView]:
        embedded = embedder.embed(images)
        distances = {}
        for each in wanted:
            rows = embedded.in_space(each.space)[: each.n_views]
            poses = embedder.poses[: each.n_views].repeat_interleave(rows.shape[1])
            measured = gaussians[each].pose_distances(rows.flatten(0, 1), poses.to(rows.device))
            distances[each] = measured.unflatten(0, (each.n_views, -1)).cpu()
        return distances

    distances: dict[Representation, dict[str, PerView]] = {each: {} for each in wanted}
    for name, images in sets.items():
        parts = [
            batch.result
            for batch in process_batches(
                measure,
                images,
                size=trained.image_size,
                batch_size=IMAGES_AT_ONCE,
                progress=described(progress, name),
            )
            if batch.result is not None
        ]
        for each in wanted:
            distances[each][name] = torch.cat([part[each] for part in parts], dim=1)
    return distances


def _fitted(
    embedder: ViewEmbedder,
    training: ImageSet,
    representations: Sequence[Representation],
    progress: Progress,
) -> dict[Representation, Gaussians]:
    """Return one Gaussian per (pose, class) for each representation."""
    trained = embedder.trained
    fitted_views = rotations if any(embedder.views.mirrored) else embedder.views
    unmirrored = ViewEmbedder(trained, fitted_views)  # mirrored views would not be used

    def embed(images: ImageBatch) -> dict[Representation, PosedEmbeddings]:
        embedded = unmirrored.embed(images)
        return {
            each: PosedEmbeddings.unmirrored(embedded.in_space(each.space), VIEWS[each.n_views])
            for each in representations
        }

    statistics = fit_statistics(
        embed,
        trained,
        training,
        np.arange(len(training)),
        moments_of=representations,
        progress=progress,
    )
    return {
        each: Gaussians.fit(
            statistics.moments[each],
            SHRINKAGE,
            n_poses=VIEWS[each.n_views].n_poses,
            names=group_names(VIEWS[each.n_views].n_poses, trained.classes),
        ).to(embedder.device, torch.float32)
        for each in representations
    }
