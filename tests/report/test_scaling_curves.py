"""Methods by minutes: lines over a log axis, with their spread in the shade."""

import pytest
from figures_looked_at import check_layout, keys_of, words_of

from oddone.bench.scaling import Curve, CurvePoint
from oddone.report.figures import illustrate_scaling
from oddone.report.scaling_curves import draw_scaling
from records import made_up_record

MINUTES = (1.0, 2.0, 5.0, 10.0, 20.0)


def curve(name: str, height: float, spread: float | None = None) -> Curve:
    return Curve(name, tuple(CurvePoint(minutes, height + minutes, spread) for minutes in MINUTES))


def test_each_method_is_one_line_and_the_minutes_are_on_a_log_axis() -> None:
    figure = draw_scaling({"accuracy": [curve("one", 50), curve("other", 60)]})
    (axes,) = figure.axes
    assert [list(line.get_ydata()) for line in axes.lines] == [
        [51, 52, 55, 60, 70],
        [61, 62, 65, 70, 80],
    ]
    assert axes.get_xscale() == "log"
    assert keys_of(figure) == ["one", "other"]
    assert {"1", "2", "5", "10", "20", "accuracy, %", "minutes of two cores"} <= set(
        words_of(figure)
    )
    assert len(axes.collections) == 0


def test_the_spread_of_seeds_is_shaded() -> None:
    figure = draw_scaling({"accuracy": [curve("one", 50, spread=2.0)]})
    (shade,) = figure.axes[0].collections
    heights = shade.get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == (49, 72)


def test_a_method_has_the_same_line_in_every_panel() -> None:
    one, other = curve("one", 50), curve("other", 60)
    figure = draw_scaling({"accuracy": [one, other], "mean AUROC": [other]})
    accuracy, auroc = figure.axes
    assert auroc.lines[0].get_color() == accuracy.lines[1].get_color()
    assert auroc.lines[0].get_marker() == accuracy.lines[1].get_marker()


@pytest.mark.parametrize("methods", [1, 5, 7])
def test_many_methods_fit(methods: int) -> None:
    curves = [curve(f"cross-entropy, task {index}", 10.0 * index) for index in range(methods)]
    check_layout(draw_scaling({"accuracy": curves, "mean AUROC": curves}))


def test_a_record_is_illustrated_with_its_best_in_words() -> None:
    illustration = illustrate_scaling(made_up_record("scaling"))
    assert illustration.alt_text == (
        "Curves over minutes. The highest at their end: accuracy 89.0 in 20 minutes by preset cpu, "
        "mean AUROC 79.0 in 20 minutes by preset cpu"
    )
    assert "shade" not in illustration.caption
    assert "shade" in illustrate_scaling(made_up_record("scaling", seeds=3)).caption
