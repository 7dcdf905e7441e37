"""Distances of images to classes, for many ways to look at them, in one pass of the network.

The views of `eight_turns` begin with those of `four_turns`, and these with that of `one_view`. So
what is asked for in fewer views is a part of what the network has computed anyhow.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from oddone.data import ImageSet
from oddone.density import Gaussians, Moments, Shrinkage
from oddone.detector import Space, ViewEmbedder
from oddone.detector.fitting import names_of_groups
from oddone.detector.view_embedder import batches_of
from oddone.device import map_in_threads
from oddone.fusion import PerView
from oddone.progress import Progress
from oddone.training import TrainedNetwork
from oddone.transforms import POSES, MakeViews, one_view, rotations, rotations_and_mirrors

Ways = Literal[1, 4, 8]
VIEWS: dict[Ways, MakeViews] = {1: one_view, 4: rotations, 8: rotations_and_mirrors}

SHRINKAGE: Shrinkage = "oas"
"""A feature that never fires makes a plain covariance singular. This one is not, and with thousands
of images of a class it is nearly the same."""

IMAGES_AT_ONCE = 1024


class Look(NamedTuple):
    """How many views of an image are embedded, and in which space they are compared."""

    ways: Ways
    space: Space


Distances = Mapping[Look, Mapping[str, PerView]]
"""The distances of the images to the classes, by look and by the name of their set."""


class _Block(NamedTuple):
    """Some images of a set, as the network sees their views."""

    numbers: Int[np.ndarray, " images"]
    by_space: Mapping[Space, Float[Tensor, "views images _"]]
    poses: Int[Tensor, " views"]

    def seen(self, look: Look) -> tuple[Float[Tensor, "rows dim"], Int[Tensor, " rows"]]:
        """Return the embeddings of the look's views, one after the other, and their poses."""
        embeddings = self.by_space[look.space][: look.ways]
        poses = self.poses[: look.ways].repeat_interleave(embeddings.shape[1])
        return embeddings.flatten(0, 1), poses


def distances_of(
    trained: TrainedNetwork,
    training: ImageSet,
    sets: Mapping[str, ImageSet],
    looks: Iterable[Look],
    progress: Progress,
) -> Distances:
    """Return how far the images of all sets are from the classes of the training images."""
    looks = sorted(set(looks))
    encoder = ViewEmbedder(trained, VIEWS[looks[-1].ways], "head")  # those of the most views
    gaussians = _fitted(encoder, training, looks, progress)
    distances: dict[Look, dict[str, PerView]] = {look: {} for look in looks}
    for name, images in sets.items():
        blocks: dict[Look, list[PerView]] = {look: [] for look in looks}
        for block in _blocks(encoder, images, name, progress):
            for look in looks:
                rows, poses = block.seen(look)
                n_poses = len(gaussians[look].mean) // len(trained.classes)
                of_rows = gaussians[look].pose_distances(rows, poses, n_poses)
                blocks[look].append(of_rows.unflatten(0, (look.ways, -1)).cpu())
        for look in looks:
            distances[look][name] = torch.cat(blocks[look], dim=1)
    return distances


def _fitted(
    encoder: ViewEmbedder, training: ImageSet, looks: list[Look], progress: Progress
) -> dict[Look, Gaussians]:
    """Return one Gaussian per (pose, class) for each look; a mirrored view has its turn's pose."""
    classes = encoder.trained.classes
    moments: dict[Look, Moments] = {}
    for block in _blocks(encoder, training, "fitting", progress):
        labels = torch.from_numpy(training.labels[block.numbers])
        for look in looks:
            rows, poses = (numbers.cpu() for numbers in block.seen(look))  # in float64
            groups = poses * len(classes) + labels.repeat(look.ways)
            n_groups = min(look.ways, POSES) * len(classes)
            here = Moments.of(rows, groups, n_groups)
            moments[look] = moments[look] + here if look in moments else here
    return {
        look: Gaussians.fit(found, SHRINKAGE, names=names_of_groups(found, classes)).to(
            encoder.device, torch.float32
        )
        for look, found in moments.items()
    }


def _blocks(
    encoder: ViewEmbedder, images: ImageSet, name: str, progress: Progress
) -> Iterator[_Block]:
    for start in range(0, len(images), IMAGES_AT_ONCE):
        numbers = np.arange(start, min(start + IMAGES_AT_ONCE, len(images)))
        batches = [b for _, b in batches_of(images.images, numbers, encoder.images_at_once)]
        encoded = map_in_threads(encoder, batches, encoder.device)
        by_space: dict[Space, Tensor] = {
            "head": torch.cat([batch.embeddings for batch in encoded], dim=1),
            "features": torch.cat([batch.features for batch in encoded], dim=1),
        }
        yield _Block(numbers, by_space, encoded[0].poses)
        progress(int(numbers[-1]) + 1, len(images), name)
