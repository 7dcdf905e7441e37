import numpy as np
import pytest
from figures_looked_at import check_layout, keys_of, words_of
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from oddone.report.comparison import (
    Comparison,
    Measure,
    MeasuredNumber,
    MethodRow,
    PaperNumber,
    draw_comparison,
)
from oddone.report.style import NORMAL

AUROC, FPR = Measure("SVHN", "AUROC"), Measure("CIFAR-100", "FPR@95", lower_is_better=True)
LONG = "a method whose name is far too long for one line of a figure"


def number(ours: float, paper: float | None = None, spread: float | None = None) -> MeasuredNumber:
    printed = None if paper is None else PaperNumber(paper, f"▼ {paper}", "worse")
    return MeasuredNumber(ours, f"{ours:.1f}", spread, printed)


def comparison(
    *numbers: list[MeasuredNumber | None], measures: tuple[Measure, ...] = (AUROC, FPR)
) -> Comparison:
    methods = [MethodRow([f"method {index}"], each) for index, each in enumerate(numbers)]
    return Comparison(["Method"], measures, methods)


def dots_of(axes: Axes, *, filled: bool) -> list[float]:
    """Return the numbers of the dots, from the uppermost down."""
    dots = [
        line.get_xydata()[0]
        for line in axes.lines
        if line.get_marker() == "o" and (line.get_markerfacecolor() == NORMAL) == filled
    ]
    return [float(across) for across, _ in sorted(dots, key=lambda dot: dot[1])]


def headings_of(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.texts if text.get_weight() == "bold"]


def test_each_measure_has_a_panel_with_our_dots_and_the_papers() -> None:
    figure = draw_comparison(
        comparison([number(70, 90), number(60)], [number(80, 95), number(50, 30)])
    )
    svhn, cifar = figure.axes
    assert dots_of(svhn, filled=True) == [70, 80]
    assert dots_of(svhn, filled=False) == [90, 95]
    assert dots_of(cifar, filled=True) == [60, 50]
    assert dots_of(cifar, filled=False) == [30]
    assert headings_of(figure) == ["SVHN", "CIFAR-100"]
    assert (svhn.get_xlabel(), cifar.get_xlabel()) == ("AUROC, % →", "← FPR@95, %")
    assert {"Method", "method 0", "method 1"} < set(words_of(figure))
    assert keys_of(figure) == ["our number", "the paper's", "the best of ours"]
    check_layout(figure)


def test_the_best_of_ours_is_the_lowest_where_lower_is_better() -> None:
    compared = comparison([number(70), number(60)], [number(80), number(50)], [None, None])
    assert [compared.best(index).ours for index in (0, 1)] == [80, 50]
    lines = [axes.lines[0].get_xdata() for axes in draw_comparison(compared).axes]
    assert lines == [[80, 80], [50, 50]]


def test_several_seeds_are_a_bar() -> None:
    figure = draw_comparison(comparison([number(70, spread=2.0), number(60, spread=1.0)]))
    bars = [line for line in figure.axes[0].lines if list(line.get_xdata()) == [68, 72]]
    assert len(bars) == 1
    assert keys_of(figure) == ["our number", "the best of ours", "± standard deviation"]


def test_what_was_not_measured_has_no_panel_or_no_dot() -> None:
    figure = draw_comparison(comparison([None, number(60)], [None, None]))
    (panel,) = figure.axes
    assert dots_of(panel, filled=True) == [60]
    assert headings_of(figure) == ["CIFAR-100"]
    assert Comparison([""], [AUROC], []).best(0) is None


@pytest.mark.parametrize("measures", [1, 2, 5])
def test_many_methods_and_measures_fit(measures: int) -> None:
    generator = np.random.default_rng(0)
    shares = generator.uniform(50, 100, (22, measures, 2))
    numbers = [[number(*pair) for pair in row] for row in shares.tolist()]
    figure = draw_comparison(comparison(*numbers, measures=(AUROC,) * measures))
    assert len(figure.axes) == measures
    check_layout(figure)


def test_a_method_with_long_names_takes_two_lines() -> None:
    methods = [
        MethodRow(["MCL", "avg"], [number(1)]),
        MethodRow([LONG, "as printed"], [number(2)]),
    ]
    figure = draw_comparison(Comparison(["Model", "Agg"], [AUROC], methods))
    words = words_of(figure)
    assert {"Model · Agg", "MCL · avg", "as printed"} < set(words)
    assert [word for word in words if "…" in word]
    first, second = (
        line.get_ydata()[0] for line in figure.axes[0].lines if line.get_marker() == "o"
    )
    assert second - first > first
    check_layout(figure)


def test_equal_numbers_can_be_drawn() -> None:
    check_layout(draw_comparison(comparison([number(100, 100), number(0, 0)])))
