"""Auxiliary rotation (Hendrycks, Mazeika, Kadavath and Song, NeurIPS 2019).

"Using Self-Supervised Learning Can Improve Model Robustness and Uncertainty": a classifier that
also predicts rotations is less sure of those of OOD images.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor, nn

from oddone.baselines.logits import classifier_of
from oddone.baselines.scorer import BaselineScorer
from oddone.detector import ViewEmbedder
from oddone.encoders import TrainedNetwork
from oddone.errors import SettingsError
from oddone.fusion import PerImage, PerView, average
from oddone.scoring import ImageBatch
from oddone.transforms import ViewSet, rotations, rotations_and_mirrors
from oddone.verdicts import Verdicts


def rotation(trained: TrainedNetwork) -> BaselineScorer:
    """Return the scorer by how sure the image's class is, and how clear its four rotations.

    Parameters
    ----------
    trained
        A network that was trained with objective="cross-entropy" and rotations="task".

    Examples
    --------
    >>> from dataclasses import replace
    >>> import oddone
    >>> from oddone.baselines import rotation
    >>> from oddone.presets import smoke
    >>> from oddone.scoring import score_images
    >>> detector = oddone.train("fashion:known", replace(smoke(), objective="cross-entropy"))
    >>> scorer = rotation(detector.embedder.trained)
    >>> len(score_images(scorer, oddone.load("fashion:unseen#test")).scores)
    400

    """
    return _view_scorer(trained, rotations, _first_view)


def rotation_sei(trained: TrainedNetwork, views: ViewSet = rotations_and_mirrors) -> BaselineScorer:
    """Return the scorer of `rotation`, with the logits and poses of all views averaged.

    This is the row "Auxiliary Rotation + SEI" of the paper's main table (Cho, Seol and Lee, IJCAI
    2021). The paper does not say how the logits are joined. Here they are averaged (Eq. 17), which
    after the softmax is the same as to average the log-probabilities: views that disagree leave the
    ensemble unsure.

    Parameters
    ----------
    trained
        A network that was trained with objective="cross-entropy" and rotations="task".
    views
        The views of an image; by default those of 8-way SEI.

    Examples
    --------
    >>> from dataclasses import replace
    >>> import oddone
    >>> from oddone.baselines import rotation_sei
    >>> from oddone.presets import smoke
    >>> from oddone.scoring import score_images
    >>> detector = oddone.train("fashion:known", replace(smoke(), objective="cross-entropy"))
    >>> scorer = rotation_sei(detector.embedder.trained)
    >>> len(score_images(scorer, oddone.load("fashion:unseen#test")).scores)
    400

    """
    return _view_scorer(trained, views, average)


def rotation_scores(
    logits: Float[Tensor, "images classes"],
    pose_logits: Float[Tensor, "views images poses"],
    poses: Int[Tensor, " views"],
) -> Float64[Tensor, " images"]:
    """Return -KL(uniform || classes), plus the views' mean cross-entropy of their true pose.

    This is the multi-class score of the original's code (there in bits, here in nats).

    Parameters
    ----------
    logits
        What the classifier makes of each image.
    pose_logits
        What the classifier of poses makes of each view.
    poses
        The true pose of each view.

    Examples
    --------
    >>> import torch
    >>> unsure = rotation_scores(torch.zeros(1, 8), torch.zeros(4, 1, 4), torch.arange(4))
    >>> sure = rotation_scores(torch.eye(1, 8), torch.eye(4)[:, None], torch.arange(4))
    >>> unsure > sure
    tensor([True])

    """
    n_classes, n_views = logits.shape[1], len(poses)
    certainty = -logits.double().log_softmax(dim=1).mean(dim=1) - math.log(n_classes)
    log_probabilities = pose_logits.double().log_softmax(dim=2)
    confusion = -log_probabilities[torch.arange(n_views), :, poses].mean(dim=0)
    return confusion - certainty


def _first_view(logits: PerView) -> PerImage:
    """Return the logits of the first view, which is the image as it is."""
    return logits[0]


def _view_scorer(
    trained: TrainedNetwork, views: ViewSet, fuse_logits: Callable[[PerView], PerImage]
) -> BaselineScorer:
    """Return the scorer by how clear the poses of the views are, and by their fused logits."""
    classifier, pose_classifier = classifier_of(trained), _pose_classifier_of(trained)
    embedder = ViewEmbedder(trained, views)

    @torch.no_grad()
    def score_batch(images: ImageBatch) -> Verdicts:
        shown = views(embedder.prepare(images))
        rows = shown.flatten(0, 1).contiguous(memory_format=torch.channels_last)
        features = trained.network(rows).features
        logits, pose_logits = (
            layer(features).cpu().unflatten(0, shown.shape[:2])
            for layer in (classifier, pose_classifier)
        )
        fused = fuse_logits(logits)
        scores = rotation_scores(fused, pose_logits, embedder.poses)
        return Verdicts(scores, fused.argmax(dim=1), probabilities=fused.softmax(dim=1))

    return BaselineScorer(score_batch, trained.image_size, embedder.batch_size)


def _pose_classifier_of(trained: TrainedNetwork) -> nn.Linear:
    pose_classifier = trained.network.pose_classifier
    if pose_classifier is None:
        raise SettingsError(
            f"a network trained with rotations={trained.rotations!r} does not predict poses; "
            f"train one with objective='cross-entropy' and rotations='task'"
        )
    return pose_classifier
