"""Mahalanobis distance in all layers (Lee, Lee, Lee and Shin, NeurIPS 2018).

"A Simple Unified Framework for Detecting Out-of-Distribution Samples and Adversarial Attacks":
one Gaussian per class with a covariance that all classes share, in every layer.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn

from oddone.baselines.judging import Judge, Judged, in_batches
from oddone.baselines.normal_images import normal_images
from oddone.baselines.perturbation import check_magnitude, images_at_once, perturbed
from oddone.data import ImageSet
from oddone.density import Gaussians, Moments
from oddone.detector import ViewEmbedder
from oddone.detector.fitting import IMAGES_PER_MOMENTS
from oddone.detector.references import choose_evenly
from oddone.detector.view_embedder import batches_of
from oddone.encoders import ResNet
from oddone.training import TrainedNetwork
from oddone.transforms import one_view

MOST_STANDARDISED = 2000  # images by which layers are made comparable: a gradient each is slow
SMALLEST_SPREAD = 1e-6


def mahalanobis(
    trained: TrainedNetwork,
    source: ImageSet,
    *,
    indices: Int[np.ndarray, " some"] | None = None,
    magnitude: float = 0.0014,
) -> Judge:
    """Return the judge by squared distances to the nearest class, in all stages of the encoder.

    Each layer's score is standardised on training images, and the mean over layers taken. The
    original learns the layers' weights from OOD images, and so knows what it will be tested on;
    here no method does. The label is the nearest class in the last layer. An encoder of your own
    has one layer, its features.
    """
    check_magnitude(magnitude)
    indices = normal_images(trained, source, indices)
    encoder = ViewEmbedder(trained, one_view, "features")
    layers = Layers(encoder, _fitted(encoder, source, indices), magnitude)
    at_once = images_at_once(encoder)
    chosen = indices[
        choose_evenly(source.labels[indices], MOST_STANDARDISED, trained.settings.seed)
    ]
    normal = torch.cat(
        [
            layers.scores(layers.rows(batch))
            for _, batch in batches_of(source.images, chosen, at_once)
        ]
    )
    centre = normal.mean(dim=0)
    spread = normal.std(dim=0, correction=0).clamp(min=SMALLEST_SPREAD)

    def judge_batch(images: UInt8[Tensor, "images 3 height width"]) -> Judged:
        rows = layers.rows(images)
        standardised = (layers.scores(rows) - centre) / spread
        return Judged(standardised.mean(dim=1), layers.labels(rows))

    return in_batches(judge_batch, at_once)


@dataclass(frozen=True, eq=False)
class Layers:
    """The Gaussians of every layer, and how far images are moved towards them."""

    encoder: ViewEmbedder
    gaussians: list[Gaussians]
    magnitude: float

    def rows(
        self, images: UInt8[Tensor, "images 3 height width"]
    ) -> Float[Tensor, "images 3 height width"]:
        """Return the images as the encoder takes them."""
        return self.encoder.prepared(images)

    @torch.no_grad()
    def scores(
        self, rows: Float[Tensor, "images 3 height width"]
    ) -> Float[Tensor, "images layers"]:
        """Return each layer's squared distance, of the images moved towards its nearest class."""
        measures = [partial(self.nearest, layer) for layer in range(len(self.gaussians))]
        scores = [nearest(perturbed(rows, nearest, self.magnitude)) for nearest in measures]
        return torch.stack(scores, dim=1)

    @torch.no_grad()
    def labels(self, rows: Float[Tensor, "images 3 height width"]) -> Int[Tensor, " images"]:
        """Return the nearest class in the last layer."""
        return self.distances(len(self.gaussians) - 1, rows).argmin(dim=1)

    def nearest(
        self, layer: int, rows: Float[Tensor, "images 3 height width"]
    ) -> Float[Tensor, " images"]:
        """Return the squared distance to the nearest class in a layer."""
        return self.distances(layer, rows).square().min(dim=1).values

    def distances(
        self, layer: int, rows: Float[Tensor, "images 3 height width"]
    ) -> Float[Tensor, "images classes"]:
        """Return the distances to each class in a layer; the layers above it are not computed."""
        body = self.encoder.trained.network.encoder.body
        features = next(islice(layer_features(body, rows), layer, None))
        return self.gaussians[layer].distances(features)


def layer_features(
    body: nn.Module, rows: Float[Tensor, "rows 3 height width"]
) -> Iterator[Float[Tensor, "rows dim"]]:
    """Yield the mean over the pixels of each stage's maps, or all that is known: the features."""
    if not isinstance(body, ResNet):
        yield body(rows)
        return
    maps = body.stem(rows)
    for stage in body.stages:
        maps = stage(maps)
        yield maps.mean(dim=(2, 3))


@torch.no_grad()
def _fitted(
    encoder: ViewEmbedder, source: ImageSet, indices: Int[np.ndarray, " some"]
) -> list[Gaussians]:
    """Return the Gaussians of every layer, in float32 on the network's device."""
    trained = encoder.trained
    body, classes = trained.network.encoder.body, trained.classes
    moments: list[Moments] = []
    for start in range(0, len(indices), IMAGES_PER_MOMENTS):
        part = indices[start : start + IMAGES_PER_MOMENTS]
        labels = torch.from_numpy(source.labels[part])
        batches = [
            list(layer_features(body, encoder.prepared(batch)))
            for _, batch in batches_of(source.images, part, encoder.images_at_once)
        ]
        here = [
            Moments.of(torch.cat(layer).cpu(), labels, len(classes))
            for layer in zip(*batches, strict=True)
        ]
        moments = [a + b for a, b in zip(moments, here, strict=True)] if moments else here
    return [
        Gaussians.fit(of_layer, "oas", tied=True, names=classes).to(encoder.device, torch.float32)
        for of_layer in moments
    ]
