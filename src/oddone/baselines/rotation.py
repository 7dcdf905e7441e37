"""Auxiliary rotation (Hendrycks, Mazeika, Kadavath and Song, NeurIPS 2019).

"Using Self-Supervised Learning Can Improve Model Robustness and Uncertainty": a classifier that
also predicts turns finds those of odd images harder to tell.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float, Float64, Int, UInt8
from torch import Tensor, nn

from oddone.baselines.judging import Judge, Judged, in_batches
from oddone.baselines.logits import classifier_of
from oddone.detector import ViewEmbedder
from oddone.errors import SettingsError
from oddone.fusion import PerImage, PerView
from oddone.training import TrainedNetwork
from oddone.transforms import MakeViews, rotations


def rotation(trained: TrainedNetwork) -> Judge:
    """Return the judge by how sure the upright image's class is, and how clear its four turns."""
    return by_views(trained, rotations, upright)


def rotation_scores(
    logits: Float[Tensor, "images classes"],
    pose_logits: Float[Tensor, "views images turns"],
    poses: Int[Tensor, " views"],
) -> Float64[Tensor, " images"]:
    """Return -KL(uniform || classes), plus the views' mean cross-entropy of their true turn.

    This is the multi-class score of the original's code (there in bits, here in nats).
    """
    n_classes, n_views = logits.shape[1], len(poses)
    certainty = -logits.double().log_softmax(dim=1).mean(dim=1) - math.log(n_classes)
    turns = pose_logits.double().log_softmax(dim=2)
    confusion = -turns[torch.arange(n_views), :, poses].mean(dim=0)
    return confusion - certainty


def upright(logits: PerView) -> PerImage:
    """Return the logits of the first view, which is the image as it is."""
    return logits[0]


def by_views(
    trained: TrainedNetwork, views: MakeViews, class_logits_of: Callable[[PerView], PerImage]
) -> Judge:
    """Return the judge by the views' turns, and by what becomes of their logits."""
    classifier, pose_classifier = classifier_of(trained), _pose_classifier_of(trained)
    encoder = ViewEmbedder(trained, views, "features")

    @torch.no_grad()
    def judge_batch(images: UInt8[Tensor, "images 3 height width"]) -> Judged:
        shown = views(encoder.prepared(images))
        rows = shown.images.flatten(0, 1).contiguous(memory_format=torch.channels_last)
        features = trained.network(rows).features
        logits, pose_logits = (
            layer(features).cpu().unflatten(0, shown.images.shape[:2])
            for layer in (classifier, pose_classifier)
        )
        class_logits = class_logits_of(logits)
        scores = rotation_scores(class_logits, pose_logits, shown.poses.cpu())
        return Judged(scores, class_logits.argmax(dim=1))

    return in_batches(judge_batch, encoder.images_at_once)


def _pose_classifier_of(trained: TrainedNetwork) -> nn.Linear:
    pose_classifier = trained.network.pose_classifier
    if pose_classifier is None:
        raise SettingsError(
            f"a network trained with rotations={trained.settings.rotations!r} does not predict "
            f"turns; train one with objective='cross-entropy' and rotations='task'"
        )
    return pose_classifier
