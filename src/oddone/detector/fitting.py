"""The one pass over training images: moments of every (pose, class), and what to remember.

The detector, the bench and the Mahalanobis baseline fit their Gaussians by it. They differ in what
they compute of an image: one kind of embedding, several at once, or those of every layer.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int, Int64
from torch import Tensor

from oddone import distributed
from oddone.data import ImageSet
from oddone.data.class_names import check_class_names
from oddone.data.image_set import check_indices
from oddone.density import Moments
from oddone.encoders import TrainedNetwork
from oddone.errors import DataError
from oddone.features import own_images
from oddone.progress import Progress, described
from oddone.scoring import ImageBatch, process_batches
from oddone.transforms import ViewSet

IMAGES_PER_MOMENTS = 1024
"""Moments are in float64, and cheaper for many images at once."""

Key = TypeVar("Key")


class PosedEmbeddings(NamedTuple):
    """Embeddings of some views of images, and the poses of these views."""

    embeddings: Float[Tensor, "views images dim"]
    poses: Sequence[int]
    """One for each view; a mirrored view has the pose of its rotation."""

    @staticmethod
    def unmirrored(
        embeddings: Float[Tensor, "views images dim"], views: ViewSet
    ) -> "PosedEmbeddings":
        """Return what Gaussians are fitted on: un-augmented images, in each of the poses.

        Mirrored views are for new images only. Of 8-way SEI the paper says that "the only
        difference is the number of augmented images" (docs/paper.md has the measurement).
        """
        chosen = list(views.unmirrored)
        return PosedEmbeddings(embeddings[chosen], [views.poses[view] for view in chosen])


Embed = Callable[[ImageBatch], Mapping[Key, PosedEmbeddings]]
"""From images to one or several kinds of embeddings, by names of the caller's choice."""


@dataclass(frozen=True, eq=False)
class FitStatistics(Generic[Key]):
    """What is learned from training images in one pass."""

    moments: dict[Key, Moments]
    """Of every (pose, class), for each kind of embedding that was asked for."""
    samples: dict[Key, Float[Tensor, "views chosen dim"]]
    """The embeddings of chosen images themselves, on the CPU."""


def fit_statistics(
    embed: Embed[Key],
    trained: TrainedNetwork,
    source: ImageSet,
    indices: Int[np.ndarray, " some"],
    *,
    moments_of: Collection[Key],
    samples_of: Mapping[Key, Int[np.ndarray, " chosen"]] = MappingProxyType({}),
    progress: Progress | None = None,
) -> FitStatistics[Key]:
    """Return what is learned from the images of these indices, which are read once.

    Of several processes (`oddone.distributed`) each reads its share, and all return the same.

    Parameters
    ----------
    embed
        What is computed of a batch of images.
    trained
        The network whose classes and image size count.
    source, indices
        The labelled images; `training_indices` checks them.
    moments_of
        For which kinds of embeddings the moments are wanted.
    samples_of
        For which kinds the embeddings themselves are kept, and of which images: ascending places
        in `indices`.
    progress
        Called with how many images are done.

    """
    own = own_images(len(indices))
    indices = indices[own]
    labels, classes = torch.from_numpy(source.labels[indices]), len(trained.classes)
    moments: dict[Key, Moments] = {}
    samples: dict[Key, list[Tensor]] = {key: [] for key in samples_of}
    start = 0
    for batch in process_batches(
        embed,
        source,
        size=trained.image_size,
        batch_size=IMAGES_PER_MOMENTS,
        indices=indices,
        progress=described(progress, "fitting"),
    ):
        assert batch.result is not None  # noqa: S101  (an ImageSet holds readable images only)
        end = start + len(batch.pictures)
        for key in moments_of:
            here = _group_moments(batch.result[key], labels[start:end], classes)
            moments[key] = moments[key] + here if key in moments else here
        for key, chosen in samples_of.items():
            places = chosen - own.start
            here_chosen = places[(places >= start) & (places < end)] - start
            samples[key].append(batch.result[key].embeddings[:, here_chosen].cpu())
        start = end
    return FitStatistics(
        {key: _of_all_processes(each) for key, each in moments.items()},
        {key: _in_order_of_images(parts) for key, parts in samples.items()},
    )


