"""Where normal ends: a threshold with a known share of false alarms, and p-values.

Held-out normal images and a new normal image are exchangeable: the new one is as likely to be
the oddest, the second oddest, ... as any of them. All that is here follows from that, whatever
the scores' distribution is. It is as true among the images of one predicted class, so each class
may have a threshold of its own: Mondrian conformal prediction (Vovk, Gammerman and Shafer,
Algorithmic Learning in a Random World, 2005).
"""

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float64, Int, Int64
from scipy.stats import beta
from torch import Tensor

from oddone.errors import DataError, DataWarning, SettingsError
from oddone.verdicts import exceeds

CONFIDENCE = 0.95


class Interval(NamedTuple):
    """Where a share lies, with 95 % confidence."""

    low: float
    high: float


def check_false_alarms(false_alarms: float) -> None:
    """Raise a SettingsError unless this is a share of images that a threshold can be set by."""
    if not 0 < false_alarms < 1:
        raise SettingsError(
            f"false_alarms={false_alarms:g}: choose a share above 0 and below 1, such as 0.05"
        )


@dataclass(frozen=True, eq=False)
class Calibration:
    """The scores of held-out normal images, and how many false alarms are wanted.

    Examples
    --------
    >>> import torch
    >>> calibration = Calibration.of(torch.arange(1000.0), false_alarms=0.05)
    >>> calibration.threshold
    950.0
    >>> calibration.p_values(torch.tensor([500.0, 2000.0]))
    tensor([0.5005, 0.0010], dtype=torch.float64)

    With the predicted labels of the images, each class has a threshold of its own:

    >>> labels = torch.arange(1000) // 500
    >>> per_class = Calibration.of(torch.arange(1000.0), false_alarms=0.05, labels=labels)
    >>> per_class.thresholds(torch.tensor([0, 1]))
    tensor([475., 975.], dtype=torch.float64)

    """

    scores: Float64[Tensor, " images"]
    """In ascending order."""
    false_alarms: float
    """The share of normal images that may be called anomalous."""
    labels: Int64[Tensor, " images"] | None = None
    """The predicted classes, in the order of the scores; None: all classes share a threshold."""

    @staticmethod
    def of(
        scores: Float[Tensor, " images"],
        false_alarms: float,
        labels: Int[Tensor, " images"] | None = None,
    ) -> "Calibration":
        """Return the calibration by these scores; warn where they are too few to say much.

        Parameters
        ----------
        scores
            The scores of normal images that were not trained on.
        false_alarms
            The share of normal images that may be called anomalous.
        labels
            The predicted classes of these images, for a threshold per class; by default all
            classes share one. A class that has too few images to promise `false_alarms` shares
            that of all images.

        """
        check_false_alarms(false_alarms)
        if len(scores) == 0:
            raise DataError("calibration needs images that are normal and new; 0 were given")
        if not scores.isfinite().all():
            raise DataError(
                f"{int((~scores.isfinite()).sum())} of {len(scores)} calibration scores are not "
                f"finite; fit the detector with more shrinkage"
            )
        scores = scores.double().cpu()
        if labels is not None:
            labels = _in_order_of(scores, labels.long().cpu())
        calibration = Calibration(scores.sort().values, false_alarms, labels)
        for doubt in _doubts(calibration):
            warnings.warn(doubt, DataWarning, stacklevel=3)
        return calibration

    @property
    def rank(self) -> int:
        """How many of the held-out images are at or above the threshold, one at least."""
        return max(1, math.floor(self.false_alarms * (len(self.scores) + 1) + 1e-9))

    @property
    def threshold(self) -> float:
        """The score above which an image is anomalous, by all held-out images together.

        Above it are the images with a p-value of at most `false_alarms`.
        """
        return self.scores[-self.rank].item()

    @property
    def interval(self) -> Interval:
        """Where the true share of false alarms lies: it is Beta(rank, images + 1 - rank)."""
        outside = (1 - CONFIDENCE) / 2
        low, high = beta.ppf((outside, 1 - outside), self.rank, len(self.scores) + 1 - self.rank)
        return Interval(float(low), float(high))

    @property
    def images_needed(self) -> int:
        """How many held-out images can promise false alarms as rare as wanted."""
        return math.ceil(1 / self.false_alarms) - 1

    @property
    def own_classes(self) -> list[int]:
        """The labels with enough held-out images for a threshold of their own."""
        if self.labels is None:
            return []
        labels, images = self.labels.unique(return_counts=True)
        return [int(label) for label in labels[images >= self.images_needed]]

    def for_class(self, label: int) -> "Calibration":
        """Return what decides about images of this predicted class, without labels.

        These are the held-out images of the class where they are enough, and all images otherwise.

        Parameters
        ----------
        label
            The predicted class.

        """
        if self.labels is None:
            return self
        own = self.scores[self.labels == label]
        return Calibration(
            own if len(own) >= self.images_needed else self.scores, self.false_alarms
        )

    def thresholds(self, labels: Int[Tensor, " images"]) -> Float64[Tensor, " images"]:
        """Return the scores above which images of these predicted classes are anomalous.

        Parameters
        ----------
        labels
            The predicted classes of the images.

        """
        thresholds = torch.empty(len(labels), dtype=torch.float64)
        for own, calibration in self._by_class(labels):
            thresholds[own] = calibration.threshold
        return thresholds

    def anomalous(
        self, scores: Float[Tensor, " images"], labels: Int[Tensor, " images"] | None = None
    ) -> Bool[Tensor, " images"]:
        """Return which images score above the threshold, that of their class where there is one.

        A score that is not finite is always above it.

        Parameters
        ----------
        scores
            The scores of new images.
        labels
            Their predicted classes; a calibration without labels needs none.

        """
        if self.labels is None:
            return exceeds(scores.double().cpu(), self.threshold)
        anomalous = torch.empty(len(scores), dtype=torch.bool)
        for own, calibration in self._by_class(labels):
            anomalous[own] = calibration.anomalous(scores[own])
        return anomalous

    def p_values(
        self, scores: Float[Tensor, " images"], labels: Int[Tensor, " images"] | None = None
    ) -> Float64[Tensor, " images"]:
        """Return the share of normal images, a new one among them, that are this odd or odder.

        A score that is not finite is odder than all of them.

        Parameters
        ----------
        scores
            The scores of new images.
        labels
            Their predicted classes; a calibration without labels needs none.

        """
        if self.labels is None:
            images = len(self.scores)
            scores = scores.double().cpu().nan_to_num(torch.inf, torch.inf, torch.inf)
            below = torch.searchsorted(self.scores, scores.contiguous())
            return (1 + images - below).double() / (1 + images)
        p_values = torch.empty(len(scores), dtype=torch.float64)
        for own, calibration in self._by_class(labels):
            p_values[own] = calibration.p_values(scores[own])
        return p_values

    def _by_class(
        self, labels: Int[Tensor, " images"] | None
    ) -> Iterator[tuple[Bool[Tensor, " images"], "Calibration"]]:
        """Yield for each class which images are of it, and what decides about them."""
        if labels is None:
            raise SettingsError(
                "this calibration has a threshold per class; give the predicted labels too"
            )
        labels = labels.cpu()
        for label in labels.unique().tolist():
            yield labels == label, self.for_class(label)


