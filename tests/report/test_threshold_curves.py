from collections.abc import Callable

import numpy as np
import pytest
from figures_looked_at import check_layout, keys_of, words_of
from matplotlib.figure import Figure

from oddone.metrics import aupr_out, auroc
from oddone.report.precision_recall import draw_precision_recall
from oddone.report.roc import draw_roc
from oddone.report.threshold_curves import count_anomalous

IND = np.array([1.0, 2.0, 2.0, 3.0, 5.0])
OOD = np.array([2.0, 4.0, 5.0, np.inf])


def many() -> tuple[np.ndarray, dict[str, np.ndarray]]:
    generator = np.random.default_rng(0)
    names = ("svhn", "a set with a name that is far too long for any key", "$x$ and <b>")
    return generator.normal(0, 1, 300), {
        name: generator.normal(shift, 1, 200) for shift, name in enumerate(names)
    }


def test_at_each_threshold_what_is_at_or_above_it_is_anomalous() -> None:
    counts = count_anomalous(IND, OOD)
    assert counts.ind.tolist() == [0, 0, 1, 1, 2, 4, 5]
    assert counts.ood.tolist() == [0, 1, 2, 3, 3, 4, 4]


def test_equal_scores_are_anomalous_together() -> None:
    counts = count_anomalous(np.zeros(3), np.zeros(2))
    assert (counts.ind.tolist(), counts.ood.tolist()) == ([0, 3], [0, 2])


def test_the_area_below_the_roc_is_the_auroc() -> None:
    ind, oods = many()
    figure = draw_roc(ind, oods)
    for line, scores in zip(figure.axes[0].lines, oods.values(), strict=False):
        across, up = line.get_data()
        assert np.trapezoid(up, across) == pytest.approx(auroc(ind, scores))
        assert (across[0], up[0], across[-1], up[-1]) == (0, 0, 1, 1)


def test_the_steps_below_precision_and_recall_are_the_aupr() -> None:
    ind, oods = many()
    figure = draw_precision_recall(ind, oods)
    for line, scores in zip(figure.axes[0].lines, oods.values(), strict=True):
        recall, precision = line.get_data()
        steps = np.diff(recall, prepend=0) * precision
        assert steps.sum() == pytest.approx(aupr_out(ind, scores))


def test_the_keys_name_sets_and_areas() -> None:
    roc, precision_recall = draw_roc(IND, {"odd": OOD}), draw_precision_recall(IND, {"odd": OOD})
    assert keys_of(roc) == [f"odd: AUROC {auroc(IND, OOD):.1%}", "guessing"]
    assert keys_of(precision_recall) == [f"odd: AUPR {aupr_out(IND, OOD):.1%}"]
    assert roc.axes[0].get_xlabel() == "test images called odd (false alarms)"
    assert roc.axes[0].get_ylabel() == "OOD images detected"
    assert precision_recall.axes[0].get_xlabel() == "OOD images detected (recall)"
    assert precision_recall.axes[0].get_ylabel() == "images called odd that are OOD (precision)"


def dots(figure: Figure) -> list[tuple[float, float]]:
    lines = [line for line in figure.axes[0].lines if line.get_marker() == "o"]
    return [(line.get_xdata()[0], line.get_ydata()[0]) for line in lines]


def test_the_threshold_is_a_dot_on_the_curve() -> None:
    # Above 3 are one of five IND and three of four OOD images.
    roc = draw_roc(IND, {"odd": OOD}, threshold=3.0)
    assert dots(roc) == [(1 / 5, 3 / 4)]
    assert "at the detector's own threshold" in keys_of(roc)
    assert dots(draw_precision_recall(IND, {"odd": OOD}, threshold=3.0)) == [(3 / 4, 3 / 4)]
    assert dots(draw_roc(IND, {"odd": OOD})) == []


def test_a_threshold_above_all_scores_has_no_precision() -> None:
    figure = draw_precision_recall(IND, {"odd": OOD[:3]}, threshold=9.0)
    assert dots(figure) == []
    assert "at the detector's own threshold" not in keys_of(figure)


def test_every_set_has_a_line_of_its_own() -> None:
    ind, oods = many()
    lines = draw_roc(ind, oods).axes[0].lines[:3]
    assert len({line.get_color() for line in lines}) == 3
    assert len({line.get_linestyle() for line in lines}) == 3


@pytest.mark.parametrize("draw", [draw_roc, draw_precision_recall])
def test_all_words_have_room_and_are_as_they_are(draw: Callable[..., Figure]) -> None:
    ind, oods = many()
    figure = draw(ind, oods, 1.0)
    check_layout(figure)
    assert any(word.startswith("$x$ and <b>: AU") for word in words_of(figure))
    assert any(word.startswith("a set with a nam…") for word in words_of(figure))
