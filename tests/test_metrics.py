from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from sklearn.metrics import roc_curve

import oracles
from oddone.errors import DataError
from oddone.metrics import (
    accuracy,
    aupr_in,
    aupr_in_trapezoid,
    aupr_out,
    aupr_out_trapezoid,
    auroc,
    fpr_at_95_ind,
    fpr_at_95_ood,
)

Metric = Callable[[object, object], float]
METRICS: list[Metric] = [
    auroc,
    aupr_in,
    aupr_out,
    aupr_in_trapezoid,
    aupr_out_trapezoid,
    fpr_at_95_ind,
    fpr_at_95_ood,
]
metrics = pytest.mark.parametrize("metric", METRICS)

# Few distinct values, so that ties are the rule.
scores = st.lists(st.sampled_from([-1e9, -1.5, 0.0, 0.1, 0.2, 3.0, 1e9]), min_size=1, max_size=40)

ORACLES: dict[Metric, Callable[[list[float], list[float]], float]] = {
    auroc: oracles.auroc,
    aupr_out: lambda ind, ood: oracles.average_precision(ood, ind),
    aupr_in: lambda ind, ood: oracles.average_precision([-i for i in ind], [-o for o in ood]),
    aupr_out_trapezoid: lambda ind, ood: oracles.aupr_trapezoid(ood, ind),
    aupr_in_trapezoid: lambda ind, ood: oracles.aupr_trapezoid(
        [-i for i in ind], [-o for o in ood]
    ),
    fpr_at_95_ind: oracles.fpr_at_95_ind,
    fpr_at_95_ood: oracles.fpr_at_95_ood,
}


@metrics
@given(ind=scores, ood=scores)
def test_a_metric_is_its_definition_with_ties(
    metric: Metric, ind: list[float], ood: list[float]
) -> None:
    assert metric(ind, ood) == pytest.approx(ORACLES[metric](ind, ood), abs=1e-12)


@given(ind=scores, ood=scores)
def test_auroc_counts_and_so_rounds_once(ind: list[float], ood: list[float]) -> None:
    assert auroc(ind, ood) == oracles.auroc(ind, ood)


@metrics
@given(ind=scores, ood=scores)
def test_only_the_order_of_scores_matters(
    metric: Metric, ind: list[float], ood: list[float]
) -> None:
    def stretched(values: list[float]) -> list[float]:
        return [3 * v + np.sign(v) * 7 for v in values]

    assert metric(stretched(ind), stretched(ood)) == pytest.approx(metric(ind, ood), abs=1e-12)


@given(ind=scores, ood=scores)
def test_exchanging_the_two_sides_mirrors_the_metrics(ind: list[float], ood: list[float]) -> None:
    mirrored_ind, mirrored_ood = [-o for o in ood], [-i for i in ind]
    assert auroc(ood, ind) == pytest.approx(1 - auroc(ind, ood))
    assert aupr_in(ind, ood) == pytest.approx(aupr_out(mirrored_ind, mirrored_ood))
    assert aupr_in_trapezoid(ind, ood) == pytest.approx(
        aupr_out_trapezoid(mirrored_ind, mirrored_ood)
    )
    assert fpr_at_95_ood(ind, ood) == fpr_at_95_ind(mirrored_ind, mirrored_ood)


def test_scores_that_separate_are_perfect() -> None:
    ind, ood = [0.0, 1.0, 2.0], [3.0, 4.0]
    assert [metric(ind, ood) for metric in METRICS] == [1, 1, 1, 1, 1, 0, 0]


@metrics
def test_a_metric_is_a_share_however_its_sums_are_rounded(metric: Metric) -> None:
    for images in (20, 21, 43, 45):  # where scikit-learn's average precision is above 1
        assert 0 <= metric(range(images), [1000] * 12) <= 1


def test_constant_scores_know_nothing() -> None:
    ind, ood = [1.0] * 30, [1.0] * 10
    assert [metric(ind, ood) for metric in METRICS] == [0.5, 0.75, 0.25, 0.875, 0.625, 1, 1]


