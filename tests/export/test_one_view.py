"""Detectors whose views are given up: what is left must be honest about it."""

from dataclasses import replace

import pytest
import torch
from exports import untrained

from oddone.data import ImageSet
from oddone.detector import Detector, DetectorSettings
from oddone.detector.rules import StandardisedRule
from oddone.encoders import TrainedNetwork
from oddone.export.one_view import without_sei
from oddone.scoring import score_images
from oddone.transforms import one_view
from runs import tiny_source

pytestmark = pytest.mark.filterwarnings("ignore:.*held-out:oddone.errors.DataWarning")


@pytest.fixture(scope="module")
def held_out() -> ImageSet:
    return tiny_source(images=99, seed=4)


@pytest.fixture(scope="module")
def trained() -> TrainedNetwork:
    return untrained(tiny_source(images=90))


def test_the_threshold_is_that_of_the_scores_by_one_view(
    trained: TrainedNetwork, held_out: ImageSet
) -> None:
    detector = Detector.fit(trained, tiny_source(images=90)).calibrate(held_out, false_alarms=0.1)
    single = without_sei(detector, held_out)
    scores = score_images(single, held_out).scores
    assert single.threshold == scores.sort().values[-10].item() != detector.threshold
    assert single.embedder.views == one_view


def test_a_detector_of_one_view_stays_as_it_is(trained: TrainedNetwork, held_out: ImageSet) -> None:
    settings = DetectorSettings(views=one_view)
    detector = Detector.fit(trained, tiny_source(images=90), settings).calibrate(held_out)
    assert without_sei(detector, held_out) is detector


@pytest.mark.parametrize("tied", [False, True])
def test_what_is_left_is_what_would_be_fitted_with_one_view(
    trained: TrainedNetwork, held_out: ImageSet, tied: bool
) -> None:
    source = tiny_source(images=90)
    settings = DetectorSettings(classifier="nearest", tied=tied)
    single = without_sei(Detector.fit(trained, source, settings), held_out)
    if tied:  # by the covariance of all poses
        assert len(single.gaussians.mean) == 3
        return
    alone = Detector.fit(trained, source, replace(settings, views=one_view))
    torch.testing.assert_close(
        single(held_out.images).scores, alone(held_out.images).scores, rtol=1e-4, atol=1e-4
    )


def test_rules_are_standardised_by_the_scores_of_one_view(
    trained: TrainedNetwork, held_out: ImageSet
) -> None:
    rules = (StandardisedRule("distance", 5.0, 9.0), StandardisedRule("energy", -3.0, 9.0))
    detector = Detector.fit(trained, tiny_source(images=90), DetectorSettings(rules=rules))
    single = without_sei(detector, held_out)
    assert single.calibration is None
    assert abs(float(score_images(single, held_out).scores.mean())) < 1e-3
    assert {rule.rule for rule in single.rules} == {"distance", "energy"}