def _in_order_of(
    scores: Float64[Tensor, " images"], labels: Int64[Tensor, " labels"]
) -> Int64[Tensor, " images"]:
    """Return the labels as the ascending scores have them; of equal scores, in their own order."""
    if len(labels) != len(scores) or (labels < 0).any():
        raise DataError(
            f"{len(labels)} labels, {int((labels < 0).sum())} of them below 0, do not go with "
            f"{len(scores)} calibration scores; give the predicted label of every image"
        )
    order = labels.argsort()
    return labels[order[scores[order].argsort(stable=True)]]


def _doubts(calibration: Calibration) -> Iterator[str]:
    """Yield what the user should know of images that are too few."""
    labels = calibration.labels
    seen = [] if labels is None else labels.unique().tolist()
    own, needed = calibration.own_classes, calibration.images_needed
    if len(own) < len(seen):
        yield (
            f"{len(seen) - len(own)} of {len(seen)} predicted classes have fewer than {needed} "
            f"held-out images, too few for a threshold of their own, and share that of all images; "
            f"calibrate with more"
        )
    fewest = min(map(calibration.for_class, own), key=_images, default=calibration)
    images, (low, high), wanted = _images(fewest), fewest.interval, calibration.false_alarms
    if images < needed:
        yield (
            f"{images} held-out images cannot promise false alarms as rare as {wanted:.1%}: expect "
            f"{1 / (images + 1):.1%}, up to {high:.1%}; calibrate with {needed} at least"
        )
    elif high > 2 * wanted:
        yield (
            f"with {images} held-out images{' of a class' if own else ''}, the share of false "
            f"alarms may be {low:.1%} to {high:.1%} (wanted: {wanted:.1%}); calibrate with more "
            f"images to know it better"
        )


def _images(calibration: Calibration) -> int:
    return len(calibration.scores)
