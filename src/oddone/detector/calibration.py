"""Where normal ends: a threshold with a known share of false alarms, and p-values.

Held-out normal images and a new normal image are exchangeable: the new one is as likely to be
the oddest, the second oddest, ... as any of them. All that is here follows from that, whatever
the scores' distribution is.
"""

import math
import warnings
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Float64
from scipy.stats import beta
from torch import Tensor

from oddone.errors import DataError, DataWarning, SettingsError

CONFIDENCE = 0.95


class Interval(NamedTuple):
    """Where a share lies, with 95 % confidence."""

    low: float
    high: float


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

    """

    scores: Float64[Tensor, " images"]
    """In ascending order."""
    false_alarms: float
    """The share of normal images that may be called anomalous."""

    @staticmethod
    def of(scores: Float[Tensor, " images"], false_alarms: float) -> "Calibration":
        """Return the calibration by these scores; warn where they are too few to say much.

        Parameters
        ----------
        scores
            The scores of normal images that were not trained on.
        false_alarms
            The share of normal images that may be called anomalous.

        """
        if not 0 < false_alarms < 1:
            raise SettingsError(
                f"false_alarms={false_alarms:g}: choose a share above 0 and below 1, such as 0.05"
            )
        if len(scores) == 0:
            raise DataError("calibration needs images that are normal and new; 0 were given")
        if not scores.isfinite().all():
            raise DataError(
                f"{int((~scores.isfinite()).sum())} of {len(scores)} calibration scores are not "
                f"finite; fit the detector with more shrinkage"
            )
        calibration = Calibration(scores.double().cpu().sort().values, false_alarms)
        calibration._warn_if_wide()
        return calibration

    @property
    def rank(self) -> int:
        """How many of the held-out images are at or above the threshold, one at least."""
        return max(1, math.floor(self.false_alarms * (len(self.scores) + 1) + 1e-9))

    @property
    def threshold(self) -> float:
        """The score above which an image is anomalous.

        Above it are the images with a p-value of at most `false_alarms`.
        """
        return self.scores[-self.rank].item()

    @property
    def interval(self) -> Interval:
        """Where the true share of false alarms lies: it is Beta(rank, images + 1 - rank)."""
        outside = (1 - CONFIDENCE) / 2
        low, high = beta.ppf((outside, 1 - outside), self.rank, len(self.scores) + 1 - self.rank)
        return Interval(float(low), float(high))

    def p_values(self, scores: Float[Tensor, " images"]) -> Float64[Tensor, " images"]:
        """Return the share of normal images, a new one among them, that are this odd or odder."""
        images = len(self.scores)
        below = torch.searchsorted(self.scores, scores.double().cpu().contiguous())
        return (1 + images - below).double() / (1 + images)

    def _warn_if_wide(self) -> None:
        images, high = len(self.scores), self.interval.high
        enough = math.ceil(1 / self.false_alarms) - 1
        if images < enough:
            warnings.warn(
                f"{images} held-out images cannot promise false alarms as rare as "
                f"{self.false_alarms:.1%}: expect {1 / (images + 1):.1%}, up to {high:.1%}; "
                f"calibrate with {enough} at least",
                DataWarning,
                stacklevel=4,
            )
        elif high > 2 * self.false_alarms:
            warnings.warn(
                f"with {images} held-out images, the share of false alarms may be "
                f"{self.interval.low:.1%} to {high:.1%} (wanted: {self.false_alarms:.1%}); "
                f"calibrate with more images to know it better",
                DataWarning,
                stacklevel=4,
            )
