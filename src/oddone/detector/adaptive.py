"""Adaptive SEI: as many views of an image as its verdict needs.

An image is scored by two views, and by further ones while these could still change the
verdict: whether it is anomalous, and its label. How far a verdict must be from another one is
learned on the images of the calibration, whose verdicts by all views are known. The argument is
that of the threshold: a new normal image is as likely as any of them to be the one that needs
most care (docs/decisions/0014-views-as-needed.md).
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor
from torch.nn.functional import pad

from oddone.detector.calibration import Calibration
from oddone.errors import DataError, SettingsError
from oddone.transforms import ViewSet

STAGES = (2, 3, 4, 6)
"""After how many views an image may be decided; otherwise all are looked at. One is not enough:
much that is odd looks normal from one side, and normal images do not tell."""
CHANGED_VERDICTS = 0.0025
"""The share of normal images that may get another verdict than by all views."""
SMALLEST = 1e-12
"""Where views always say what all views say, their margins are zero, and are no divisor."""


class PartialVerdicts(NamedTuple):
    """What some views say of images."""

    scores: Float64[Tensor, " images"]
    labels: Int[Tensor, " images"]
    label_margins: Float64[Tensor, " images"]
    """By how much the label is likelier than any other class, as a difference of logarithms."""

    @staticmethod
    def of(
        scores: Float[Tensor, " images"], probabilities: Float[Tensor, "images classes"]
    ) -> "PartialVerdicts":
        """Return what scores and probabilities say; of a single class one is as sure as can be."""
        impossible = torch.finfo(torch.float32).tiny
        likely = probabilities.cpu().double().clamp(min=impossible)
        first, second = pad(likely, (0, 1), value=impossible).topk(2, dim=1).values.log().unbind(1)
        return PartialVerdicts(scores.cpu().double(), likely.argmax(dim=1), first - second)

    @staticmethod
    def nothing() -> "PartialVerdicts":
        """Return what is said of no images."""
        return PartialVerdicts.of(torch.empty(0), torch.empty(0, 1))

    @staticmethod
    def concatenate(parts: "Sequence[PartialVerdicts]") -> "PartialVerdicts":
        """Return what is said of the images of all parts."""
        return PartialVerdicts(*(torch.cat(each) for each in zip(*parts, strict=True)))


class ViewStage(NamedTuple):
    """Some more views, and when they are enough together with those before."""

    views: tuple[int, ...]
    """The numbers of the views that are added."""
    slope: float
    offset: float
    """From the score by these views to the one that all views may be expected to give."""
    score_margin: float
    """How far that must be from the threshold."""
    label_margin: float
    """How much likelier than any other class the label must be, as a difference of logarithms."""

    def expected(self, partial: PartialVerdicts) -> PartialVerdicts:
        """Return what all views may be expected to say."""
        return partial._replace(scores=self.slope * partial.scores + self.offset)

    def decided(
        self, expected: PartialVerdicts, thresholds: Float64[Tensor, " classes"]
    ) -> Bool[Tensor, " images"]:
        """Return which images need no further view. One whose score is no number does."""
        far = (expected.scores - thresholds[expected.labels]).abs() > self.score_margin
        return far & (expected.label_margins > self.label_margin)


def possible_stages(views: ViewSet, *, upright_first: bool) -> list[tuple[int, ...]]:
    """Return the views that each stage may add before all are looked at.

    Poses tell more than mirror images, and come first in a `ViewSet`. But where the classifier
    knows upright images only, its label and energy are final after these.
    """
    if len(views) <= STAGES[0]:
        raise SettingsError(
            f"adaptive=True: this detector looks at {len(views)} of the views of an image, and "
            f"{STAGES[0]} are always looked at; leave it out"
        )
    order = sorted(range(len(views)), key=lambda view: upright_first and views.poses[view] > 0)
    ends = [n_views for n_views in STAGES if n_views < len(views)]
    return [tuple(order[start:end]) for start, end in pairwise([0, *ends])]


def all_stages(stages: Sequence[ViewStage], views: ViewSet) -> list[ViewStage]:
    """Return the stages, and as a last one that all other views decide everything."""
    added = {view for stage in stages for view in stage.views}
    others = tuple(view for view in range(len(views)) if view not in added)
    return [*stages, ViewStage(others, slope=1.0, offset=0.0, score_margin=-1.0, label_margin=-1.0)]


def check_stages(stages: Sequence[ViewStage], views: ViewSet, *, calibrated: bool) -> None:
    """Raise a SettingsError unless images can be decided in these stages."""
    if stages and not calibrated:
        raise SettingsError(
            "stages decide about images by a threshold, and there is none; make them with "
            "calibrate(adaptive=True)"
        )
    added = [view for stage in stages for view in stage.views]
    in_turn = all(stage.views for stage in stages) and len(set(added)) == len(added) < len(views)
    if stages and not (in_turn and added[0] == 0 and set(added) < set(range(len(views)))):
        raise SettingsError(
            f"stages with the views {[list(stage.views) for stage in stages]} do not go from the "
            f"first towards all {len(views)}; make them with calibrate(adaptive=True)"
        )
    for stage in stages:
        lines, margins = torch.tensor(stage[1:3]), torch.tensor(stage[3:])
        if not lines.isfinite().all() or margins.isnan().any():
            raise SettingsError(
                f"a stage has {stage[1:]}, and not all are numbers; make it with "
                f"calibrate(adaptive=True)"
            )


def learn_stages(
    added: Sequence[tuple[int, ...]], by_stage: Sequence[PartialVerdicts], calibration: Calibration
) -> tuple[ViewStage, ...]:
    """Return when views are enough: `CHANGED_VERDICTS` of new normal images get another verdict.

    That is the share to expect at most, as `false_alarms` is.

    Parameters
    ----------
    added
        The views that each stage adds, but the last.
    by_stage
        What is said in each stage of the images of the calibration; in the last, by all views.
    calibration
        The calibration by all views.

    """
    *stages, full = by_stage
    if not stages:
        return ()
    needed = math.ceil(1 / CHANGED_VERDICTS) - 1
    if len(full.scores) < needed:
        raise DataError(
            f"{len(full.scores)} images are too few to learn how many views a verdict needs; "
            f"calibrate with {needed} at least, or leave adaptive views out"
        )
    # In these units, one care suits all stages, scores and labels alike.
    units = [_fitted(views, partial, full) for views, partial in zip(added, stages, strict=True)]
    care = torch.zeros(len(full.scores), dtype=torch.float64)
    for unit, partial in zip(units, stages, strict=True):
        care = care.maximum(_care_needed(unit, unit.expected(partial), full, calibration))
    # A new normal image needs more than this as rarely as it scores above a threshold.
    enough = Calibration(care.sort().values, CHANGED_VERDICTS).threshold
    return tuple(
        unit._replace(
            score_margin=enough * unit.score_margin, label_margin=enough * unit.label_margin
        )
        for unit in units
    )


def _fitted(views: tuple[int, ...], partial: PartialVerdicts, full: PartialVerdicts) -> ViewStage:
    """Return the line from scores to those of all views, and how far both are off: the units."""
    centred = partial.scores - partial.scores.mean()
    variance = float(centred.square().mean())
    slope = float((centred * full.scores).mean()) / variance if variance > 0 else 1.0
    offset = float(full.scores.mean() - slope * partial.scores.mean())
    residuals = full.scores - (slope * partial.scores + offset)
    same = full.labels == partial.labels
    changes = partial.label_margins - full.label_margins * torch.where(same, 1.0, -1.0)
    return ViewStage(views, slope, offset, _root_mean_square(residuals), _root_mean_square(changes))


def _care_needed(
    unit: ViewStage, expected: PartialVerdicts, full: PartialVerdicts, calibration: Calibration
) -> Float64[Tensor, " images"]:
    """Return how many units of margin keep a stage from deciding otherwise than all views do."""
    thresholds = calibration.thresholds(expected.labels)
    distances = (expected.scores - thresholds).abs() / max(unit.score_margin, SMALLEST)
    odds = expected.label_margins / max(unit.label_margin, SMALLEST)
    anomalous = calibration.anomalous(expected.scores, expected.labels)
    changed = (anomalous != calibration.anomalous(full.scores, full.labels)) | (
        expected.labels != full.labels
    )
    return distances.minimum(odds).where(changed, 0.0)


def _root_mean_square(values: Float64[Tensor, " images"]) -> float:
    return float(values.square().mean().sqrt())
