"""What a step minimises: from a batch of encoded rows to a loss and its terms."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from oddone import distributed
from oddone.encoders import Encoded, Network
from oddone.losses import count_unpaired, mcl_loss, simclr_loss, supcon_loss
from oddone.losses.masks import joint_labels
from oddone.training.settings import TrainSettings

POSE_WEIGHT = 0.5
"""The weight of predicting the pose beside cross-entropy (Hendrycks et al., 2019)."""

NO_CLASS = -1
"""The label of an outlier, as of every image without a label."""


class Rows(NamedTuple):
    """What is known about the rows of a batch."""

    labels: Int[Tensor, " rows"]
    """`NO_CLASS` for outliers."""
    poses: Int[Tensor, " rows"]
    parents: Int[Tensor, " rows"]


class Loss(NamedTuple):
    """The loss of a step and the terms it is made of, for the history."""

    total: Float[Tensor, ""]
    terms: dict[str, Tensor]


def gather_encoded(encoded: Encoded, settings: TrainSettings) -> Encoded:
    """Return what all processes have encoded, of which `loss_of` looks at; the rest stays here.

    What the rows are (`Rows`) every process knows by itself, as it follows from seed and step.
    """
    features, embeddings = encoded
    if settings.has_classifier:
        features = distributed.gather_rows(features)
    if settings.objective != "cross-entropy":
        embeddings = distributed.gather_rows(embeddings)
    return Encoded(features, embeddings)


def loss_of(
    network: Network,
    encoded: Encoded,
    rows: Rows,
    settings: TrainSettings,
    *,
    generator: torch.Generator,
) -> Loss:
    """Return the loss of a batch; `generator` draws MCL's partners where they are sampled."""
    temperature = settings.loss.temperature
    if settings.objective == "cross-entropy":
        return _weighted(_cross_entropies(network, encoded.features, rows), settings)
    if settings.objective == "joint":  # the appendix's L_joint
        terms = _cross_entropies(network, encoded.features, rows)
        terms["simclr"] = simclr_loss(encoded.embeddings, rows.parents, temperature)
        return _weighted(terms, settings)
    task = settings.rotations == "task"
    if settings.objective == "mcl":
        poses = rows.poses if task else None
        mcl = mcl_loss(
            encoded.embeddings,
            rows.labels,
            poses,
            rows.parents,
            settings.loss,
            generator=generator,
        )
        terms = {"ccm": mcl.ccm, "spa": mcl.spa}
        if settings.class_weight == 0:
            return Loss(mcl.total, terms)
        terms["class"] = _upright_cross_entropy(network, encoded.features, rows)
        return Loss(mcl.total + settings.class_weight * terms["class"], terms)
    if settings.objective == "simclr":
        return Loss(simclr_loss(encoded.embeddings, rows.parents, temperature), {})
    labels = joint_labels(rows.labels, rows.poses) if task else rows.labels
    supclr = supcon_loss(
        encoded.embeddings, labels, rows.parents, temperature, settings.supclr_siblings
    )
    return Loss(supclr, {})


def unpaired_share(rows: Rows, settings: TrainSettings) -> float:
    """Return the share of rows without a positive: without a sibling, or without a partner."""
    if settings.objective == "cross-entropy":
        return 0.0
    poses = rows.poses if settings.rotations == "task" else None
    counts = count_unpaired(rows.labels, poses, rows.parents)
    partners_only = settings.objective == "supclr" and not settings.supclr_siblings
    needs_partners = settings.objective == "mcl" or partners_only
    unpaired = max(counts) if needs_partners else counts.ccm
    return unpaired / len(rows.labels)


def uniform_cross_entropy(logits: Float[Tensor, "rows classes"]) -> Float[Tensor, ""]:
    """Return the mean cross-entropy between all classes being as likely and the prediction.

    It is least, log(classes), where the prediction is just as undecided (Hendrycks et al., 2019).
    """
    return -logits.log_softmax(dim=1).mean()


def _upright_cross_entropy(
    network: Network, features: Float[Tensor, "rows dim"], rows: Rows
) -> Float[Tensor, ""]:
    """Return the cross-entropy of the upright rows; 0 where there are none."""
    assert network.classifier is not None  # noqa: S101  (there is one for this objective)
    labels = rows.labels.masked_fill(rows.poses != 0, NO_CLASS)
    logits = network.classifier(features.to(network.classifier.weight))
    total = cross_entropy(logits, labels, ignore_index=NO_CLASS, reduction="sum")
    return total / (labels != NO_CLASS).sum().clamp(min=1)


def _cross_entropies(network: Network, features: Tensor, rows: Rows) -> dict[str, Tensor]:
    """Return the terms of the classifiers; only normal rows have a pose to predict."""
    assert network.classifier is not None  # noqa: S101  (there is one for this objective)
    features = features.to(network.classifier.weight)  # from half precision, if it is that
    logits = network.classifier(features)
    outlying = rows.labels == NO_CLASS
    terms = {"class": cross_entropy(logits, rows.labels, ignore_index=NO_CLASS)}
    if network.pose_classifier is not None:
        poses = rows.poses.masked_fill(outlying, NO_CLASS)
        pose_logits = network.pose_classifier(features)
        terms["pose"] = cross_entropy(pose_logits, poses, ignore_index=NO_CLASS)
    if outlying.any():
        terms["outliers"] = uniform_cross_entropy(logits[outlying])
    return terms


def _weighted(terms: dict[str, Tensor], settings: TrainSettings) -> Loss:
    """Return the weighted sum of the terms; of a single term, only the total."""
    weights = {
        "class": 1.0,
        "pose": POSE_WEIGHT,
        "outliers": settings.outlier_weight,
        "simclr": settings.simclr_weight,
    }
    total = torch.stack([weights[name] * term for name, term in terms.items()]).sum()
    return Loss(total, terms if len(terms) > 1 else {})
