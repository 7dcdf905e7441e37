import numpy as np
import pytest
from figures_looked_at import check_layout, keys_of, words_of
from matplotlib.axes import Axes
from matplotlib.colors import same_color

from oddone.report.distributions import draw_distributions
from oddone.report.style import ANOMALOUS, NORMAL, UNKNOWN

GENERATOR = np.random.default_rng(0)
RIGHT, WRONG = GENERATOR.normal(3, 1, 400), GENERATOR.normal(4, 1, 60)
OODS = {"svhn": GENERATOR.normal(8, 2, 300), "textures": GENERATOR.normal(6, 1, 100)}
KNOWN = {"correctly classified": RIGHT, "wrongly classified": WRONG}


def test_each_ood_set_has_a_panel_with_three_kinds_of_scores() -> None:
    figure = draw_distributions(KNOWN, OODS, threshold=5.5)
    assert keys_of(figure) == [*KNOWN, "OOD images", "threshold"]
    assert [text.get_text() for text in figure.texts] == list(OODS)
    for axes in figure.axes:
        *curves, threshold = axes.lines
        assert [line.get_color() for line in curves] == [NORMAL, UNKNOWN, ANOMALOUS]
        assert set(threshold.get_xdata()) == {5.5}
        for histogram, colour in zip(axes.patches, (NORMAL, UNKNOWN, ANOMALOUS), strict=True):
            assert same_color(histogram.get_facecolor()[:3], colour)
        assert axes.get_ylabel() == "density"
    assert figure.axes[-1].get_xlabel() == "score (higher is odder)"
    check_layout(figure)


def curve_and_bars(axes: Axes, index: int) -> tuple[float, float]:
    """Return the areas under a density curve and under the bars of the same scores."""
    across, density = axes.lines[index].get_data()
    corners = axes.patches[index].get_path().vertices
    bars = abs(np.trapezoid(corners[:, 1], corners[:, 0]))
    return float(np.trapezoid(density, across)), float(bars)


@pytest.mark.parametrize(
    ("scores", "shown"),
    [
        pytest.param(WRONG, 1.0, id="many"),
        pytest.param(np.exp(GENERATOR.normal(1, 1, 300)), 1.0, id="a long tail"),
        pytest.param(np.array([3.0, 9.0]), 1.0, id="few"),
        pytest.param(np.array([3.0]), 1.0, id="one"),
        pytest.param(np.full(9, 3.0), 1.0, id="tied"),
        pytest.param(np.repeat([3.0, 4.0, 9.0], [90, 5, 5]), 1.0, id="mostly tied"),
        pytest.param(np.append(np.full(3, np.inf), 4.0), 0.25, id="one of four finite"),
        pytest.param(np.full(4, np.inf), 0.0, id="infinite"),
        pytest.param(np.append(RIGHT, 1e6), 400 / 401, id="one far away"),
    ],
)
def test_the_curve_and_the_bars_have_the_same_area(scores: np.ndarray, shown: float) -> None:
    wide = np.linspace(0, 60, 100)
    for index, sets in enumerate([(scores, RIGHT), (RIGHT, scores)]):
        ind_scores = dict(zip(KNOWN, sets, strict=True))
        (axes,) = draw_distributions(ind_scores, {"svhn": wide}).axes
        curve, bars = curve_and_bars(axes, index)
        assert bars == pytest.approx(shown, abs=0.01)
        assert curve == pytest.approx(bars, abs=0.002)


def test_the_curve_is_as_high_as_the_bars_where_scores_have_a_long_tail() -> None:
    # The standard deviation of these is four times what their quartiles suggest.
    scores = np.concatenate([GENERATOR.normal(4, 1, 200), GENERATOR.uniform(10, 40, 20)])
    (axes,) = draw_distributions({"test images": scores}, {}).axes
    heights = axes.patches[0].get_path().vertices[:, 1]
    assert max(axes.lines[0].get_ydata()) > 0.75 * max(heights)


def test_the_curve_does_not_fall_at_the_lowest_score() -> None:
    generator = np.random.default_rng(1)
    (axes,) = draw_distributions({"test images": generator.exponential(size=20_000)}, {}).axes
    assert axes.lines[0].get_ydata()[0] > 0.9


def test_a_few_very_odd_images_do_not_press_the_others_together() -> None:
    odd = np.append(OODS["svhn"], 1e6)
    _, high = draw_distributions(KNOWN, {"svhn": odd}).axes[0].get_xlim()
    assert high < 20


def test_infinite_scores_are_beyond_the_axis() -> None:
    figure = draw_distributions(KNOWN, {"svhn": np.array([4.0, 5.0, np.inf, np.inf])})
    across, density = figure.axes[0].lines[2].get_data()
    assert np.trapezoid(density, across) == pytest.approx(0.5, abs=1e-3)
    check_layout(figure)


def test_no_scores_have_no_curve() -> None:
    nothing = {"correctly classified": RIGHT, "wrongly classified": np.array([])}
    figure = draw_distributions(nothing, {})
    (axes,) = figure.axes
    assert [line.get_color() for line in axes.lines] == [NORMAL]
    assert "OOD images" not in words_of(figure)


@pytest.mark.parametrize("score", [0.0, 2.0, -3e4, 1e9])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_scores_that_are_nearly_the_same_are_one_spike(score: float, kind: type) -> None:
    scores = np.full(9, score, kind)
    scores[0] = np.nextafter(scores[0], kind(np.inf)) if score else 0
    figure = draw_distributions({"test images": scores}, {"svhn": scores}, threshold=score)
    low, high = figure.axes[0].get_xlim()
    assert low < score < high
    curve, bars = curve_and_bars(figure.axes[0], 0)
    assert (curve, bars) == pytest.approx((1, 1), abs=0.01)


def test_if_all_scores_are_one_there_is_still_an_axis() -> None:
    low, high = draw_distributions({"test images": np.full(5, 2.0)}, {}).axes[0].get_xlim()
    assert low < 2.0 < high