def _of_all_processes(own: Moments) -> Moments:
    """Return the moments of the rows of all processes, as `+` would make them of theirs."""
    count = distributed.sum_of_all(own.count)
    weight = own.count.double() / count.clamp(min=1)
    mean = distributed.sum_of_all(weight[:, None] * own.mean)
    shifts = own.mean - mean
    for scatter, number, shift in zip(own.scatter, own.count.tolist(), shifts, strict=True):
        scatter.addr_(shift, shift, alpha=number)  # around the common mean, each is off-centre
    return Moments(count, mean, distributed.sum_of_all(own.scatter))


def _in_order_of_images(
    parts: Sequence[Float[Tensor, "views _ dim"]],
) -> Float[Tensor, "views chosen dim"]:
    own = torch.cat(list(parts), dim=1)
    return distributed.gather_rows(own.transpose(0, 1)).transpose(0, 1)


def _group_moments(posed: PosedEmbeddings, labels: Int[Tensor, " images"], classes: int) -> Moments:
    groups = torch.tensor(posed.poses)[:, None] * classes + labels
    rows = posed.embeddings.flatten(0, 1).cpu()  # in float64, which not every device has
    return Moments.of(rows, groups.flatten(), (max(posed.poses) + 1) * classes)


def group_names(n_poses: int, classes: Sequence[str]) -> list[str]:
    """Return what errors call the groups."""
    return [
        f"{name} rotated by {90 * pose} degrees" if pose else name
        for pose in range(n_poses)
        for name in classes
    ]


def training_indices(
    trained: TrainedNetwork, source: ImageSet, indices: Int[np.ndarray, " some"] | None
) -> Int[np.ndarray, " some"]:
    """Return the indices of the images to fit on, all by default.

    Raises a DataError unless all of them have a label of the classes that the network knows.
    """
    indices = checked_indices(source, indices)
    check_class_names(source.classes)
    if source.classes != trained.classes:
        raise DataError(
            f"the classes of the images are {_listed(source.classes)}, and the encoder was trained "
            f"on {_listed(trained.classes)}; fit on the images it was trained on"
        )
    labels = source.labels[indices]
    if len(labels) == 0:
        raise DataError("0 images are too few to fit on; give at least 2 of each class")
    unlabelled = int(((labels < 0) | (labels >= len(trained.classes))).sum())
    if unlabelled > 0:
        raise DataError(
            f"{unlabelled} of {len(labels)} images have no label of the {len(trained.classes)} "
            f"classes that the encoder was trained on; fit on images with labels"
        )
    return indices


def too_few_images(name: str, images: str, needed: int) -> DataError:
    """Return what is wrong with a class that has too few images for its Gaussian."""
    return DataError(
        f"of class {name!r} the number of {images}, and its Gaussian needs at least {needed}; add "
        f"images of that class or leave it out"
    )


def checked_indices(
    source: ImageSet, indices: Int[np.ndarray, " some"] | None
) -> Int[np.ndarray, " some"]:
    """Return the indices of the images that are meant, which by default are all."""
    if indices is None:
        return np.arange(len(source))
    check_indices(indices, source)
    return indices


def choose_evenly(
    labels: Int[np.ndarray, " images"], most: int, *, generator: torch.Generator
) -> Int64[np.ndarray, " chosen"]:
    """Return the indices of all images, or of so many at random, with equal numbers per class."""
    if len(labels) <= most:
        return np.arange(len(labels))
    shuffled = torch.randperm(len(labels), generator=generator).numpy()
    rank_in_class = np.empty(len(labels), dtype=np.int64)
    for label in np.unique(labels):
        members = shuffled[labels[shuffled] == label]
        rank_in_class[members] = np.arange(len(members))
    return np.sort(shuffled[np.argsort(rank_in_class[shuffled], kind="stable")[:most]])


def choose_in_proportion(
    labels: Int[np.ndarray, " images"], most: int, *, generator: torch.Generator
) -> Int64[np.ndarray, " chosen"]:
    """Return the indices of all images, or of about so many at random: as many classes mix.

    Of every class it is the same share, rounded up.
    """
    if len(labels) <= most:
        return np.arange(len(labels))
    shuffled = torch.randperm(len(labels), generator=generator).numpy()
    chosen = []
    for label in np.unique(labels):
        members = shuffled[labels[shuffled] == label]
        chosen.append(members[: -(-len(members) * most // len(labels))])
    return np.sort(np.concatenate(chosen))


def _listed(classes: tuple[str, ...]) -> str:
    shown = ", ".join(classes[:5]) or "none"
    return f"{shown} and {len(classes) - 5} more" if len(classes) > 5 else shown
