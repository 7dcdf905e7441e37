"""A projection head that MCL trains on features alone: seconds, as no image is seen again."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.optim import AdamW

from oddone.encoders.network import Centre, projection_head
from oddone.losses import MCLSettings, mcl_loss

HIDDEN = 512
DIM = 128
STEPS = 400
IMAGES_PER_STEP = 128
LEARNING_RATE = 1e-3
INPUT_LENGTH = 5.0
"""What unit features are multiplied by, so that the first layer learns as fast as the second."""


def train_head(
    features: Float[Tensor, "views images dim"],
    labels: Int[Tensor, " images"],
    *,
    generator: torch.Generator,
) -> nn.Sequential:
    """Return a head that MCL has trained on the features of mirrored, and mostly rotated, images.

    An image and its mirrored copy in the same pose are the two views of a parent. The other poses
    of a class are pushed away, and so, in the end, is what only resembles the class.
    docs/decisions/0012-rules-by-leaving-classes-out.md has the measurements that led to the
    constants.

    Parameters
    ----------
    features
        Those of the views of `rotations_and_mirrors`: first each pose, then each of them mirrored.
        They are of unit length.
    labels
        The class of each image.
    generator
        What draws the first weights, and the images and poses of each step.

    """
    centre = Centre(features.shape[2])
    centre.mean.copy_(features[0].mean(dim=0))
    rows = centre(features.flatten(0, 1)).unflatten(0, features.shape[:2])
    layers = _new_layers(features.shape[2], generator)
    optimiser = AdamW(layers.parameters(), lr=LEARNING_RATE, fused=True)
    for step in range(STEPS):
        for group in optimiser.param_groups:
            group["lr"] = LEARNING_RATE * (1 + math.cos(math.pi * step / STEPS)) / 2
        loss = _loss(layers, rows, labels, generator)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    first = layers[0]
    assert isinstance(first, nn.Linear)  # noqa: S101  (projection_head made it)
    first.weight.data.mul_(INPUT_LENGTH)  # from now on its input has unit length
    return nn.Sequential(centre, *layers).eval().requires_grad_(requires_grad=False)


def _new_layers(dim: int, generator: torch.Generator) -> nn.Sequential:
    """Return the layers of a head, with first weights as torch draws them."""
    layers = projection_head(dim, HIDDEN, DIM)
    for layer in layers:
        if isinstance(layer, nn.Linear):
            reach = 1 / math.sqrt(layer.in_features)
            nn.init.uniform_(layer.weight, -reach, reach, generator=generator)
            nn.init.uniform_(layer.bias, -reach, reach, generator=generator)
    return layers


def _loss(
    layers: nn.Sequential,
    rows: Float[Tensor, "views images dim"],
    labels: Int[Tensor, " images"],
    generator: torch.Generator,
) -> Float[Tensor, ""]:
    """Return MCL's loss of some images, each in a pose at random, plain and mirrored."""
    n_poses = len(rows) // 2
    images = torch.randperm(rows.shape[1], generator=generator)[:IMAGES_PER_STEP]
    poses = torch.randint(n_poses, (len(images),), generator=generator)
    views = torch.cat([rows[poses, images], rows[poses + n_poses, images]])
    parents = torch.arange(len(images)).repeat(2)
    embeddings = layers(INPUT_LENGTH * views)
    return mcl_loss(
        embeddings, labels[images].repeat(2), poses.repeat(2), parents, MCLSettings()
    ).total
