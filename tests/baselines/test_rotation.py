import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from toys import LOUD, normal, odd, quadrants, score, sighted, trained_with

from oddone.baselines import rotation, rotation_scores, rotation_sei
from oddone.encoders import TrainedNetwork
from oddone.errors import SettingsError
from oddone.scoring import Scorer
from oddone.transforms import ViewSet, rotations, rotations_and_mirrors

POSES = torch.arange(4)


def oracle(class_logits: list[float], pose_logits: list[list[float]], poses: list[int]) -> float:
    """The anomaly score of Hendrycks et al.: KL divergences between lists of probabilities."""

    def softmax(logits: list[float]) -> list[float]:
        total = sum(math.exp(logit) for logit in logits)
        return [math.exp(logit) / total for logit in logits]

    def kl(p: list[float], q: list[float]) -> float:
        return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True) if a > 0)

    uniform = [1 / len(class_logits)] * len(class_logits)
    of_class = -kl(uniform, softmax(class_logits))
    of_poses = 0.0
    for logits, pose in zip(pose_logits, poses, strict=True):
        true_pose = [1.0 if other == pose else 0.0 for other in range(4)]
        of_poses += kl(true_pose, softmax(logits)) / len(poses)
    return of_class + of_poses


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


def test_a_network_that_knows_nothing_scores_the_entropy_of_a_pose() -> None:
    scores = rotation_scores(torch.zeros(2, 3), torch.zeros(4, 2, 4), POSES)
    torch.testing.assert_close(scores.tolist(), [math.log(4)] * 2)


def test_poses_that_are_harder_to_tell_are_more_anomalous() -> None:
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


def test_an_image_that_lies_on_its_side_is_more_anomalous_and_keeps_its_label() -> None:
    images, scorer = normal().images, rotation(sighted())
    upright, lying = score(scorer, images), score(scorer, np.rot90(images, axes=(2, 3)).copy())
    assert (lying.scores > upright.scores).all()
    assert torch.equal(lying.labels, upright.labels)


@pytest.mark.parametrize("method", [rotation, rotation_sei])
def test_a_network_that_does_not_predict_poses_is_refused(
    method: Callable[[TrainedNetwork], Scorer],
) -> None:
    trained = trained_with(quadrants(), rotations="none")
    with pytest.raises(SettingsError, match="rotations='none' does not predict poses; train one"):
        method(trained)


def test_no_image_has_no_score() -> None:
    assert rotation_scores(torch.empty(0, 3), torch.empty(4, 0, 4), POSES).shape == (0,)


# --- With self-ensemble inference -------------------------------------------------------------


def logits_of_view(trained: TrainedNetwork, image: np.ndarray) -> tuple[list[float], list[float]]:
    """Return the logits of class and pose of one image, which is [3 height width]."""
    network = trained.network
    assert network.classifier is not None
    assert network.pose_classifier is not None
    with torch.no_grad():
        features = network(torch.from_numpy(image.copy())[None].float() / 255).features
        logits, pose_logits = network.classifier(features), network.pose_classifier(features)
    return logits[0].tolist(), pose_logits[0].tolist()


@pytest.mark.parametrize("views", [rotations, rotations_and_mirrors])
def test_the_score_of_sei_is_that_of_the_mean_log_probabilities(views: ViewSet) -> None:
    trained = trained_with(quadrants())  # random layers, so that every view says something else
    images = odd(4)
    expected, labels = [], []
    for image in images:
        sources = [image] if views is rotations else [image, image[:, :, ::-1]]
        shown = [(np.rot90(s, pose, axes=(1, 2)), pose) for s in sources for pose in range(4)]
        class_logits, pose_logits = zip(
            *(logits_of_view(trained, v) for v, _ in shown), strict=True
        )
        log_probabilities = []
        for logits in class_logits:
            total = sum(math.exp(logit) for logit in logits)
            log_probabilities.append([math.log(math.exp(logit) / total) for logit in logits])
        means = [sum(column) / len(shown) for column in zip(*log_probabilities, strict=True)]
        expected.append(oracle(means, list(pose_logits), [pose for _, pose in shown]))
        labels.append(means.index(max(means)))
    verdicts = score(rotation_sei(trained, views), images)
    torch.testing.assert_close(verdicts.scores.tolist(), expected, rtol=1e-5, atol=1e-6)
    assert verdicts.labels.tolist() == labels


def test_where_all_rotations_look_alike_to_the_classifier_sei_of_four_is_plain_rotation() -> None:
    plain, ensemble = rotation(sighted()), rotation_sei(sighted(), rotations)
    for images in (normal().images, odd()):
        torch.testing.assert_close(
            score(ensemble, images).scores, score(plain, images).scores, rtol=1e-5, atol=1e-5
        )


def test_to_sei_a_mirrored_image_is_the_same() -> None:
    scorer, images = rotation_sei(trained_with(quadrants())), odd()
    mirrored = score(scorer, images[:, :, :, ::-1].copy())
    torch.testing.assert_close(mirrored.scores, score(scorer, images).scores)


def test_views_that_disagree_are_more_anomalous_than_views_that_agree() -> None:
    """Each view alone is as sure, whether every second one says another class or none does."""
    trained, image = sighted(), normal(1).images
    classifier = trained.network.classifier
    assert classifier is not None
    verdicts = {}
    for dissenter in (0, 2):
        with torch.no_grad():
            classifier.weight.zero_()
            classifier.weight[0, [0, 3]] = LOUD  # red at the upper left, or opposite
            classifier.weight[dissenter, [1, 2]] = LOUD
        verdicts[dissenter] = score(rotation_sei(trained), image)
        assert score(rotation(trained), image).labels.item() == 0
    assert verdicts[2].scores > verdicts[0].scores + 1
