"""Distances from one shared pass are those of a detector for each row."""

import numpy as np
import pytest
import torch
from benches import known, odd
from sklearn.covariance import OAS
from torch.nn.functional import normalize

from oddone.bench.distances import VIEWS, NumberOfViews, Representation, class_distances
from oddone.bench.scoring import ClassDistance, score_sets
from oddone.bench.tables import MSP
from oddone.data import ImageSet
from oddone.detector import Detector, DetectorSettings, Space
from oddone.encoders import TrainedNetwork, load_network
from oddone.fusion import Fuse, average, decide, harmonic, nearest
from oddone.progress import silent
from oddone.training import RunDirectory, train_network
from oddone.transforms import rotations_and_mirrors
from runs import tiny_settings

spaces = pytest.mark.parametrize("space", ["head", "features"])


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> TrainedNetwork:
    settings = tiny_settings(steps=2)
    run = RunDirectory.create(tmp_path_factory.mktemp("run") / "run", settings, {})
    train_network(known(60, seed=0), settings, run)
    return load_network(run.encoder_path)


@pytest.mark.parametrize("n_views", [1, 4])
def test_the_eight_views_begin_with_those_of_fewer(n_views: NumberOfViews) -> None:
    images = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(rotations_and_mirrors(images)[:n_views], VIEWS[n_views](images))
    assert rotations_and_mirrors.poses[:n_views] == VIEWS[n_views].poses
    assert not any(VIEWS[n_views].mirrored)


@spaces
@pytest.mark.parametrize(("n_views", "fuse"), [(1, average), (4, nearest), (8, harmonic)])
def test_scoring_by_distance_is_the_detector_of_the_paper(
    trained: TrainedNetwork, n_views: NumberOfViews, fuse: Fuse, space: Space
) -> None:
    training, images = known(60, seed=0), odd(12, seed=2)
    settings = DetectorSettings(views=VIEWS[n_views], fuse=fuse, space=space, classifier="nearest")
    expected = Detector.fit(trained, training, settings)(images.images)
    rules = [ClassDistance(n_views, fuse, space), ClassDistance(8, average, "head")]
    verdicts = score_sets(trained, training, {"odd": images}, rules, silent)[rules[0]]["odd"]
    torch.testing.assert_close(verdicts.scores, expected.scores, rtol=1e-3, atol=1e-3)
    assert verdicts.labels.equal(expected.labels)


def embedded(
    trained: TrainedNetwork, images: np.ndarray, pose: int, space: Space, *, mirrored: bool
) -> np.ndarray:
    """Return the embeddings of a view of each image, at unit length."""
    views = np.rot90(images[:, :, :, ::-1] if mirrored else images, pose, axes=(2, 3))
    with torch.no_grad():
        features, embeddings = trained.network(torch.from_numpy(views.copy()).float() / 255)
    return normalize(features if space == "features" else embeddings, dim=1).double().numpy()


def distances_by_hand(
    trained: TrainedNetwork,
    training: ImageSet,
    images: np.ndarray,
    space: Space,
    *,
    fitted_on_mirrors: bool,
) -> np.ndarray:
    """Return the distances of eight views to scikit-learn's Gaussian of their pose and each class.

    A Gaussian is fitted on the rotated training images, or on the mirrored ones, too.
    """
    distances = np.empty((8, len(images), 10))
    for pose in range(4):
        known_views, new_views = (
            [embedded(trained, shown, pose, space, mirrored=mirrored) for mirrored in (False, True)]
            for shown in (training.images, images)
        )
        for label in range(10):
            fitted = known_views if fitted_on_mirrors else known_views[:1]
            gaussian = OAS().fit(
                np.concatenate([rows[training.labels == label] for rows in fitted])
            )
            for view, rows in zip((pose, pose + 4), new_views, strict=True):
                distances[view, :, label] = np.sqrt(gaussian.mahalanobis(rows))
    return distances


