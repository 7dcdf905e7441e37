"""Detectors on encoders that were not trained by us."""

from pathlib import Path

import numpy as np
import pytest
import torch
from detectors import FITTED, HELD_OUT, subset
from torch import Tensor, nn

import oddone
from oddone.data import ImageSet
from oddone.detector import Detector
from oddone.encoders import frozen_network, is_installed
from oddone.errors import ArtifactError
from oddone.transforms import one_view
from runs import tiny_settings, tiny_source


class Quadrants(nn.Module):
    """A user's own encoder: mean colours of the quadrants, normalised by statistics it learned."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(12)
        self.norm.running_mean += 0.25

    def forward(self, images: Tensor) -> Tensor:
        quadrants = nn.functional.adaptive_avg_pool2d(images, 2).flatten(1)
        return self.norm(quadrants)  # type: ignore[no-any-return]


def statistics_of(encoder: Quadrants) -> list[Tensor]:
    return [numbers.clone() for numbers in encoder.state_dict().values()]


def test_a_detector_is_fitted_to_a_module_as_it_is(source: ImageSet) -> None:
    encoder = Quadrants()
    before = statistics_of(encoder)
    detector = Detector.fit(encoder, source, indices=FITTED)
    assert detector.embedder.views == one_view
    assert detector.space == "features"
    assert (detector.classes, detector.image_size) == (source.classes, 16)
    right = detector(source.images[HELD_OUT]).labels == torch.from_numpy(source.labels[HELD_OUT])
    assert right.float().mean() > 0.95
    assert all(map(torch.equal, statistics_of(encoder), before))
    assert encoder.training


def test_fitting_a_module_is_fitting_its_frozen_network(source: ImageSet) -> None:
    encoder = Quadrants()
    frozen = frozen_network(encoder, 16, source.classes, source.fingerprint)
    expected = Detector.fit(frozen, source, indices=FITTED)(source.images[HELD_OUT])
    actual = Detector.fit(encoder, source, indices=FITTED)(source.images[HELD_OUT])
    assert torch.equal(actual.scores, expected.scores)
    assert torch.equal(actual.labels, expected.labels)


def test_a_module_sees_images_that_are_named_in_the_size_that_they_have() -> None:
    encoder = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten())
    detector = Detector.fit(encoder, "fashion:known#test")
    assert detector.image_size == 28
    assert len(detector.classes) == 8


def test_a_frozen_detector_is_saved_calibrated_and_explained(
    source: ImageSet, tmp_path: Path
) -> None:
    encoder, path = Quadrants(), tmp_path / "own.oddone"
    detector = Detector.fit(encoder, source, indices=FITTED)
    detector = detector.calibrate(subset(source, HELD_OUT), false_alarms=0.1)
    detector.save(path)
    loaded = Detector.load(path, encoder=Quadrants())
    images = source.images[HELD_OUT]
    assert torch.equal(loaded(images).scores, detector(images).scores)
    assert loaded.threshold == detector.threshold
    (explanation,) = loaded.explain(source.images[:1], neighbours=1)
    assert explanation.neighbours[0].path == source.paths[0]
    with pytest.raises(ArtifactError, match="an encoder of your own, Quadrants; pass such a mod"):
        Detector.load(path)


@pytest.mark.skipif(not is_installed("efficientnet-lite0"), reason="needs oddone[pretrained]")
def test_a_detector_on_pretrained_weights_is_whole_in_its_file(
    source: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen = frozen_network("efficientnet-lite0", 16, source.classes, source.fingerprint)
    detector = Detector.fit(frozen, source, indices=FITTED)
    detector.save(tmp_path / "lite0.oddone")
    monkeypatch.setattr("oddone.encoders.pretrained.find_spec", lambda _package: None)
    loaded = Detector.load(tmp_path / "lite0.oddone")
    torch.testing.assert_close(
        loaded(source.images[HELD_OUT]).scores, detector(source.images[HELD_OUT]).scores
    )


def test_training_changes_a_copy_of_the_module_that_is_passed(source: ImageSet) -> None:
    encoder = Quadrants()
    before = statistics_of(encoder)
    detector = oddone.train(source, tiny_settings(steps=2), encoder=encoder)
    assert all(map(torch.equal, statistics_of(encoder), before))
    trained = detector.embedder.trained.network.encoder
    assert not torch.equal(trained.norm.running_mean, encoder.norm.running_mean)


def test_one_class_is_enough_for_an_encoder_that_is_used_as_it_is() -> None:
    good = tiny_source(images=60, classes=1)
    detector = Detector.fit(Quadrants(), good, indices=np.arange(40))
    detector = detector.calibrate(good, indices=np.arange(40, 60), false_alarms=0.3)
    bad = detector(255 - good.images[40:])
    assert bad.anomalous is not None
    assert bad.anomalous.all()
    assert bad.labels.tolist() == [0] * 20
    assert torch.equal(bad.probabilities, torch.ones(20, 1))
    good_again = detector(good.images[40:])
    assert good_again.anomalous is not None
    assert good_again.anomalous.sum() == 5  # 0.3 of 21, without the one at the threshold
