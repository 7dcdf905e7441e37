"""ImageSet, which every data source becomes: images of one size, their labels and paths."""

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Int64, UInt8

from oddone.errors import DataError, DataWarning, SettingsError, did_you_mean

SplitName = Literal["train", "test"]
"""The two parts that data sets such as CIFAR-10 come in."""


_ARRAYS = "give uint8 of [images, 3, height, width] (oddone.data.arrays.as_pixels makes it)"


class BrokenFile(NamedTuple):
    """A file that could not be read as an image, and the reason."""

    path: str
    reason: str


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images of one size, as an array in memory or memory-mapped from a file.

    An image without a label has the label -1. A set without any labels has no classes.
    """

    images: UInt8[np.ndarray, "images 3 height width"]
    labels: Int64[np.ndarray, " images"]
    classes: tuple[str, ...]
    """The name of each class: `classes[label]`."""
    paths: Sequence[str]
    """Where each image came from, for people: a file's path, or such as "cifar10:DIR#test[17]"."""
    fingerprint: str
    """A hash that changes when the images, labels or classes may have changed."""
    broken: tuple[BrokenFile, ...] = ()
    """Files of the source that are left out, because they could not be read."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """How many files of a folder are left out, because they are no pictures, by their endings."""
    enlarged: int = 0
    """How many of the images were smaller than they are now."""

    def __post_init__(self) -> None:
        _check_images(self.images)
        _check_labels(self.labels, len(self.images), len(self.classes))
        if len(self.paths) != len(self.images):
            raise DataError(
                f"{len(self.images)} images and {len(self.paths)} paths; give one for each image"
            )

    def __len__(self) -> int:
        return len(self.images)

    @cached_property
    def pictures(self) -> Int64[np.ndarray, " images"]:
        """Which picture each image is: images of the same pixels have the same number."""
        digests = [
            hashlib.blake2b(image.tobytes(), digest_size=16).hexdigest() for image in self.images
        ]
        return np.unique(digests, return_inverse=True)[1].astype(np.int64)


def _check_images(images: object) -> None:
    if not isinstance(images, np.ndarray):
        raise DataError(f"images are a {type(images).__name__}; {_ARRAYS}")
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[1] != 3:
        raise DataError(f"images are {images.dtype} of {images.shape}; {_ARRAYS}")


def _check_labels(labels: object, images: int, classes: int) -> None:
    if not isinstance(labels, np.ndarray) or labels.dtype != np.int64:
        what = labels.dtype if isinstance(labels, np.ndarray) else f"a {type(labels).__name__}"
        raise DataError(f"labels are {what}; give an array of int64, one for each image")
    if labels.shape != (images,):
        raise DataError(f"{images} images and labels of {labels.shape}; give one for each image")
    if images > 0 and not -1 <= labels.min() <= labels.max() < classes:
        raise DataError(
            f"labels are from {labels.min()} to {labels.max()}, and {classes} classes are named; "
            f"number them from 0, with -1 for an image without a label"
        )


def without_copies(source: ImageSet) -> Int64[np.ndarray, " some"]:
    """Return the indices of the images, of the same pixels in the same class only the first.

    How many are left out is said in a warning, and where a picture is in two classes too.
    """
    labelled = np.stack([source.pictures, source.labels])
    first = np.sort(np.unique(labelled, axis=1, return_index=True)[1])
    copies = np.setdiff1d(np.arange(len(source)), first)
    if len(copies) > 0:
        warnings.warn(
            f"{len(copies)} of {len(source)} images are copies of others in their class, and are "
            f"left out, such as {source.paths[copies[0]]}",
            DataWarning,
            stacklevel=2,
        )
    pictures, places, times = np.unique(
        source.pictures[first], return_index=True, return_counts=True
    )
    if (times > 1).any():
        one = first[places[times > 1][0]]
        others = first[source.pictures[first] == source.pictures[one]]
        told = " and ".join(
            f"{source.paths[image]} in {source.classes[source.labels[image]]!r}"
            for image in others[:2].tolist()
        )
        warnings.warn(
            f"{int((times > 1).sum())} of {len(pictures)} pictures are in several classes, such as "
            f"{told}; keep each in its own",
            DataWarning,
            stacklevel=2,
        )
    return first


def check_indices(indices: np.ndarray, source: ImageSet) -> None:
    """Raise a `SettingsError` unless all indices are numbers of images in the set."""
    if not np.issubdtype(indices.dtype, np.integer):
        raise SettingsError(f"indices are {indices.dtype}; give the numbers of images as integers")
    outside = indices[(indices < 0) | (indices >= len(source))]
    if len(outside) > 0:
        raise SettingsError(
            f"indices hold {outside[0]}, and the {len(source)} images are numbered from 0; "
            f"leave it out"
        )


def split_off_class(source: ImageSet, name: str) -> tuple[ImageSet, ImageSet]:
    """Return the images without those of a class, and those of that class, unlabelled."""
    if name not in source.classes:
        known = f"the classes are {', '.join(source.classes[:5])}"
        hint = did_you_mean(name, source.classes, otherwise=known)
        raise SettingsError(f"there is no class {name!r} to leave out; {hint}")
    if len(source.classes) == 1:
        raise SettingsError(f"{name!r} is the only class; leave out one of at least two")
    label = source.classes.index(name)
    classes = source.classes[:label] + source.classes[label + 1 :]
    labels = source.labels - (source.labels > label)
    chosen = source.labels == label
    labels[chosen] = -1
    others, left_out = (
        replace(
            source,
            images=source.images[indices],
            labels=labels[indices],
            classes=names,
            paths=[source.paths[index] for index in indices.tolist()],
            fingerprint=hashlib.sha256(f"{source.fingerprint} {what} {name}".encode()).hexdigest(),
        )
        for indices, names, what in (
            (np.flatnonzero(~chosen), classes, "without"),
            (np.flatnonzero(chosen), (), "only"),
        )
    )
    return others, left_out
