"""What a step minimises: from a batch of encoded rows to a loss and its terms."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from oddone.encoders import Encoded, Encoder
from oddone.losses import mcl_loss, simclr_loss, supcon_loss
from oddone.losses.masks import joint
from oddone.training.settings import Training
from oddone.transforms import POSES

POSE_WEIGHT = 0.5
"""The weight of predicting the turn beside cross-entropy (Hendrycks et al., 2019)."""


class Rows(NamedTuple):
    """What is known about the rows of a batch."""

    labels: Int[Tensor, " rows"]
    poses: Int[Tensor, " rows"]
    parents: Int[Tensor, " rows"]


class Loss(NamedTuple):
    """The loss of a step and the terms it is made of, for the history."""

    total: Float[Tensor, ""]
    terms: dict[str, Tensor]


class Network(nn.Module):
    """The encoder and, for cross-entropy alone, linear layers that name class and turn."""

    def __init__(self, encoder: Encoder, classes: int, settings: Training) -> None:
        super().__init__()
        self.encoder = encoder
        dim = encoder.feature_dim
        with_classifier = settings.objective == "cross-entropy"
        self.classifier = nn.Linear(dim, classes) if with_classifier else None
        names_poses = with_classifier and settings.rotations == "task"
        self.pose_classifier = nn.Linear(dim, POSES) if names_poses else None

    def forward(self, images: Tensor) -> Encoded:
        encoded: Encoded = self.encoder(images)
        return encoded


def loss_of(
    network: Network,
    encoded: Encoded,
    rows: Rows,
    settings: Training,
    *,
    generator: torch.Generator,
) -> Loss:
    """Return the loss of a batch; `generator` draws MCL's partners where they are sampled."""
    if settings.objective == "cross-entropy":
        return _cross_entropy(network, encoded.features, rows)
    task = settings.rotations == "task"
    if settings.objective == "mcl":
        poses = rows.poses if task else None
        terms = mcl_loss(
            encoded.embeddings,
            rows.labels,
            poses,
            rows.parents,
            settings.loss,
            generator=generator,
        )
        return Loss(terms.total, {"ccm": terms.ccm, "spa": terms.spa})
    temperature = settings.loss.temperature
    if settings.objective == "simclr":
        return Loss(simclr_loss(encoded.embeddings, rows.parents, temperature), {})
    labels = joint(rows.labels, rows.poses) if task else rows.labels
    return Loss(supcon_loss(encoded.embeddings, labels, rows.parents, temperature), {})


def _cross_entropy(network: Network, features: Tensor, rows: Rows) -> Loss:
    assert network.classifier is not None  # noqa: S101  (Network made one for this objective)
    of_class = nn.functional.cross_entropy(network.classifier(features.float()), rows.labels)
    if network.pose_classifier is None:
        return Loss(of_class, {})
    of_pose = nn.functional.cross_entropy(network.pose_classifier(features.float()), rows.poses)
    return Loss(of_class + POSE_WEIGHT * of_pose, {"class": of_class, "pose": of_pose})
