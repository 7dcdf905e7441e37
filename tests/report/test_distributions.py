import numpy as np
import pytest
from figures_looked_at import check_layout, keys_of, words_of
from matplotlib.colors import same_color
from oddone.report.style import ANOMALOUS, NORMAL, UNKNOWN

from oddone.report.distributions import draw_distributions

GENERATOR = np.random.default_rng(0)
RIGHT, WRONG = GENERATOR.normal(3, 1, 400), GENERATOR.normal(4, 1, 60)
OODS = {"svhn": GENERATOR.normal(8, 2, 300), "textures": GENERATOR.normal(6, 1, 100)}
KNOWN = {"correctly classified": RIGHT, "wrongly classified": WRONG}


def test_each_ood_set_has_a_panel_with_three_groups() -> None:
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


def test_the_areas_are_the_share_that_is_shown() -> None:
    axes = draw_distributions(KNOWN, OODS).axes[0]
    for line, histogram in zip(axes.lines, axes.patches, strict=True):
        across, density = line.get_data()
        assert np.trapezoid(density, across) == pytest.approx(1, abs=0.04)
        corners = histogram.get_path().vertices
        assert abs(np.trapezoid(corners[:, 1], corners[:, 0])) == pytest.approx(1, abs=0.02)


def test_a_few_very_odd_images_do_not_press_the_others_together() -> None:
    odd = np.append(OODS["svhn"], 1e6)
    _, high = draw_distributions(KNOWN, {"svhn": odd}).axes[0].get_xlim()
    assert high < 20


def test_infinite_scores_are_beyond_the_axis() -> None:
    figure = draw_distributions(KNOWN, {"svhn": np.array([4.0, 5.0, np.inf, np.inf])})
    across, density = figure.axes[0].lines[2].get_data()
    assert np.trapezoid(density, across) < 0.5
    check_layout(figure)


@pytest.mark.parametrize("scores", [np.array([]), np.array([3.0]), np.full(9, 3.0)])
def test_scores_that_do_not_vary_have_no_density_curve(scores: np.ndarray) -> None:
    figure = draw_distributions({"correctly classified": RIGHT, "wrongly classified": scores}, {})
    (axes,) = figure.axes
    assert [line.get_color() for line in axes.lines] == [NORMAL]
    assert "OOD images" not in words_of(figure)


def test_if_all_scores_are_one_there_is_still_an_axis() -> None:
    low, high = draw_distributions({"test images": np.full(5, 2.0)}, {}).axes[0].get_xlim()
    assert low < 2.0 < high
