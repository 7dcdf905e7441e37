"""Mahalanobis distance (Lee, Lee, Lee and Shin, NeurIPS 2018), in all layers or in the last.

"A Simple Unified Framework for Detecting Out-of-Distribution Samples and Adversarial Attacks":
one Gaussian per class with a covariance that all classes share.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from oddone.baselines.logits import classifier_of
from oddone.baselines.perturbation import check_magnitude, gradient_batch_size, perturb
from oddone.baselines.scorer import BaselineScorer
from oddone.data import ImageSet
from oddone.density import Gaussians, Moments
from oddone.detector import ViewEmbedder
from oddone.detector.fitting import (
    PosedEmbeddings,
    choose_evenly,
    fit_statistics,
    training_indices,
)
from oddone.encoders import PoolNet, ResNet, TrainedNetwork
from oddone.rng import stream
from oddone.scoring import ImageBatch, process_batches
from oddone.transforms import one_view
from oddone.verdicts import Verdicts

MOST_STANDARDISED = 2000  # images by which layers are made comparable: a gradient each is slow
SMALLEST_SPREAD = 1e-6


def mahalanobis(
    trained: TrainedNetwork,
    source: ImageSet,
    *,
    indices: Int[np.ndarray, " some"] | None = None,
    magnitude: float = 0.0014,
) -> BaselineScorer:
    """Return the scorer by squared distances to the nearest class, in all stages of the encoder.

    Each layer's score is standardised on training images, and the mean over layers taken. The
    original learns the layers' weights from OOD images, and so knows what it will be tested on;
    here no method does. The label is the nearest class in the last layer. An encoder of your own
    has one layer, its features.

    Parameters
    ----------
    trained
        A network.
    source
        The images that it was trained on.
    indices
        Which of them were trained on; all by default.
    magnitude
        How far every pixel is moved towards the nearest class.

    Examples
    --------
    >>> from dataclasses import replace
    >>> import oddone
    >>> from oddone.baselines import mahalanobis
    >>> from oddone.presets import smoke
    >>> from oddone.scoring import score_images
    >>> detector = oddone.train("fashion:known", replace(smoke(), objective="cross-entropy"))
    >>> images = oddone.load("fashion:known")
    >>> scorer = mahalanobis(detector.embedder.trained, images)
    >>> len(score_images(scorer, oddone.load("fashion:unseen#test")).scores)
    400

    """
    check_magnitude(magnitude)
    indices = training_indices(trained, source, indices)
    embedder = ViewEmbedder(trained, one_view)
    layers = Layers(embedder, _fitted(embedder, source, indices), magnitude)
    batch_size = gradient_batch_size(embedder)
    chosen = choose_evenly(
        source.labels[indices], MOST_STANDARDISED, generator=stream(0, "references")
    )
    normal = torch.cat(
        [
            batch.result
            for batch in process_batches(
                lambda images: layers.scores(embedder.prepare(images)),
                source,
                size=trained.image_size,
                batch_size=batch_size,
                indices=indices[chosen],
            )
            if batch.result is not None
        ]
    )
    centre = normal.mean(dim=0)
    spread = normal.std(dim=0, correction=0).clamp(min=SMALLEST_SPREAD)

    def score_batch(images: ImageBatch) -> Verdicts:
        rows = embedder.prepare(images)
        standardised = (layers.scores(rows) - centre) / spread
        return Verdicts(standardised.mean(dim=1), layers.labels(rows))

    return BaselineScorer(score_batch, trained.image_size, batch_size)


def mds(
    trained: TrainedNetwork,
    source: ImageSet,
    *,
    indices: Int[np.ndarray, " some"] | None = None,
) -> BaselineScorer:
    """Return the scorer that OpenOOD calls MDS: squared distances by the last layer alone.

    Images are not perturbed, and the label is the classifier's.

    Parameters
    ----------
    trained
        A network that was trained with objective="cross-entropy".
    source
        The images that it was trained on.
    indices
        Which of them were trained on; all by default.

    Examples
    --------
    >>> from dataclasses import replace
    >>> import oddone
    >>> from oddone.baselines import mds
    >>> from oddone.presets import smoke
    >>> from oddone.scoring import score_images
    >>> detector = oddone.train("fashion:known", replace(smoke(), objective="cross-entropy"))
    >>> images = oddone.load("fashion:known")
    >>> scorer = mds(detector.embedder.trained, images)
    >>> len(score_images(scorer, oddone.load("fashion:unseen#test")).scores)
    400

    """
    classifier, embedder = classifier_of(trained), ViewEmbedder(trained, one_view)
    indices = training_indices(trained, source, indices)

    @torch.no_grad()
    def features_of(images: ImageBatch) -> Float[Tensor, "images dim"]:
        features: Tensor = trained.network.encoder(embedder.prepare(images))
        return features

    def embed(images: ImageBatch) -> dict[str, PosedEmbeddings]:
        features = torch.cat([features_of(batch) for batch in images.split(embedder.batch_size)])
        return {"features": PosedEmbeddings(features[None], one_view.poses)}

    statistics = fit_statistics(embed, trained, source, indices, moments_of=["features"])
    gaussians = _tied_gaussians(statistics.moments["features"], embedder)

    @torch.no_grad()
    def score_batch(images: ImageBatch) -> Verdicts:
        features = features_of(images)
        scores = gaussians.distances(features).square().amin(dim=1)
        return Verdicts(scores, classifier(features).argmax(dim=1))

    return BaselineScorer(score_batch, trained.image_size, embedder.batch_size)


@dataclass(frozen=True, eq=False)
class Layers:
    """The Gaussians of every layer, and how far images are moved towards them."""

    embedder: ViewEmbedder
    gaussians: list[Gaussians]
    magnitude: float

    @torch.no_grad()
    def scores(
        self, rows: Float[Tensor, "images 3 height width"]
    ) -> Float[Tensor, "images layers"]:
        """Return each layer's squared distance, of the images moved towards its nearest class."""
        measures = [partial(self.nearest, layer) for layer in range(len(self.gaussians))]
        scores = [nearest(perturb(rows, nearest, self.magnitude)) for nearest in measures]
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
        encoder = self.embedder.trained.network.encoder
        features = next(islice(layer_features(encoder, rows), layer, None))
        return self.gaussians[layer].distances(features)