def test_trapezoids_join_the_points_of_the_curve() -> None:
    ind, ood = [0.0, 2.0], [1.0, 3.0]
    # From 3 down, (recall, precision) of OOD images: (1/2, 1), (1/2, 1/2), (1, 2/3), (1, 1/2).
    assert aupr_out_trapezoid(ind, ood) == pytest.approx(1 / 2 + 1 / 2 * (1 / 2 + 2 / 3) / 2)
    assert aupr_out(ind, ood) == pytest.approx(1 / 2 + 1 / 2 * 2 / 3)
    # From 0 up, those of IND images are the same.
    assert aupr_in_trapezoid(ind, ood) == pytest.approx(aupr_out_trapezoid(ind, ood))
    # Two points: the tied scores, then all.
    assert aupr_out_trapezoid([0.0], [5.0, 0.0]) == pytest.approx(1 / 2 + 1 / 2 * (1 + 2 / 3) / 2)


@given(st.permutations(range(40)), st.integers(1, 39))
def test_trapezoids_of_distinct_scores_are_hardly_less_than_average_precision(
    order: list[int], n_ood: int
) -> None:
    """The m-th score from the top, if it is OOD, raises precision by at most 1 / m.

    The trapezoid misses half of this rise times the step in recall, which is 1 / n_ood.
    """
    ood, ind = order[:n_ood], order[n_ood:]
    most = sum(1 / m for m in range(1, 41)) / (2 * n_ood)
    missed = aupr_out(ind, ood) - aupr_out_trapezoid(ind, ood)
    assert -1e-12 < missed < most


def test_fpr_is_read_off_the_roc_curve() -> None:
    generator = np.random.default_rng(0)
    ind, ood = generator.normal(size=777), generator.normal(1, 1, size=555)
    is_ind = np.repeat((1, 0), (777, 555))
    fpr, tpr, _ = roc_curve(is_ind, -np.concatenate((ind, ood)), drop_intermediate=False)
    assert fpr_at_95_ind(ind, ood) == fpr[np.searchsorted(tpr, 0.95)]
    fpr, tpr, _ = roc_curve(1 - is_ind, np.concatenate((ind, ood)), drop_intermediate=False)
    assert fpr_at_95_ood(ind, ood) == fpr[np.searchsorted(tpr, 0.95)]


def test_exactly_95_percent_is_enough() -> None:
    ind = list(range(20))  # 19 of 20 are 95 %: the threshold is 18
    assert fpr_at_95_ind(ind, [18.0, 18.5]) == 0.5


@metrics
def test_infinite_scores_are_the_ends_of_the_order(metric: Metric) -> None:
    infinite = [-np.inf, 1.0, 2.0, np.inf], [1.5, np.inf, np.inf]
    finite = [-1e3, 1.0, 2.0, 1e3], [1.5, 1e3, 1e3]
    assert metric(*infinite) == metric(*finite)


@metrics
def test_tensors_arrays_and_lists_give_the_same(metric: Metric) -> None:
    ind, ood = [0.0, 1.0, 2.0], [1.0, 3.0]
    expected = metric(ind, ood)
    assert metric(np.array(ind), np.array(ood)) == expected
    assert metric(torch.tensor(ind, requires_grad=True), torch.tensor(ood)) == expected
    assert metric(torch.tensor(ind).bfloat16(), torch.tensor(ood).bfloat16()) == expected
    assert type(expected) is float


@metrics
def test_empty_or_nan_scores_are_refused(metric: Metric) -> None:
    with pytest.raises(DataError, match=r"ind_scores has shape \(0,\)"):
        metric([], [1.0])
    with pytest.raises(DataError, match="ood_scores holds 2 NaN among 3"):
        metric([1.0], [np.nan, 1.0, np.nan])
    with pytest.raises(DataError, match=r"ood_scores has shape \(1, 2\)"):
        metric([1.0], np.ones((1, 2)))


def test_accuracy_is_the_share_of_right_labels() -> None:
    assert accuracy(torch.tensor([1, 2, 3, 4]), [1, 2, 0, 4]) == 0.75
    assert accuracy([-7], [-7]) == 1


def test_accuracy_needs_as_many_predictions_as_labels() -> None:
    with pytest.raises(DataError, match="2 predicted labels for 3 images"):
        accuracy([1, 2], [1, 2, 3])
    with pytest.raises(DataError, match="predicted has shape"):
        accuracy([], [])
