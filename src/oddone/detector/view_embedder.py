"""From images to the embeddings of their views: what fitting and judging have in common."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor
from torch.nn.functional import normalize

from oddone.errors import DataError
from oddone.training import TrainedNetwork
from oddone.transforms import MakeViews

Space = Literal["head", "features"]
Pixels = UInt8[Tensor, "images 3 height width"] | Float[Tensor, "images 3 height width"]

# How many pixels of views the network sees at a time: 1,024 views of 32 x 32.
PIXELS_AT_ONCE = 2**20


class EncodedViews(NamedTuple):
    """What the network makes of the views of some images."""

    embeddings: Float[Tensor, "views images dim"]
    """Of unit length, in the space that was asked for."""
    poses: Int[Tensor, " views"]
    features: Float[Tensor, "views images feature_dim"]
    """Of unit length, for naming classes."""
    heads: Float[Tensor, "images head_dim"]
    """The upright views in the head's space, for finding neighbours."""


@dataclass(frozen=True, eq=False)
class ViewEmbedder:
    """A trained network, the views it is shown, and the space in which they are compared."""

    trained: TrainedNetwork
    views: MakeViews
    space: Space

    @property
    def device(self) -> torch.device:
        return next(self.trained.network.parameters()).device

    @property
    def poses(self) -> Int[Tensor, " views"]:
        """The pose of each view."""
        return self.views(torch.zeros(1, 3, 1, 1)).poses

    @property
    def images_at_once(self) -> int:
        """How many images make a good batch."""
        return max(1, PIXELS_AT_ONCE // (len(self.poses) * self.trained.image_size**2))

    @torch.no_grad()
    def __call__(self, images: Pixels) -> EncodedViews:
        """Return the embeddings of all views of a batch that is small enough for one pass."""
        self.check(images)
        views = self.views(images.to(self.device))  # bytes are faster to move than floats
        rows = _as_floats(views.images.flatten(0, 1))
        features, heads = (
            normalize(numbers.float(), dim=1).unflatten(0, views.images.shape[:2])
            for numbers in self.trained.network(rows)
        )
        chosen = features if self.space == "features" else heads
        return EncodedViews(chosen, views.poses, features, heads[0])

    def prepared(self, images: Pixels) -> Float[Tensor, "images 3 size size"]:
        """Return the images as floats from 0 to 1 on the network's device, channels last."""
        self.check(images)
        return _as_floats(images.to(self.device))

    def check(self, images: Tensor) -> None:
        """Raise a DataError unless these are images of the network's size, in bytes or 0 to 1."""
        size = self.trained.image_size
        if images.ndim != 4 or images.shape[1:] != (3, size, size):
            raise DataError(
                f"images have shape {tuple(images.shape)}; this network takes [images, 3, {size}, "
                f"{size}], and detector.score(source) resizes what it reads"
            )
        if not images.is_floating_point() and images.dtype != torch.uint8:
            raise DataError(f"images are {images.dtype}; pass uint8, or floats from 0 to 1")
        if images.is_floating_point() and len(images) > 0:
            low, high = images.aminmax()
            if not (low >= 0 and high <= 1):  # NaN is neither
                raise DataError(
                    f"images range from {low:g} to {high:g}; pass floats from 0 to 1, or uint8"
                )


def _as_floats(pixels: Pixels) -> Float[Tensor, "rows 3 height width"]:
    """Return pixels as floats from 0 to 1, in the layout that convolutions like: channels last."""
    # Faster than `contiguous`, above all for bytes.
    rows = torch.stack(pixels.unbind(1), dim=-1)
    floats = rows.float().div_(255) if rows.dtype == torch.uint8 else rows.float()
    return floats.permute(0, 3, 1, 2)


def as_tensor(images: Tensor | np.ndarray) -> Tensor:
    """Return an array as a tensor, without a copy where torch can do without."""
    if isinstance(images, Tensor):
        return images
    try:
        return torch.from_numpy(np.require(images, requirements=("C", "W")))
    except (TypeError, ValueError) as error:  # no numbers, or none that torch knows
        raise DataError(f"images are {images.dtype}; pass uint8, or floats from 0 to 1") from error


def batches_of(
    images: UInt8[np.ndarray, "images 3 height width"],
    indices: Int[np.ndarray, " some"],
    at_once: int,
) -> Iterator[tuple[Int[np.ndarray, " batch"], UInt8[Tensor, "batch 3 height width"]]]:
    """Yield some of the images a batch at a time, with their numbers; a batch is all in memory."""
    for start in range(0, len(indices), at_once):
        numbers = indices[start : start + at_once]
        yield numbers, torch.from_numpy(np.ascontiguousarray(images[numbers]))
