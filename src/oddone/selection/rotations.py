"""Whether rotations help a head: classes are left out of some that learn them, and of some not."""

from collections.abc import Sequence
from dataclasses import replace

from jaxtyping import Float, Int
from torch import Tensor

from oddone.progress import Progress
from oddone.selection.candidates import DISTANCE, Candidate
from oddone.selection.estimate import (
    Estimate,
    HeadEstimate,
    choose_candidate,
    comparable,
    compare_heads,
    score_folds,
)
from oddone.selection.folds import folds_to_compare
from oddone.selection.head import UPRIGHT

FOLDS_WITH_HEADS = 5
"""A head takes seconds, so classes are left out some at a time."""
NEARLY_ALL = 0.98
"""An AUROC from which on left-out classes say nothing of rotations. They are so unlike the others
that hardly anything is left to gain on them, while rotations are for what resembles a class
(docs/decisions/0012-rules-by-leaving-classes-out.md)."""


def compare_rotations(
    features: Float[Tensor, "views images dim"],
    labels: Int[Tensor, " images"],
    classes: Sequence[str],
    candidate: Candidate = DISTANCE,
    progress: Progress | None = None,
) -> Estimate | None:
    """Return what left-out classes say of heads with rotations and without, and of the better.

    For each fold MCL trains one head with rotations, and one without unless those with rotations
    tell `NEARLY_ALL` apart. The result is None where too little remains to compare: with one class,
    or too few images.

    Parameters
    ----------
    features
        Those of the views of `rotations_and_mirrors`, of unit length.
    labels, classes
        The class of each image, and the names of all.
    candidate
        How images are scored.
    progress
        Called with how many heads are trained.

    """
    folds = folds_to_compare(labels.numpy(), most=FOLDS_WITH_HEADS)

    def estimate(views: Float[Tensor, "views images dim"], what: str) -> Estimate | None:
        scores = score_folds(views, labels, folds, progress, what)
        if not comparable(scores, [candidate]):
            return None
        return choose_candidate(scores, classes, [candidate])[1]

    with_poses = estimate(features, "comparing with rotations")
    if with_poses is None:
        return None
    if with_poses.auroc >= NEARLY_ALL:
        return replace(with_poses, head=HeadEstimate("task", None))
    upright = estimate(features[UPRIGHT], "comparing without rotations")
    return None if upright is None else compare_heads(with_poses, upright)
