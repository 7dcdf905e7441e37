"""One pass over the training images: the moments of every (pose, class), and what to remember."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from oddone.data import ImageSet
from oddone.density import Moments
from oddone.detector.references import References, as_thumbnail, choose_evenly
from oddone.detector.view_embedder import ViewEmbedder, batches_of
from oddone.device import map_in_threads
from oddone.errors import DataError
from oddone.progress import Progress
from oddone.training import TrainedNetwork

MOST_REFERENCES = 5000
MOST_NAMED = 20_000  # images from which names are learned; more would take memory, and add little
IMAGES_PER_MOMENTS = 1024


class FitStatistics(NamedTuple):
    """What a detector needs to know of the training images."""

    moments: Moments
    """Of every (pose, class)."""
    references: References
    features: Float[Tensor, "views named dim"]
    """Of the images from which names are learned."""
    labels: Int[Tensor, " named"]


def fit_statistics(
    encoder: ViewEmbedder,
    source: ImageSet,
    indices: Int[np.ndarray, " some"],
    progress: Progress | None,
) -> FitStatistics:
    """Return what is learned from the images, which are read once."""
    classes = len(encoder.trained.classes)
    labels = source.labels[indices]
    check_classes(source, encoder.trained)
    check_labels(labels, classes)
    seed = encoder.trained.settings.seed
    referred = choose_evenly(labels, MOST_REFERENCES, seed)
    named = choose_evenly(labels, MOST_NAMED, seed)
    moments: Moments | None = None
    heads, features = [], []
    for start in range(0, len(indices), IMAGES_PER_MOMENTS):
        part = indices[start : start + IMAGES_PER_MOMENTS]
        batches = [batch for _, batch in batches_of(source.images, part, encoder.images_at_once)]
        encoded = map_in_threads(encoder, batches, encoder.device)
        here = _moments(
            torch.cat([batch.embeddings for batch in encoded], dim=1),
            encoded[0].poses,
            torch.from_numpy(source.labels[part]),
            classes,
        )
        moments = here if moments is None else moments + here
        heads.append(
            torch.cat([batch.heads for batch in encoded])[_within(referred, start, len(part))]
        )
        features.append(
            torch.cat([batch.features for batch in encoded], dim=1)[
                :, _within(named, start, len(part))
            ].cpu()
        )
        if progress is not None:
            progress(start + len(part), len(indices), "fitting")
    assert moments is not None  # noqa: S101  (there is at least one image)
    references = References(
        torch.cat(heads).half().cpu(),
        torch.from_numpy(labels[referred]),
        tuple(source.paths[number] for number in indices[referred]),
        tuple(as_thumbnail(source.images[number]) for number in indices[referred]),
    )
    return FitStatistics(
        moments, references, torch.cat(features, dim=1), torch.from_numpy(labels[named])
    )


def _within(
    chosen: Int[np.ndarray, " chosen"], start: int, length: int
) -> Int[np.ndarray, " some"]:
    """Return which of the numbers from `start` on are chosen, counted from there."""
    return chosen[(chosen >= start) & (chosen < start + length)] - start


def check_classes(source: ImageSet, trained: TrainedNetwork) -> None:
    """Raise a DataError unless the images are of the classes that the encoder knows."""
    if source.classes != trained.classes:
        raise DataError(
            f"the classes of the images are {_listed(source.classes)}, and the encoder was trained "
            f"on {_listed(trained.classes)}; fit on the images it was trained on"
        )


def _listed(classes: tuple[str, ...]) -> str:
    shown = ", ".join(classes[:5]) or "none"
    return f"{shown} and {len(classes) - 5} more" if len(classes) > 5 else shown


def check_labels(labels: Int[np.ndarray, " images"], classes: int) -> None:
    """Raise a DataError unless every image has a label of these classes."""
    if len(labels) == 0:
        raise DataError("0 images are too few to fit on; give at least 2 of each class")
    strange = int(((labels < 0) | (labels >= classes)).sum())
    if strange > 0:
        raise DataError(
            f"{strange} of {len(labels)} images have no label of the {classes} classes that the "
            f"encoder was trained on; fit on images with labels"
        )


def _moments(
    embeddings: Float[Tensor, "views images dim"],
    poses: Int[Tensor, " views"],
    labels: Int[Tensor, " images"],
    classes: int,
) -> Moments:
    """Return the moments of the views; a mirrored view belongs to the group of its turn."""
    groups = poses.cpu()[:, None] * classes + labels
    rows = embeddings.flatten(0, 1).cpu()  # in float64, which not every device has
    return Moments.of(rows, groups.flatten(), (int(poses.max()) + 1) * classes)


def names_of_groups(moments: Moments, classes: tuple[str, ...]) -> list[str]:
    """Return what people call the groups."""
    n_poses = len(moments.count) // len(classes)
    turned = [f" turned by {90 * pose} degrees" if pose else "" for pose in range(n_poses)]
    return [f"{name}{how}" for how in turned for name in classes]
