import math

import numpy as np
import pytest
import torch
from test_rotation import oracle
from toys import LOUD, normal, odd, quadrants, sighted, trained_with

from oddone.baselines import rotation, rotation_sei
from oddone.encoders import TrainedNetwork
from oddone.transforms import MakeViews, rotations, rotations_and_mirrors


def logits_of_view(trained: TrainedNetwork, image: np.ndarray) -> tuple[list[float], list[float]]:
    """Return the logits of class and turn of one picture, which is [3 height width]."""
    network = trained.network
    assert network.classifier is not None
    assert network.pose_classifier is not None
    with torch.no_grad():
        features = network(torch.from_numpy(image.copy())[None].float() / 255).features
        return network.classifier(features)[0].tolist(), network.pose_classifier(features)[
            0
        ].tolist()


@pytest.mark.parametrize("views", [rotations, rotations_and_mirrors])
def test_the_score_is_that_of_the_mean_log_probabilities(views: MakeViews) -> None:
    trained = trained_with(quadrants())  # random layers, so that every view says something else
    images = odd(4)
    expected, labels = [], []
    for image in images:
        sources = [image] if views is rotations else [image, image[:, :, ::-1]]
        shown = [(np.rot90(s, pose, axes=(1, 2)), pose) for s in sources for pose in range(4)]
        class_logits, turn_logits = zip(
            *(logits_of_view(trained, v) for v, _ in shown), strict=True
        )
        log_probabilities = []
        for logits in class_logits:
            total = sum(math.exp(logit) for logit in logits)
            log_probabilities.append([math.log(math.exp(logit) / total) for logit in logits])
        means = [sum(column) / len(shown) for column in zip(*log_probabilities, strict=True)]
        expected.append(oracle(means, list(turn_logits), [pose for _, pose in shown]))
        labels.append(means.index(max(means)))
    judged = rotation_sei(trained, views)(images)
    torch.testing.assert_close(judged.scores.tolist(), expected, rtol=1e-5, atol=1e-6)
    assert judged.labels.tolist() == labels


def test_where_all_turns_look_alike_to_the_classifier_four_of_them_are_plain_rotation() -> None:
    plain, ensemble = rotation(sighted()), rotation_sei(sighted(), rotations)
    for images in (normal().images, odd()):
        torch.testing.assert_close(
            ensemble(images).scores, plain(images).scores, rtol=1e-5, atol=1e-5
        )


def test_a_mirrored_image_is_judged_the_same() -> None:
    judge = rotation_sei(trained_with(quadrants()))
    images = odd()
    mirrored = judge(images[:, :, :, ::-1].copy())
    torch.testing.assert_close(mirrored.scores, judge(images).scores)


def test_views_that_disagree_are_odder_than_views_that_agree() -> None:
    """Each view alone is as sure, whether every second one says another class or none does."""
    trained, image = sighted(), normal(1).images
    classifier = trained.network.classifier
    assert classifier is not None
    judged = {}
    for dissenter in (0, 2):
        with torch.no_grad():
            classifier.weight.zero_()
            classifier.weight[0, [0, 3]] = LOUD  # red at the upper left, or opposite
            classifier.weight[dissenter, [1, 2]] = LOUD
        judged[dissenter] = rotation_sei(trained)(image)
        assert rotation(trained)(image).labels.item() == 0
    assert judged[2].scores > judged[0].scores + 1
