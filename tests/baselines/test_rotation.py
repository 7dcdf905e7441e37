import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from toys import normal, odd, sighted

from oddone.baselines import rotation, rotation_scores
from oddone.errors import SettingsError

POSES = torch.arange(4)


def oracle(class_logits: list[float], turn_logits: list[list[float]], poses: list[int]) -> float:
    """The anomaly score of Hendrycks et al.: KL divergences between lists of probabilities."""

    def softmax(logits: list[float]) -> list[float]:
        total = sum(math.exp(logit) for logit in logits)
        return [math.exp(logit) / total for logit in logits]

    def kl(p: list[float], q: list[float]) -> float:
        return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True) if a > 0)

    uniform = [1 / len(class_logits)] * len(class_logits)
    of_class = -kl(uniform, softmax(class_logits))
    of_turns = 0.0
    for logits, pose in zip(turn_logits, poses, strict=True):
        true_turn = [1.0 if turn == pose else 0.0 for turn in range(4)]
        of_turns += kl(true_turn, softmax(logits)) / len(poses)
    return of_class + of_turns


@given(st.integers(1, 5), st.integers(0, 2**31))
def test_the_score_is_the_original_s(classes: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = 5 * torch.randn(3, classes, generator=generator)
    pose_logits = 5 * torch.randn(4, 3, 4, generator=generator)
    poses = torch.randperm(4, generator=generator)
    expected = [
        oracle(logits[image].tolist(), pose_logits[:, image].tolist(), poses.tolist())
        for image in range(3)
    ]
    ours = rotation_scores(logits, pose_logits, poses).tolist()
    torch.testing.assert_close(ours, expected)


def test_a_network_that_knows_nothing_scores_the_entropy_of_a_turn() -> None:
    scores = rotation_scores(torch.zeros(2, 3), torch.zeros(4, 2, 4), POSES)
    torch.testing.assert_close(scores.tolist(), [math.log(4)] * 2)


def test_turns_that_are_harder_to_tell_are_odder() -> None:
    sure = 9 * torch.eye(4)[:, None]
    clear, unclear = (rotation_scores(torch.zeros(1, 3), by * sure, POSES) for by in (1, 0.1))
    assert unclear > clear


def test_only_differences_of_logits_matter() -> None:
    generator = torch.Generator().manual_seed(0)
    logits, pose_logits = torch.randn(2, 3, generator=generator), torch.randn(4, 2, 4)
    shifted = rotation_scores(logits + 7, pose_logits - 5, POSES)
    torch.testing.assert_close(
        shifted, rotation_scores(logits, pose_logits, POSES), atol=1e-5, rtol=0
    )


def test_an_image_that_lies_on_its_side_is_odder_and_keeps_its_name() -> None:
    source = normal()
    judge = rotation(sighted())
    upright, lying = judge(source.images), judge(np.rot90(source.images, axes=(2, 3)).copy())
    assert (lying.scores > upright.scores).all()
    assert torch.equal(lying.labels, upright.labels)


def test_a_network_that_was_not_taught_turns_is_refused() -> None:
    trained = sighted()
    trained.network.pose_classifier = None
    trained = replace(trained, settings=replace(trained.settings, rotations="none"))
    with pytest.raises(SettingsError, match="rotations='none' does not predict turns; train one"):
        rotation(trained)


def test_no_image_has_no_score() -> None:
    assert rotation_scores(torch.empty(0, 3), torch.empty(4, 0, 4), POSES).shape == (0,)
    assert len(rotation(sighted())(odd(0)).scores) == 0
