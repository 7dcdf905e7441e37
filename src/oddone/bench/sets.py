"""Which images a table is trained and measured on, and where they lie."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from oddone.data import ImageSet
from oddone.data.cifar import editions_in
from oddone.data.possible_schemes import possible_schemes
from oddone.detector.fitting import too_few_images
from oddone.errors import DataError, SettingsError
from oddone.evaluation import labels_by_name
from oddone.rng import stream

OOD_FOLDERS = {
    "lsun": "lsun",
    "lsun_fix": "lsun",
    "imagenet": "imagenet",
    "imagenet_fix": "imagenet",
    "tiny_imagenet": "tiny_imagenet",
    "tin": "tiny_imagenet",
    "scenes": "scenes",
    "textures": "textures",
    "texture": "textures",
    "dtd": "textures",
    "places365": "places365",
    "mnist": "mnist",
}
"""What folders and files of OOD images may be called, and which set that is."""


TEST = "test images"
"""What the test images are called beside the OOD sets."""


class ImageSample(NamedTuple):
    """Some images of a set, or all of them."""

    images: ImageSet
    of: ImageSet
    """The whole set."""


@dataclass(frozen=True, eq=False)
class BenchImages:
    """All images that a table is trained and measured on."""

    training: ImageSet
    test: ImageSample
    oods: Mapping[str, ImageSample]
    outliers: ImageSet | None = None

    def __post_init__(self) -> None:
        if self.test.of.fingerprint == self.training.fingerprint:
            raise DataError(
                f"the {len(self.training):,} test images are those to train on, which would then "
                f"be no test; give others"
            )
        labels_by_name(self.test.images, self.training.classes)  # raises where one is not known
        for label, name in enumerate(self.training.classes):
            images = (self.training.labels == label).sum()
            if images < 2:
                raise too_few_images(name, f"training images is {images}", 2)
        if TEST in self.oods:
            raise SettingsError(f"the OOD set {TEST!r} is called like the test; rename it")
        for name, sample in self.oods.items():
            if self.outliers is not None and sample.of.fingerprint == self.outliers.fingerprint:
                raise DataError(
                    f"the {len(self.outliers):,} outliers to train on are the images of {name}, "
                    f"which would then be no test; give others"
                )


class Found(NamedTuple):
    """What lies in a folder, in the notation of `oddone.data.load`."""

    ind: str | None
    oods: dict[str, str]


def sample(images: ImageSet, limit: int | None) -> ImageSample:
    """Return so many images, drawn at random but always the same, in their order; or all."""
    if limit is not None and limit < 1:
        raise SettingsError(f"limit={limit}: score at least 1 image of each set")
    if limit is None or limit >= len(images):
        return ImageSample(images, images)
    drawn = torch.randperm(len(images), generator=stream(0, "bench"))[:limit].sort().values.numpy()
    some = replace(
        images,
        images=np.ascontiguousarray(images.images[drawn]),
        labels=images.labels[drawn],
        paths=[images.paths[number] for number in drawn],
        fingerprint=f"{images.fingerprint}, {limit} of {len(images)}",
    )
    return ImageSample(some, images)


def find_sets(folders: tuple[Path, ...]) -> Found:
    """Return CIFAR-10 and the OOD sets that lie in the folders; of two, the first.

    OOD images are known by the names of their folders or .npz files. In a folder `ood` every name
    is one.
    """
    found = Found(None, {})
    for folder in folders:
        if not folder.is_dir():
            raise DataError(f"--data {folder}: there is no such folder")
        for place in (folder, *_folders_in(folder)):
            schemes = [edition.scheme for edition in editions_in(place)]
            if "cifar10" in schemes and found.ind is None:
                found = found._replace(ind=f"cifar10:{place}")
            if "cifar100" in schemes:
                found.oods.setdefault("cifar100", f"cifar100:{place}#test")
            if (place / "test_32x32.mat").is_file():
                found.oods.setdefault("svhn", f"svhn:{place}#test")
        for name, place in (*_named(folder, OOD_FOLDERS), *_named(folder / "ood", None)):
            found.oods.setdefault(name, str(place))
    return found


def _named(folder: Path, names: Mapping[str, str] | None) -> Iterator[tuple[str, Path]]:
    """Yield the images in a folder that have one of these names, or any."""
    if not folder.is_dir():
        return
    for place in sorted(folder.iterdir()):
        given = place.name.removesuffix(".npz").lower().replace("-", "_")
        is_set = place.suffix == ".npz" or (place.is_dir() and bool(possible_schemes(place)))
        if is_set and (names is None or given in names):
            yield OOD_FOLDERS.get(given, given), place


def _folders_in(folder: Path) -> list[Path]:
    return sorted(place for place in folder.iterdir() if place.is_dir())
