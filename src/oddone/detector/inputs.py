"""What people have at hand, a path, a PIL image, an array, becomes a batch of images."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from oddone.data.arrays import to_picture
from oddone.data.decode import BrokenImageError, central_square, decode, to_rgb, without_warnings
from oddone.data.stream import OneImage, check_kind
from oddone.errors import DataError

Images: TypeAlias = Tensor | OneImage | Sequence[OneImage]
"""One image, several, or a batch: [images, 3, size, size] of the network's size."""


def to_batch(images: Images, size: int) -> Tensor:
    """Return the images as a batch; what is not one already is resized as in training.

    A batch, a tensor or array of [images, 3, size, size], is returned as it is.
    """
    if isinstance(images, Tensor):
        return images
    if isinstance(images, np.ndarray) and images.ndim == 4:
        return _batch_of_array(images, size)
    several = [images] if isinstance(images, str | Path | Image.Image | np.ndarray) else images
    resized = []
    for place, image in enumerate(several):
        check_kind(image, place)
        resized.append(_resized(image, size))
    return torch.from_numpy(np.stack(resized)) if resized else torch.empty(0, 3, size, size)


def _batch_of_array(images: np.ndarray, size: int) -> Tensor:
    channels_last = images.shape[3] == 3 and images.shape[1] != 3
    if channels_last:
        return to_batch(list(images), size)
    try:
        return torch.from_numpy(np.require(images, requirements=("C", "W")))
    except (TypeError, ValueError) as error:  # no numbers, or none that torch knows
        raise DataError(f"images are {images.dtype}; pass uint8, or floats from 0 to 1") from error


def _resized(image: OneImage, size: int) -> np.ndarray:
    if isinstance(image, str | Path):
        return _decoded(Path(image), size)
    try:
        picture = to_picture(image) if isinstance(image, np.ndarray) else to_rgb(image)
    except BrokenImageError as error:
        raise DataError(f"a PIL image cannot be read: {error}; leave it out") from error
    return np.asarray(central_square(picture, size)).transpose(2, 0, 1)


def _decoded(path: Path, size: int) -> np.ndarray:
    if path.is_dir():
        raise DataError(f"{path} is a folder; score all of its images with detector.score(folder)")
    try:
        with without_warnings():
            return decode(path, size)
    except BrokenImageError as error:
        raise DataError(f"{path} cannot be read as an image: {error}; name another") from error
