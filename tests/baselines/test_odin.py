import math

import numpy as np
import pytest
import torch
from torch import nn
from toys import SIZE, normal, odd, quadrants, score, sighted, trained_with

from oddone.baselines import msp, odin
from oddone.encoders import TrainedNetwork
from oddone.errors import SettingsError

MAGNITUDES = (0.0, 0.0014, 0.3)


def linear() -> TrainedNetwork:
    """Return a network whose logits are a matrix times the pixels, plus a vector."""
    return trained_with(nn.Flatten())


def oracle(
    weight: list[list[float]],
    bias: list[float],
    pixels: list[float],
    temperature: float,
    eps: float,
) -> float:
    """Equations 1 and 2 of Liang et al. for f(x) = Wx + b, with the gradient by hand."""

    def softmax(x: list[float]) -> list[float]:
        logits = [
            sum(w * p for w, p in zip(row, x, strict=True)) + b
            for row, b in zip(weight, bias, strict=True)
        ]
        total = sum(math.exp(f / temperature) for f in logits)
        return [math.exp(f / temperature) / total for f in logits]

    s = softmax(pixels)
    best = s.index(max(s))
    moved = []
    for i, pixel in enumerate(pixels):
        gradient = (weight[best][i] - sum(s[c] * weight[c][i] for c in range(len(s)))) / temperature
        moved.append(pixel - eps * math.copysign(1, -gradient))
    return -max(softmax(moved))


@pytest.mark.parametrize("temperature", [1.0, 10.0, 1000.0])
@pytest.mark.parametrize("magnitude", MAGNITUDES)
def test_the_score_is_the_paper_s(temperature: float, magnitude: float) -> None:
    trained = linear()
    classifier = trained.network.classifier
    assert classifier is not None
    images = np.random.default_rng(0).integers(0, 256, (4, 3, SIZE, SIZE)).astype(np.uint8)
    expected = [
        oracle(
            classifier.weight.tolist(),
            classifier.bias.tolist(),
            (image / 255).flatten().tolist(),
            temperature,
            magnitude,
        )
        for image in images
    ]
    ours = score(odin(trained, temperature, magnitude), images).scores
    # Around 1/3, what differs between images is in the last digits; those must be right, too.
    torch.testing.assert_close(ours, torch.tensor(expected).double(), rtol=1e-6, atol=2e-8)


def test_a_temperature_of_one_without_perturbation_is_the_maximum_softmax() -> None:
    ours = score(odin(sighted(), temperature=1.0, magnitude=0.0), odd())
    theirs = score(msp(sighted()), odd())
    torch.testing.assert_close(ours.scores, theirs.scores)
    assert torch.equal(ours.labels, theirs.labels)


def test_the_perturbation_makes_every_image_look_more_normal() -> None:
    images = np.concatenate([normal(9).images, odd(9)])
    as_they_are, moved = (
        score(odin(linear(), 1000.0, magnitude), images) for magnitude in (0.0, 0.01)
    )
    assert (moved.scores < as_they_are.scores).all()
    assert torch.equal(moved.labels, as_they_are.labels)


def test_logits_that_are_all_higher_change_nothing() -> None:
    trained = trained_with(quadrants())
    before = score(odin(trained), odd()).scores
    assert trained.network.classifier is not None
    with torch.no_grad():
        trained.network.classifier.bias += 3
    torch.testing.assert_close(score(odin(trained), odd()).scores, before, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan, math.inf])
def test_a_temperature_that_is_not_positive_is_refused(temperature: float) -> None:
    with pytest.raises(SettingsError, match="temperature=.*choose a positive number"):
        odin(sighted(), temperature)


@pytest.mark.parametrize("magnitude", [-0.1, 1.1, math.nan])
def test_a_step_that_no_pixel_can_make_is_refused(magnitude: float) -> None:
    with pytest.raises(SettingsError, match="magnitude=.*choose it from 0"):
        odin(sighted(), magnitude=magnitude)
