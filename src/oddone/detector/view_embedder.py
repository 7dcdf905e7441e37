"""From images to the embeddings of their views: what fitting and scoring have in common."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn
from torch.nn.functional import normalize

from oddone.device import map_in_threads
from oddone.encoders import Encoded, TrainedNetwork
from oddone.encoders.fold import fold_batch_norm
from oddone.errors import DataError
from oddone.features import as_floats
from oddone.transforms import ViewSet

Space = Literal["head", "features"]
"""Where views are compared: the output of the head (embeddings), or that of the encoder."""
Pixels = UInt8[Tensor, "images 3 height width"] | Float[Tensor, "images 3 height width"]

# How many pixels of views are in work at a time: 1,024 views of 32 x 32, or 10 of 224 x 224. The
# networks for large images make more of each pixel; with fewer at a time they take less memory,
# and less time too, as more of it stays in the processor's cache.
PIXELS_AT_ONCE = 2**20
PIXELS_OF_LARGE_IMAGES_AT_ONCE = 2**19
LARGEST_SMALL_IMAGE = 64


class EmbeddedViews(NamedTuple):
    """What the network makes of the views of some images."""

    features: Float[Tensor, "views images feature_dim"]
    """Output of the encoder, of unit length."""
    embeddings: Float[Tensor, "views images head_dim"]
    """Output of the head, of unit length."""
    logits: Float[Tensor, "views images classes"] | None
    """Output of the classifier that was trained with the network, if there is one."""

    def in_space(self, space: Space) -> Float[Tensor, "views images dim"]:
        """Return what is compared in a space."""
        return self.features if space == "features" else self.embeddings

    @staticmethod
    def of(encoded: Encoded, classifier: nn.Module | None, shape: torch.Size) -> "EmbeddedViews":
        """Return what a network and its classifier make of rows, which are views of images."""
        outputs, embeddings = (each.float() for each in encoded)
        return EmbeddedViews(
            normalize(outputs, dim=1).unflatten(0, shape),
            normalize(embeddings, dim=1).unflatten(0, shape),
            None if classifier is None else classifier(outputs).unflatten(0, shape),
        )

    @staticmethod
    def concatenate(parts: "list[EmbeddedViews]") -> "EmbeddedViews":
        """Return the views of the images of all parts."""
        features, embeddings = (
            torch.cat(each, dim=1) for each in zip(*(part[:2] for part in parts), strict=True)
        )
        logits = [part.logits for part in parts if part.logits is not None]
        return EmbeddedViews(features, embeddings, torch.cat(logits, dim=1) if logits else None)


@dataclass(frozen=True, eq=False)
class ViewEmbedder:
    """A trained network and the views of an image that it is shown."""

    trained: TrainedNetwork
    views: ViewSet

    @property
    def device(self) -> torch.device:
        return self.trained.device

    @cached_property
    def poses(self) -> Int[Tensor, " views"]:
        """The pose of each view, on the CPU."""
        return torch.tensor(self.views.poses)

    @cached_property
    def network(self) -> nn.Module:
        """The trained network as it is used: for evaluation alone, and faster for that."""
        return fold_batch_norm(self.trained.network, self.trained.image_size)

    @property
    def batch_size(self) -> int:
        """How many images make a good batch."""
        return max(1, self.rows_at_once // len(self.views))

    @property
    def rows_at_once(self) -> int:
        """How many views are in work at a time."""
        size = self.trained.image_size
        pixels = PIXELS_AT_ONCE if size <= LARGEST_SMALL_IMAGE else PIXELS_OF_LARGE_IMAGES_AT_ONCE
        return max(1, pixels // size**2)

    @property
    def images_per_pass(self) -> int:
        """How many images go through the network together: half, as two passes run at a time."""
        return max(1, self.batch_size // 2)

    def images_per_staged_pass(self, n_images: int) -> int:
        """Return how many of the images go together where each is shown few views first.

        There are two passes at least, as two run at a time; the larger they are, the more is left
        of them for later stages.
        """
        return max(1, min(self.rows_at_once // 4, (n_images + 1) // 2))

    def to(self, device: torch.device | str) -> "ViewEmbedder":
        """Return the embedder on another device; this one stays where it is."""
        return replace(self, trained=self.trained.to(device))

    @torch.no_grad()
    def __call__(self, images: Pixels, views: Sequence[int] | None = None) -> EmbeddedViews:
        """Return the embeddings of the views of a batch that is small enough for one pass.

        They are those of all views, or of the given numbers.
        """
        self.check(images)
        shown = self.views(images.to(self.device), views)  # bytes are faster to move than floats
        # All at once, but for images so large that the views of one are too many.
        parts = shown.flatten(0, 1).split(max(len(images), self.rows_at_once))
        encoded = [self.network(as_floats(part)) for part in parts]
        rows = Encoded(*(torch.cat(each) for each in zip(*encoded, strict=True)))
        return EmbeddedViews.of(rows, self.trained.network.classifier, shown.shape[:2])

    def embed(self, images: Pixels) -> EmbeddedViews:
        """Return the embeddings of all views of any number of images."""
        batches = torch.split(images, self.images_per_pass)
        return EmbeddedViews.concatenate(map_in_threads(self, batches, self.device))

    def prepare(self, images: Pixels) -> Float[Tensor, "images 3 size size"]:
        """Return the images as floats from 0 to 1 on the network's device, channels last."""
        self.check(images)
        return as_floats(images.to(self.device))

    def check(self, images: Tensor) -> None:
        """Raise a DataError unless these are images of the network's size, in bytes or 0 to 1."""
        size = self.trained.image_size
        if images.ndim != 4 or images.shape[1:] != (3, size, size):
            raise DataError(
                f"images have shape {tuple(images.shape)}; this network takes [images, 3, {size}, "
                f"{size}]. Paths, PIL images and arrays of [height, width, 3] are resized"
            )
        if not images.is_floating_point() and images.dtype != torch.uint8:
            raise DataError(f"images are {images.dtype}; pass uint8, or floats from 0 to 1")
        if images.is_floating_point() and len(images) > 0:
            low, high = images.aminmax()
            if not (low >= 0 and high <= 1):  # NaN is neither
                raise DataError(
                    f"images range from {low:g} to {high:g}; pass floats from 0 to 1, or uint8"
                )
