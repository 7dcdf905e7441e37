"""Networks that see what a person can say, and images on which every method must be right.

The encoder measures how bright each quadrant is in each colour. A class is a colour; an upright
image is bright at its upper left.
"""

import numpy as np
import torch
from torch import Tensor, nn

from oddone.data import ImageSet
from oddone.data.arrays import image_set
from oddone.encoders import ModelSettings, TrainedNetwork, build_network
from oddone.scoring import Scorer, score_images
from oddone.transforms import Rotations
from oddone.verdicts import Verdicts

SIZE = 8
COLOURS = ("red", "green", "blue")
LOUD = 20.0


def quadrants() -> nn.Module:
    """Return an encoder with 12 features: by colour, the brightness of the four quadrants."""
    return nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten())


def trained_with(
    encoder: nn.Module,
    *,
    size: int = SIZE,
    classes: tuple[str, ...] = COLOURS,
    classifier: bool = True,
    rotations: Rotations = "task",
) -> TrainedNetwork:
    """Return a network with this encoder and random layers on top, in evaluation mode."""
    model = ModelSettings(head_hidden=4, head_dim=3)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = build_network(
            encoder,
            model,
            size,
            n_classes=len(classes) if classifier else None,
            predict_poses=classifier and rotations == "task",
        )
    return TrainedNetwork(network.eval(), model, rotations, classes, size, "none")


def sighted() -> TrainedNetwork:
    """Return the network that names the colour (grey is none), and the quadrant it is in."""
    trained = trained_with(quadrants())
    classifier, pose_classifier = trained.network.classifier, trained.network.pose_classifier
    assert classifier is not None
    assert pose_classifier is not None
    corner = torch.zeros(2, 2)
    corner[0, 0] = LOUD
    with torch.no_grad():
        classifier.weight.copy_(LOUD * (torch.eye(3) - 1 / 3).repeat_interleave(4, dim=1))
        classifier.bias.zero_()
        for pose in range(4):
            pose_classifier.weight[pose] = corner.rot90(pose).flatten().repeat(3)
        pose_classifier.bias.zero_()
    return trained


def normal(images: int = 60, seed: int = 0, classes: int = 3) -> ImageSet:
    """Return dark, noisy images, each bright at its upper left in the colour of its class."""
    generator = np.random.default_rng(seed)
    pixels = generator.integers(0, 60, (images, 3, SIZE, SIZE))
    labels = np.arange(images) % classes
    for image, label in enumerate(labels):
        pixels[image, label, : SIZE // 2, : SIZE // 2] += generator.integers(150, 180)
    paths = [f"normal[{image}]" for image in range(images)]
    return ImageSet(pixels.astype(np.uint8), labels, COLOURS[:classes], paths, "normal")


def odd(images: int = 20, seed: int = 1) -> np.ndarray:
    """Return noise around a grey: no colour, and no way up."""
    generator = np.random.default_rng(seed)
    return generator.integers(110, 140, (images, 3, SIZE, SIZE)).astype(np.uint8)


def features(trained: TrainedNetwork, images: np.ndarray) -> Tensor:
    """Return the features of all images at once, in float64."""
    with torch.no_grad():
        rows: Tensor = trained.network(torch.from_numpy(images).float() / 255).features
    return rows.double()


def score(scorer: Scorer, images: np.ndarray) -> Verdicts:
    """Return the verdicts on an array of images."""
    return score_images(scorer, image_set(images, None, (), "toys"))
