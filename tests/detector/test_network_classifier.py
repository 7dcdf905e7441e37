"""Detectors of networks that were trained with a classifier."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from oddone.data import ImageSet
from oddone.detector import Detector, DetectorSettings
from oddone.detector.probe import NetworkClassifier
from oddone.detector.rules import StandardisedRule
from oddone.encoders import TrainedNetwork
from oddone.errors import ArtifactError, SettingsError
from oddone.training.initialise import initial_network
from oddone.transforms import ViewSet, moved_and_mirrored, rotations_and_mirrors
from runs import tiny_settings, tiny_source

UPRIGHT = ViewSet("upright", (0, 0), (False, True))


def trained(source: ImageSet, **changes: object) -> TrainedNetwork:
    """Return a network that has learned nothing, with the classifiers of these settings."""
    settings = tiny_settings(**changes)
    network = initial_network(source, settings).eval()
    return TrainedNetwork(
        network, settings.model, settings.rotations, source.classes, 16, source.fingerprint
    )


def by_itself(source: ImageSet) -> TrainedNetwork:
    return trained(source, objective="cross-entropy", rotations="none")


def beside_mcl(source: ImageSet) -> TrainedNetwork:
    return trained(source, class_weight=1.0)


@pytest.fixture
def source() -> ImageSet:
    return tiny_source(images=90)


def own_logits(network: TrainedNetwork, images: np.ndarray, views: ViewSet) -> torch.Tensor:
    """Return the logits of the views."""
    rows = views(torch.from_numpy(images)).float() / 255
    assert network.network.classifier is not None
    with torch.no_grad():
        return torch.stack(
            [network.network.classifier(network.network(view).features) for view in rows]
        )


def test_a_classifier_trained_alone_scores_by_its_own_energy_and_its_features(
    source: ImageSet,
) -> None:
    network = by_itself(source)
    detector = Detector.fit(network, source)
    assert detector.embedder.views == moved_and_mirrored
    assert [rule.rule for rule in detector.rules] == ["mean_embedding", "energy"]
    assert detector.space == "features"
    alone = replace(detector, rules=(StandardisedRule("energy"),))
    verdicts = alone(source.images)
    logits = own_logits(network, source.images, moved_and_mirrored)
    torch.testing.assert_close(
        verdicts.scores, -logits.logsumexp(dim=2).mean(dim=0), rtol=1e-4, atol=1e-5
    )
    expected = logits.log_softmax(dim=2).mean(dim=0).softmax(dim=1)
    assert verdicts.probabilities is not None
    torch.testing.assert_close(verdicts.probabilities, expected, rtol=1e-4, atol=1e-5)
    assert torch.equal(verdicts.labels, expected.argmax(dim=1))


def test_a_classifier_beside_mcl_labels_upright_views_and_leaves_the_score_to_mcl(
    source: ImageSet,
) -> None:
    network = beside_mcl(source)
    assert network.network.pose_classifier is None
    detector = Detector.fit(network, source)
    assert detector.embedder.views == rotations_and_mirrors
    verdicts, logits = detector(source.images), own_logits(network, source.images, UPRIGHT)
    by_features = DetectorSettings(space="features", tied=True)
    distance = Detector.fit(network, source, by_features)(source.images).scores
    torch.testing.assert_close(verdicts.scores, distance, rtol=1e-4, atol=1e-4)
    likely = logits.log_softmax(dim=2).mean(dim=0)
    assert torch.equal(verdicts.labels, likely.argmax(dim=1))


def test_a_distance_and_an_energy_are_summed(source: ImageSet) -> None:
    network = beside_mcl(source)
    both = DetectorSettings(
        classifier="network", rules=(StandardisedRule("distance"), StandardisedRule("energy"))
    )
    energy = -own_logits(network, source.images, UPRIGHT).logsumexp(dim=2).mean(dim=0)
    distance = Detector.fit(network, source, DetectorSettings())(source.images).scores
    torch.testing.assert_close(
        Detector.fit(network, source, both)(source.images).scores,
        distance + energy,
        rtol=1e-4,
        atol=1e-4,
    )


def test_rules_count_alike_in_deviations_of_normal_images(source: ImageSet) -> None:
    detector = Detector.fit(by_itself(source), source)
    some = np.arange(30)
    standard = detector.standardise(source, indices=some)
    for place, rule in enumerate(detector.rules):
        scores = replace(detector, rules=(rule,))(source.images[some]).scores.double()
        _, mean, deviation = standard.rules[place]
        assert mean == pytest.approx(float(scores.mean()), rel=1e-4)
        assert deviation == pytest.approx(float(scores.std(correction=0)), rel=1e-4)
    total = standard(source.images[some]).scores
    assert float(total.mean()) == pytest.approx(0, abs=1e-3)
    with pytest.warns(match="held-out images"):
        calibrated = detector.calibrate(source, indices=some)
    assert calibrated.calibration is not None
    assert calibrated.standardise(source, indices=some).calibration is None


@pytest.mark.parametrize("make", [by_itself, beside_mcl])
def test_a_file_holds_that_labels_are_the_networks(
    source: ImageSet, tmp_path: Path, make: type
) -> None:
    detector = Detector.fit(make(source), source)
    detector.save(tmp_path / "a.oddone")
    loaded = Detector.load(tmp_path / "a.oddone")
    assert isinstance(loaded.classifier, NetworkClassifier)
    assert torch.equal(loaded(source.images).scores, detector(source.images).scores)
    assert torch.equal(loaded(source.images).labels, detector(source.images).labels)


def test_a_file_whose_network_has_no_classifier_cannot_have_its_labels(
    source: ImageSet, tmp_path: Path
) -> None:
    detector = Detector.fit(trained(source), source)
    replace(detector, classifier=NetworkClassifier()).save(tmp_path / "a.oddone")
    with pytest.raises(ArtifactError, match="its network has no classifier to give labels"):
        Detector.load(tmp_path / "a.oddone")


def test_a_network_without_a_classifier_is_told_before_it_is_fitted(source: ImageSet) -> None:
    with pytest.raises(SettingsError, match="classifier='network': no classifier was trained"):
        Detector.fit(trained(source), source, DetectorSettings(classifier="network"))
