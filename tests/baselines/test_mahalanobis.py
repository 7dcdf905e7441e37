import math
from importlib import import_module

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from toys import features, normal, odd, quadrants, score, sighted, trained_with

import oracles
from oddone.baselines import mahalanobis, mds
from oddone.baselines.mahalanobis import Layers, layer_features
from oddone.data import ImageSet
from oddone.detector import ViewEmbedder
from oddone.encoders import PoolNet, TrainedNetwork, resnet10
from oddone.errors import DataError, SettingsError
from oddone.transforms import one_view
from runs import tiny_source

MODULE = import_module("oddone.baselines.mahalanobis")


def resnet() -> TrainedNetwork:
    """Return a random network of four stages."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        encoder = resnet10(2)
    return trained_with(encoder, size=16, classes=tiny_source().classes)


def tied(rows: Tensor, labels: np.ndarray) -> tuple[list[list[float]], list[list[float]]]:
    """Return the class means, and the covariance around them (Lee et al., Eq. 1), shrunk by OAS."""
    means, dim, images = [], rows.shape[1], len(rows)
    covariance = [[0.0] * dim for _ in range(dim)]
    for label in sorted(set(labels.tolist())):
        members = rows[torch.from_numpy(labels == label)].tolist()
        mean, own = oracles.mean_and_covariance(members)
        means.append(mean)
        for a in range(dim):
            for b in range(dim):
                covariance[a][b] += own[a][b] * len(members) / images
    sphere = sum(covariance[a][a] for a in range(dim)) / dim
    square = sum(c * c for row in covariance for c in row) / dim**2
    share = min(1.0, (square + sphere**2) / ((images + 1) * (square - sphere**2 / dim)))
    for a in range(dim):
        for b in range(dim):
            covariance[a][b] *= 1 - share
        covariance[a][a] += share * sphere
    return means, covariance


def squared(row: list[float], mean: list[float], covariance: list[list[float]]) -> float:
    return oracles.mahalanobis(row, mean, covariance) ** 2


def standardised(layers: list[list[float]], normal_layers: list[list[float]]) -> list[float]:
    """Return the mean over layers of the scores, each less its mean and over its spread."""
    scores = [0.0] * len(layers[0])
    for layer, known in zip(layers, normal_layers, strict=True):
        mean = sum(known) / len(known)
        spread = math.sqrt(sum((k - mean) ** 2 for k in known) / len(known))
        for image, own in enumerate(layer):
            scores[image] += (own - mean) / spread / len(layers)
    return scores


# --- All layers -------------------------------------------------------------------------------


def test_without_perturbation_the_score_is_the_mean_over_the_stages() -> None:
    trained, source, new = resnet(), tiny_source(), tiny_source(6, seed=5)
    encoder = trained.network.encoder
    layers, normal_layers = [], []
    with torch.no_grad():
        stages = zip(
            layer_features(encoder, torch.from_numpy(source.images).float() / 255),
            layer_features(encoder, torch.from_numpy(new.images).float() / 255),
            strict=True,
        )
        for known, rows in stages:
            means, covariance = tied(known.double(), source.labels)
            for into, of in ((normal_layers, known), (layers, rows)):
                into.append(
                    [min(squared(row, mean, covariance) for mean in means) for row in of.tolist()]
                )
    ours = score(mahalanobis(trained, source, magnitude=0.0), new.images).scores
    torch.testing.assert_close(
        ours.tolist(), standardised(layers, normal_layers), rtol=2e-3, atol=2e-3
    )


def test_the_perturbation_is_the_step_of_lee_et_al() -> None:
    """For features that are the pixels' means, the gradient is the features' own, spread out."""
    trained, source, magnitude = sighted(), normal(), 0.01
    means, covariance = tied(features(trained, source.images), source.labels)
    precision = torch.linalg.inv(torch.tensor(covariance, dtype=torch.float64))

    def nearest_after_the_step(row: list[float]) -> float:
        nearest = min(means, key=lambda mean: squared(row, mean, covariance))
        gradient = precision @ (torch.tensor(row) - torch.tensor(nearest)).double()
        moved = [
            value - magnitude * math.copysign(1, g) for value, g in zip(row, gradient, strict=True)
        ]
        return min(squared(moved, mean, covariance) for mean in means)

    known, new = (
        [nearest_after_the_step(row) for row in features(trained, images).tolist()]
        for images in (source.images, odd())
    )
    ours = score(mahalanobis(trained, source, magnitude=magnitude), odd()).scores
    torch.testing.assert_close(ours.tolist(), standardised([new], [known]), rtol=1e-3, atol=1e-3)


def test_in_every_layer_images_move_towards_their_nearest_class() -> None:
    embedder, source = ViewEmbedder(resnet(), one_view), tiny_source()
    gaussians = MODULE._fitted(embedder, source, np.arange(len(source)))
    still, moved = (Layers(embedder, gaussians, magnitude) for magnitude in (0.0, 1e-3))
    rows = embedder.prepare(torch.from_numpy(source.images))
    nearer = moved.scores(rows) < still.scores(rows)
    assert nearer.shape == (48, 4)
    assert nearer.float().mean(dim=0).min() > 0.95  # a step may be too long for a very near image


def test_the_scale_of_scores_is_learned_from_some_images_if_there_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(MODULE, "MOST_STANDARDISED", 30)
    some = score(mahalanobis(sighted(), normal()), odd()).scores
    monkeypatch.undo()
    ratio = some / score(mahalanobis(sighted(), normal()), odd()).scores
    assert ratio.std() < 0.01  # the order of images stays as it is
    assert 0.5 < ratio.mean() < 2
    assert ratio.mean() != 1


def test_the_label_is_the_nearest_class_of_the_last_layer() -> None:
    trained, source, new = resnet(), tiny_source(), tiny_source(30, seed=5)
    means, covariance = tied(features(trained, source.images), source.labels)
    expected = []
    for row in features(trained, new.images).tolist():
        distances = [squared(row, mean, covariance) for mean in means]
        expected.append(distances.index(min(distances)))
    assert score(mahalanobis(trained, source), new.images).labels.tolist() == expected


def test_the_last_layer_is_the_features() -> None:
    trained = resnet()
    rows = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        layers = list(layer_features(trained.network.encoder, rows))
        torch.testing.assert_close(layers[-1], trained.network(rows).features)
    assert [layer.shape[1] for layer in layers] == [2, 4, 8, 16]


def test_every_block_of_a_poolnet_is_a_layer() -> None:
    encoder = PoolNet((3, 4, 5)).eval()
    rows = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        layers = list(layer_features(encoder, rows))
        maps = encoder.blocks[0](encoder.activation(encoder.patches(rows)))
        torch.testing.assert_close(layers[0], maps.flatten(2).mean(dim=2))
        torch.testing.assert_close(layers[1], encoder(rows)[:, 5:])  # the features' second part
    assert [layer.shape[1] for layer in layers] == [3, 4, 5]


def test_an_invertible_change_of_the_features_hardly_matters() -> None:
    """Mahalanobis distances do not change; what little does is the shrinkage."""
    mix = nn.Linear(12, 12)
    with torch.no_grad():
        mix.weight.copy_(torch.eye(12) + 0.1 * torch.ones(12, 12))
    changed = trained_with(nn.Sequential(*quadrants(), mix))
    plain, mixed = (
        score(mahalanobis(trained, normal(300)), odd()).scores for trained in (sighted(), changed)
    )
    torch.testing.assert_close(plain, mixed, rtol=0.1, atol=0.0)


def test_batches_of_training_images_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    new = tiny_source(6, seed=5).images
    at_once = score(mahalanobis(resnet(), tiny_source()), new).scores
    monkeypatch.setattr("oddone.detector.fitting.IMAGES_PER_MOMENTS", 7)
    in_parts = score(mahalanobis(resnet(), tiny_source()), new).scores
    torch.testing.assert_close(in_parts, at_once, rtol=1e-3, atol=1e-3)


def test_images_all_alike_in_their_distance_still_give_numbers() -> None:
    source = normal(6)
    twins = ImageSet(
        np.concatenate([source.images[:1]] * 2),
        np.zeros(2, np.int64),
        ("red",),
        ["a", "b"],
        "twins",
    )
    trained = trained_with(quadrants(), classes=("red",))
    with pytest.raises(DataError, match="2 images, whose covariance in 12 dimensions is singular"):
        mahalanobis(trained, twins)
    twins.images[1] += 3
    assert score(mahalanobis(trained, twins, magnitude=0.0), odd()).scores.isfinite().all()


def test_a_step_that_no_pixel_can_make_is_refused() -> None:
    with pytest.raises(SettingsError, match="magnitude=-0.5: choose it from 0"):
        mahalanobis(sighted(), normal(), magnitude=-0.5)


# --- The last layer alone ---------------------------------------------------------------------


def test_mds_is_the_least_squared_distance_in_the_last_layer() -> None:
    for trained, source, new in (
        (resnet(), tiny_source(), tiny_source(30, seed=5).images),
        (sighted(), normal(), odd()),
    ):
        means, covariance = tied(features(trained, source.images), source.labels)
        expected = [
            min(squared(row, mean, covariance) for mean in means)
            for row in features(trained, new).tolist()
        ]
        ours = score(mds(trained, source), new).scores
        torch.testing.assert_close(ours.tolist(), expected, rtol=2e-3, atol=2e-3)


def test_the_label_of_mds_is_the_classifier_s_not_the_nearest_class() -> None:
    trained, source = sighted(), normal()
    classifier = trained.network.classifier
    assert classifier is not None
    with torch.no_grad():
        classifier.weight.copy_(classifier.weight.roll(1, dims=0))  # calls red green, green blue
    verdicts = score(mds(trained, source), source.images)
    assert verdicts.labels.tolist() == [(label + 1) % 3 for label in source.labels]
    assert score(mahalanobis(trained, source), source.images).labels.tolist() == list(source.labels)


def test_mds_of_one_layer_is_mahalanobis_before_it_is_standardised() -> None:
    trained, source, new = sighted(), normal(), odd()
    known, plain = (score(mds(trained, source), images).scores for images in (source.images, new))
    standard = score(mahalanobis(trained, source, magnitude=0.0), new).scores
    expected = (plain - known.mean()) / known.std(correction=0)
    torch.testing.assert_close(standard, expected, rtol=1e-4, atol=1e-4)


def test_for_mds_batches_of_training_images_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    new = tiny_source(6, seed=5).images
    at_once = score(mds(resnet(), tiny_source()), new).scores
    monkeypatch.setattr("oddone.detector.fitting.IMAGES_PER_MOMENTS", 7)
    in_parts = score(mds(resnet(), tiny_source()), new).scores
    torch.testing.assert_close(in_parts, at_once, rtol=1e-3, atol=1e-3)
