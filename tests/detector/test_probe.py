import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from oddone.detector import LinearProbe
from oddone.detector.probe import INVERSE_REGULARISATION, class_probabilities
from oddone.transforms import rotations, rotations_and_mirrors


def clusters(classes: int = 3, images: int = 90) -> tuple[torch.Tensor, torch.Tensor]:
    """Return features of four views of images, which lie near one direction per (pose, class)."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(images) % classes
    centres = torch.randn(4, classes, 8, generator=generator)
    noise = 0.4 * torch.randn(4, images, 8, generator=generator)
    return torch.nn.functional.normalize(centres[:, labels] + noise, dim=2), labels


@pytest.mark.parametrize("classes", [2, 3])
def test_a_view_is_named_by_the_regression_of_its_pose(classes: int) -> None:
    features, labels = clusters(classes)
    probe = LinearProbe.fit(features, rotations, labels, classes)
    for pose in range(4):
        inverse = INVERSE_REGULARISATION / len(labels)
        reference = LogisticRegression(C=inverse, max_iter=200).fit(features[pose], labels)
        ours = class_probabilities(probe.logits(features[pose : pose + 1], torch.tensor([pose])))
        np.testing.assert_allclose(ours, reference.predict_proba(features[pose]), atol=1e-4)


def test_logits_do_not_grow_with_the_number_of_rows() -> None:
    features, labels = clusters()
    once = LinearProbe.fit(features, rotations, labels, 3)
    often = LinearProbe.fit(features.repeat(1, 5, 1), rotations, labels.repeat(5), 3)
    torch.testing.assert_close(often.weight, once.weight, atol=0.05, rtol=0.02)


def test_mirrored_views_are_learned_with_their_pose() -> None:
    features, labels = clusters()
    both = torch.cat([features, features.roll(1, dims=2)])
    probe = LinearProbe.fit(both, rotations_and_mirrors, labels, 3)
    assert probe.weight.shape == (4, 3, 8)
    named = class_probabilities(probe.logits(both, torch.arange(4).repeat(2))).argmax(dim=1)
    assert (named == labels).float().mean() > 0.95


def test_views_agree_by_multiplying_what_they_say() -> None:
    features, labels = clusters()
    poses = torch.arange(4)
    probe = LinearProbe.fit(features, rotations, labels, 3)
    apart = [
        class_probabilities(probe.logits(features[[pose]], poses[[pose]])).double()
        for pose in range(4)
    ]
    product = torch.stack(apart).prod(dim=0) ** (1 / 4)
    expected = product / product.sum(dim=1, keepdim=True)
    together = class_probabilities(probe.logits(features, poses))
    torch.testing.assert_close(together.double(), expected, atol=1e-6, rtol=1e-5)
    backwards = class_probabilities(probe.logits(features.flip(0), poses.flip(0)))
    torch.testing.assert_close(backwards, together)


def test_one_class_is_certain_and_no_image_has_no_name() -> None:
    features, labels = clusters(classes=1)
    probe = LinearProbe.fit(features, rotations, labels, 1)
    assert (class_probabilities(probe.logits(features, torch.arange(4))) == 1).all()
    assert class_probabilities(probe.logits(features[:, :0], torch.arange(4))).shape == (0, 1)
