"""The graph of a detector before it becomes a file: it must say what the detector says."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from exports import calibrated, check_same, new_images, untrained

from oddone.detector import Detector, DetectorSettings
from oddone.detector.adaptive import ViewStage
from oddone.detector.rules import Rule, StandardisedRule
from oddone.detector.settings import Classifier
from oddone.detector.view_embedder import Space
from oddone.encoders import TrainedNetwork
from oddone.export.graph import DetectorGraph
from oddone.fusion import FUSIONS, average
from oddone.transforms import moved_and_mirrored, one_view, rotations
from runs import tiny_source


@pytest.fixture(scope="module")
def trained() -> TrainedNetwork:
    return untrained(tiny_source(images=90), class_weight=1.0)  # with a classifier of its own


def check_graph(detector: Detector, *, fixed_size: bool = True) -> None:
    images = new_images()
    with torch.no_grad():
        outputs = DetectorGraph(detector, fixed_size=fixed_size)(torch.from_numpy(images))
    check_same(outputs, detector(list(images)))


@pytest.mark.parametrize(
    ("fusion", "space", "classifier"),
    [
        ("average", "head", "linear"),
        ("nearest", "features", "nearest"),
        ("harmonic", "features", "linear"),
        ("harmonic", "head", "nearest"),
        ("view_weighted", "head", "nearest"),
        ("view_weighted", "features", "linear"),
    ],
)
def test_the_graph_says_what_the_detector_says(
    trained: TrainedNetwork, fusion: str, space: Space, classifier: Classifier
) -> None:
    settings = DetectorSettings(fuse=FUSIONS[fusion], space=space, classifier=classifier)
    check_graph(calibrated(trained, settings))


@pytest.mark.parametrize(
    ("rules", "classifier"),
    [
        (("energy",), "network"),
        (("neighbours",), "linear"),
        (("mean_embedding", "energy"), "linear"),
        (("distance", "mean_embedding", "energy", "neighbours"), "network"),
    ],
)
def test_every_rule_is_in_the_graph(
    trained: TrainedNetwork, rules: tuple[Rule, ...], classifier: Classifier
) -> None:
    settings = DetectorSettings(
        classifier=classifier, rules=tuple(StandardisedRule(rule, 0.5, 2.0) for rule in rules)
    )
    check_graph(calibrated(trained, settings))


@pytest.mark.parametrize(
    ("views", "tied"), [(one_view, False), (rotations, True), (moved_and_mirrored, True)]
)
def test_every_set_of_views_is_in_the_graph(
    trained: TrainedNetwork, views: object, tied: bool
) -> None:
    check_graph(calibrated(trained, DetectorSettings(views=views, tied=tied, fuse=average)))


def test_each_class_may_have_a_threshold_of_its_own(trained: TrainedNetwork) -> None:
    detector = calibrated(trained, DetectorSettings(), per_class=True)
    assert len(set(detector.thresholds or ())) > 1
    check_graph(detector)


def test_a_class_with_few_held_out_images_shares_the_threshold_of_all(
    trained: TrainedNetwork,
) -> None:
    detector = calibrated(trained, DetectorSettings(), per_class=True)
    calibration = detector.calibration
    assert calibration is not None
    rare = torch.where(torch.arange(90) < 88, torch.arange(90) % 2, 2)
    detector = replace(detector, calibration=replace(calibration, labels=rare))
    assert detector.calibration is not None
    assert detector.calibration.own_classes == [0, 1]
    check_graph(detector)


def test_the_graph_resizes_images_as_the_detector_does(trained: TrainedNetwork) -> None:
    detector = calibrated(trained)
    images = np.random.default_rng(0).integers(0, 256, (3, 21, 40, 3), dtype=np.uint8)
    with torch.no_grad():
        outputs = DetectorGraph(detector)(torch.from_numpy(images))
    check_same(outputs, detector(list(images)))


def test_a_detector_with_stages_is_exported_with_all_of_its_views(trained: TrainedNetwork) -> None:
    detector = calibrated(trained)
    hasty = replace(detector, stages=(ViewStage((0, 1), 1.0, 0.0, 0.0, 0.0),))
    images = new_images()
    with torch.no_grad():
        outputs = DetectorGraph(hasty, fixed_size=True)(torch.from_numpy(images))
    check_same(outputs, detector(list(images)))


def test_a_detector_without_a_threshold_has_scores_and_labels_only(trained: TrainedNetwork) -> None:
    detector = replace(calibrated(trained), calibration=None)
    with torch.no_grad():
        outputs = DetectorGraph(detector, fixed_size=True)(torch.from_numpy(new_images()))
    assert list(outputs) == ["score", "label", "probabilities"]


def test_a_score_that_is_no_number_is_anomalous(trained: TrainedNetwork) -> None:
    graph = DetectorGraph(calibrated(trained), fixed_size=True)
    assert graph.calibration is not None
    scores = torch.tensor([float("nan"), float("inf"), float("-inf"), 0.0])
    p_values, anomalous = graph.calibration(scores, torch.zeros(4, dtype=torch.long))
    assert anomalous.tolist() == [True, True, True, False]
    assert p_values.tolist() == [1 / 91, 1 / 91, 1 / 91, 1.0]