def layer_features(
    encoder: nn.Module, rows: Float[Tensor, "rows 3 height width"]
) -> Iterator[Float[Tensor, "rows dim"]]:
    """Yield the mean over the pixels of each stage's maps, or all that is known: the features."""
    if isinstance(encoder, ResNet):
        maps, stages = encoder.stem(rows), encoder.stages
    elif isinstance(encoder, PoolNet):
        maps, stages = encoder.activation(encoder.patches(rows)), encoder.blocks
    else:
        yield encoder(rows)
        return
    for stage in stages:
        maps = stage(maps)
        yield maps.mean(dim=(2, 3))


def _fitted(
    embedder: ViewEmbedder, source: ImageSet, indices: Int[np.ndarray, " some"]
) -> list[Gaussians]:
    """Return the Gaussians of every layer, in float32 on the network's device."""
    trained, encoder = embedder.trained, embedder.trained.network.encoder
    black = torch.zeros(1, 3, trained.image_size, trained.image_size, dtype=torch.uint8)
    with torch.no_grad():
        n_layers = sum(1 for _ in layer_features(encoder, embedder.prepare(black)))

    @torch.no_grad()
    def embed_batch(images: ImageBatch) -> list[Tensor]:
        return list(layer_features(encoder, embedder.prepare(images)))

    def embed(images: ImageBatch) -> dict[int, PosedEmbeddings]:
        batches = [embed_batch(batch) for batch in images.split(embedder.batch_size)]
        layers = [torch.cat(layer) for layer in zip(*batches, strict=True)]
        return {
            number: PosedEmbeddings(layer[None], one_view.poses)
            for number, layer in enumerate(layers)
        }

    statistics = fit_statistics(embed, trained, source, indices, moments_of=range(n_layers))
    return [_tied_gaussians(moments, embedder) for moments in statistics.moments.values()]


def _tied_gaussians(moments: Moments, embedder: ViewEmbedder) -> Gaussians:
    gaussians = Gaussians.fit(moments, "oas", tied=True, names=embedder.trained.classes)
    return gaussians.to(embedder.device, torch.float32)
