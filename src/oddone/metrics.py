"""How well anomaly scores tell OOD from IND images; OOD is the positive class.

Every metric takes `ind_scores, ood_scores`, higher = more anomalous, and returns a number in 0..1.
Tied scores are never split: all of them lie on one side of a threshold.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64, Int64
from sklearn.metrics import (
    auc,
    average_precision_score,
    precision_recall_curve,
)
from torch import Tensor

from oddone.errors import DataError

Numbers = Tensor | np.ndarray | Sequence[float] | Sequence[int]


def auroc(ind_scores: Numbers, ood_scores: Numbers) -> float:
    """Return the chance that a random OOD image outscores a random IND one (ties: half).

    Parameters
    ----------
    ind_scores
        The anomaly scores of images in distribution.
    ood_scores
        Those of images out of distribution. Higher = more anomalous in both.

    Examples
    --------
    >>> auroc([1, 2, 3, 4], [3, 5])
    0.8125

    """
    ind = np.sort(_checked(ind_scores, "ind_scores"))
    ood = _checked(ood_scores, "ood_scores")
    # Counted: scikit-learn takes milliseconds, and `oddone fit` of 500 classes asks 3,000 times.
    outscored = np.searchsorted(ind, ood, side="left") + np.searchsorted(ind, ood, side="right")
    return int(outscored.sum()) / (2 * len(ind) * len(ood))


def aupr_out(ind_scores: Numbers, ood_scores: Numbers) -> float:
    """Return the average precision of finding OOD images, from the highest score down.

    Parameters
    ----------
    ind_scores
        The anomaly scores of images in distribution.
    ood_scores
        Those of images out of distribution. Higher = more anomalous in both.

    Examples
    --------
    >>> aupr_out([1, 2, 3, 4], [3.5, 5])
    0.8333333333333333

    """
    ind, ood = _ranked(ind_scores, ood_scores)
    precision = average_precision_score(_targets(ind, ood), np.concatenate((ind, ood)))
    return min(float(precision), 1.0)  # the sum over thresholds may round to a little above 1


def aupr_in(ind_scores: Numbers, ood_scores: Numbers) -> float:
    """Return the average precision of finding IND images, from the lowest score up.

    Parameters
    ----------
    ind_scores
        The anomaly scores of images in distribution.
    ood_scores
        Those of images out of distribution. Higher = more anomalous in both.

    Examples
    --------
    >>> aupr_in([1, 2, 3, 4], [3.5, 5])
    0.95

    """
    ind, ood = _ranked(ind_scores, ood_scores)
    return aupr_out(-ood, -ind)


def aupr_out_trapezoid(ind_scores: Numbers, ood_scores: Numbers) -> float:
    """Return the area under the precision-recall curve of OOD images, its points joined by lines.

    OpenOOD measures AUPR so. Where scores are tied, such lines are too high, so `aupr_out` is
    preferred.
    """
    ind, ood = _ranked(ind_scores, ood_scores)
    precision, recall, _ = precision_recall_curve(_targets(ind, ood), np.concatenate((ind, ood)))
    return min(float(auc(recall, precision)), 1.0)  # as above


def aupr_in_trapezoid(ind_scores: Numbers, ood_scores: Numbers) -> float:
    """Return the same area for IND images, from the lowest score up."""
    ind, ood = _ranked(ind_scores, ood_scores)
    return aupr_out_trapezoid(-ood, -ind)


def fpr_at_95_ind(ind_scores: Numbers, ood_scores: Numbers) -> float:
    """Return the share of OOD images accepted when at least 95 % of IND images are (the paper).

    Parameters
    ----------
    ind_scores
        The anomaly scores of images in distribution.
    ood_scores
        Those of images out of distribution. Higher = more anomalous in both.

    Examples
    --------
    >>> fpr_at_95_ind([1, 2, 3, 4], [3.5, 5])
    0.5

    """
    ind, ood = _checked(ind_scores, "ind_scores"), _checked(ood_scores, "ood_scores")
    threshold = np.sort(ind)[_ceil_95_percent(len(ind)) - 1]
    return float(np.mean(ood <= threshold))


def fpr_at_95_ood(ind_scores: Numbers, ood_scores: Numbers) -> float:
    """Return the share of IND images called anomalous when 95 % of OOD images are (OpenOOD).

    Parameters
    ----------
    ind_scores
        The anomaly scores of images in distribution.
    ood_scores
        Those of images out of distribution. Higher = more anomalous in both.

    Examples
    --------
    >>> fpr_at_95_ood([1, 2, 3, 4], [3.5, 5])
    0.25

    """
    ind, ood = _checked(ind_scores, "ind_scores"), _checked(ood_scores, "ood_scores")
    return fpr_at_95_ind(-ood, -ind)


def accuracy(predicted: Numbers, labels: Numbers) -> float:
    """Return the share of images whose predicted label is the true one.

    Parameters
    ----------
    predicted
        One label for each image.
    labels
        The true ones, in the same order.

    Examples
    --------
    >>> accuracy([0, 1, 1], [0, 1, 2])
    0.6666666666666666

    """
    guesses, truth = _checked(predicted, "predicted"), _checked(labels, "labels")
    if guesses.shape != truth.shape:
        raise DataError(f"{len(guesses)} predicted labels for {len(truth)} images; pass one each")
    return float(np.mean(guesses == truth))


def _checked(numbers: Numbers, name: str) -> Float64[np.ndarray, " images"]:
    if isinstance(numbers, Tensor):
        numbers = numbers.detach().cpu().double().numpy()
    values = np.asarray(numbers, dtype=np.float64)
    if values.ndim != 1 or len(values) == 0:
        raise DataError(f"{name} has shape {values.shape}; pass a list of at least one number")
    nans = int(np.isnan(values).sum())
    if nans:
        raise DataError(
            f"{name} holds {nans} NaN among {len(values)} numbers; leave those images out"
        )
    return values


def _ranked(
    ind_scores: Numbers, ood_scores: Numbers
) -> tuple[Int64[np.ndarray, " ind"], Int64[np.ndarray, " ood"]]:
    """Return the scores as ranks, equal for equal scores, so that infinite ones can be compared."""
    ind, ood = _checked(ind_scores, "ind_scores"), _checked(ood_scores, "ood_scores")
    _, ranks = np.unique(np.concatenate((ind, ood)), return_inverse=True)
    return ranks[: len(ind)], ranks[len(ind) :]


def _targets(ind: np.ndarray, ood: np.ndarray) -> np.ndarray:
    """Return which of the scores, IND before OOD, are OOD."""
    return np.repeat((0, 1), (len(ind), len(ood)))


def _ceil_95_percent(n: int) -> int:
    """Return the least count that is at least 95 % of n, in whole numbers."""
    return -(-95 * n // 100)