@spaces
def test_gaussians_are_fitted_on_rotations_and_mirrors_only_measured(
    trained: TrainedNetwork, space: Space
) -> None:
    training, images = known(60, seed=0), odd(12, seed=2)
    eight, four = Representation(8, space), Representation(4, space)
    ours = class_distances(trained, training, {"odd": images}, [eight, four], silent)
    by_hand, other = (
        torch.from_numpy(
            distances_by_hand(
                trained, training, images.images, space, fitted_on_mirrors=fitted_on_mirrors
            )
        ).float()
        for fitted_on_mirrors in (False, True)
    )
    torch.testing.assert_close(ours[eight]["odd"], by_hand, rtol=5e-3, atol=5e-3)
    torch.testing.assert_close(ours[four]["odd"], by_hand[:4], rtol=5e-3, atol=5e-3)
    assert ((ours[eight]["odd"] - other).abs() > 0.05 * other).double().mean() > 0.5


def test_eight_views_asked_for_alone_are_those_asked_for_beside_fewer(
    trained: TrainedNetwork,
) -> None:
    training, sets = known(60, seed=0), {"odd": odd(12, seed=2)}
    eight, one = Representation(8, "head"), Representation(1, "head")
    alone = class_distances(trained, training, sets, [eight], silent)
    beside = class_distances(trained, training, sets, [one, eight, one], silent)
    assert alone[eight]["odd"].shape == (8, 12, 10)
    assert beside[one]["odd"].shape == (1, 12, 10)
    torch.testing.assert_close(alone[eight]["odd"], beside[eight]["odd"])
    torch.testing.assert_close(beside[one]["odd"], beside[eight]["odd"][:1], rtol=1e-3, atol=1e-3)


def test_blocks_of_images_make_no_difference(
    trained: TrainedNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    training, sets = known(60, seed=0), {"odd": odd(12, seed=2)}
    wanted = Representation(4, "head")
    at_once = class_distances(trained, training, sets, [wanted], silent)
    monkeypatch.setattr("oddone.bench.distances.IMAGES_AT_ONCE", 7)
    monkeypatch.setattr("oddone.detector.fitting.IMAGES_PER_MOMENTS", 7)
    in_parts = class_distances(trained, training, sets, [wanted], silent)
    torch.testing.assert_close(
        at_once[wanted]["odd"], in_parts[wanted]["odd"], rtol=1e-3, atol=1e-3
    )


def test_progress_is_told_to_the_last_image(trained: TrainedNetwork) -> None:
    told: list[tuple[int, int, str]] = []
    class_distances(
        trained,
        known(60, seed=0),
        {"odd": odd(12, seed=2)},
        [Representation(1, "head")],
        lambda *now: told.append(now),
    )
    assert told == [(60, 60, "fitting"), (12, 12, "odd")]


def test_verdicts_by_distance_are_the_nearest_class_after_fusion(trained: TrainedNetwork) -> None:
    training, sets = known(60, seed=0), {"odd": odd(12, seed=2), "normal": known(20, seed=1)}
    rules = [ClassDistance(), ClassDistance(4, nearest), ClassDistance(4, average)]
    representations = [rule.representation for rule in rules]
    distances = class_distances(trained, training, sets, representations, silent)
    verdicts = score_sets(trained, training, sets, [*rules], silent)
    for rule in rules:
        assert list(verdicts[rule]) == ["odd", "normal"]
        for name, ours in verdicts[rule].items():
            expected = decide(rule.fuse(distances[rule.representation][name]))
            torch.testing.assert_close(ours.scores, expected.scores)
            assert ours.labels.equal(expected.labels)


def test_rows_describe_how_they_score() -> None:
    assert MSP.description == "maximum softmax"
    assert ClassDistance().description == "distance to the nearest class by its Gaussian, head"
    assert ClassDistance(8, harmonic).description.endswith("head, 8 views, harmonic")
