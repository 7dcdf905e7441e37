"""Images and encoders from which no sensible numbers follow: an error that says so, or an answer.

Elsewhere: learning rates of 1e6 and 1e300 and weights that are no numbers (test_checkpoint.py), one
class (test_batches.py, test_frozen_encoder.py), forged tensors (test_artifact.py).
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import oddone
from oddone.data import ImageSet
from oddone.detector import Detector
from oddone.errors import DataError, OddOneError
from runs import tiny_settings, tiny_source
from small_detector import fitted

pytestmark = [
    pytest.mark.filterwarnings("ignore::oddone.errors.SettingsWarning"),
    pytest.mark.filterwarnings("ignore::oddone.errors.DataWarning"),
]


class Answers(nn.Module):
    """An encoder that answers every image with the same number."""

    def __init__(self, answer: float) -> None:
        super().__init__()
        self.answer = answer

    def forward(self, images: Tensor) -> Tensor:
        return torch.full((len(images), 5), self.answer)


class Mostly(nn.Module):
    """An encoder whose answer to a bright image is no number."""

    def forward(self, images: Tensor) -> Tensor:
        features = images.flatten(1)[:, ::97]
        return torch.where(images.mean((1, 2, 3))[:, None] > 0.9, torch.nan, features)


class Pixels(nn.Module):
    """An encoder whose features are some pixels, and a one, so that black has a direction."""

    def forward(self, images: Tensor) -> Tensor:
        pixels = images.flatten(1)[:, ::97]
        return torch.cat([pixels, torch.ones(len(images), 1)], dim=1)


def of_pixels(pixels: np.ndarray) -> ImageSet:
    return replace(tiny_source(), images=pixels)


CONSTANT = np.full_like(tiny_source().images, 90)
IDENTICAL = np.repeat(tiny_source().images[:1], len(tiny_source()), axis=0)
BLACK_AND_WHITE = CONSTANT // 90 * np.tile(np.uint8([0, 255, 0]), 16)[:, None, None, None]


ALL_ALIKE = "group 'class 0' has .* singular .too few images, or images all alike.; add images"


@pytest.mark.parametrize("pixels", [CONSTANT, IDENTICAL, BLACK_AND_WHITE], ids=["a", "b", "c"])
def test_classes_of_images_that_are_all_alike_are_refused(pixels: np.ndarray) -> None:
    with pytest.raises(DataError, match=ALL_ALIKE):
        Detector.fit(Pixels(), of_pixels(pixels))


def test_training_on_images_that_are_all_alike_is_refused() -> None:
    with pytest.raises(DataError, match=ALL_ALIKE):
        oddone.train(of_pixels(CONSTANT), tiny_settings(steps=2, held_out=0.2))


def test_images_that_are_all_alike_get_numbers_from_a_detector_of_others() -> None:
    check_numbers(fitted())


def check_numbers(detector: Detector) -> None:
    """Check that images have scores, and that one that has none is not called normal."""
    for images in (tiny_source().images[:4], CONSTANT[:4], IDENTICAL[:4]):
        verdicts = detector(images)
        assert verdicts.scores.isfinite().all()
        assert verdicts.probabilities is not None
        torch.testing.assert_close(verdicts.probabilities.sum(1), torch.ones(len(images)))
        if verdicts.p_values is not None:
            assert ((verdicts.p_values > 0) & (verdicts.p_values <= 1)).all()


@pytest.mark.parametrize("answer", [float("nan"), float("inf"), -float("inf")])
def test_an_encoder_whose_features_are_no_numbers_is_named(answer: float) -> None:
    with pytest.raises(OddOneError, match="encoder|features") as caught:
        Detector.fit(Answers(answer), tiny_source())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("answer", [0.0, 1.0, 1e-30, 1e30])
def test_an_encoder_with_one_answer_for_all_images_makes_numbers_or_is_refused(
    answer: float,
) -> None:
    try:
        detector = Detector.fit(Answers(answer), tiny_source())
    except OddOneError:
        return
    check_numbers(detector)


def test_an_image_whose_features_are_no_numbers_is_not_called_normal() -> None:
    source = tiny_source(images=96)
    detector = Detector.fit(Mostly(), source, indices=np.arange(60))
    detector = detector.calibrate(source, indices=np.arange(60, 96), false_alarms=0.1)
    white = np.full((2, 3, 16, 16), 255, np.uint8)
    verdicts = detector(np.concatenate([white, source.images[:2]]))
    assert verdicts.anomalous is not None
    assert verdicts.anomalous[:2].all()
    assert verdicts.scores[2:].isfinite().all()
    rows = list(detector.score(list(white.transpose(0, 2, 3, 1))))
    assert [row.verdict for row in rows] == [None, None]
    assert all("no number" in (row.reason or "") for row in rows)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64])
def test_images_of_other_floats_get_the_verdicts_of_their_numbers(kind: torch.dtype) -> None:
    detector = fitted()
    images = torch.from_numpy(tiny_source().images[:6]).div(255).to(kind)
    expected = detector(images.float())
    found = detector(images)
    assert torch.equal(found.scores, expected.scores)
    assert torch.equal(found.labels, expected.labels)


def test_arrays_of_float16_get_the_verdicts_of_their_numbers() -> None:
    detector = fitted()
    images = (tiny_source().images[:6].transpose(0, 2, 3, 1) / 255).astype(np.float16)
    assert torch.equal(detector(images).scores, detector(images.astype(np.float32)).scores)


@pytest.mark.parametrize("number", [np.nan, np.inf, -0.5, 1.5])
def test_a_batch_with_a_number_that_is_no_pixel_is_refused(number: float) -> None:
    images = np.zeros((2, 3, 16, 16), np.float32)
    images[1, 0, 3, 3] = number
    with pytest.raises(DataError, match="0 to 1"):
        fitted()(images)
