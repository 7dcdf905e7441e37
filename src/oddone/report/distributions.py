"""How the scores of normal and of OOD images are spread: histograms with density curves."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from sklearn.neighbors import KernelDensity

from oddone.report.style import (
    ANOMALOUS,
    BLACK,
    NORMAL,
    UNKNOWN,
    WIDTH,
    axes_at,
    drawing_style,
    legend_at,
    new_figure,
    translucent,
    write_text,
)
from oddone.report.threshold_curves import Scores

_LineStyle = Literal["-", "--"]
_Edges = Float[np.ndarray, " edges"]
_Points = Float[np.ndarray, " points"]

BINS = 50
SAME = 1e-6  # of a score: the numbers of 32 bits that lie closer are too few for bins
SHOWN = 0.995  # of each set; the rest, far to the right, would press all others together
_CURVE_POINTS = 256
_IND_STYLES: tuple[tuple[str, _LineStyle], ...] = ((NORMAL, "-"), (UNKNOWN, "--"))

# In inches.
_LEFT, _RIGHT, _TOP, _BELOW, _GAP = 0.75, 0.2, 0.1, 0.55, 0.15
_NAME, _LEGEND_LINE = 0.28, 0.22


class _ScoreSet(NamedTuple):
    """Scores of one kind of images, and how they are drawn."""

    scores: Scores
    colour: str
    line_style: _LineStyle


def draw_distributions(
    ind_scores: Mapping[str, Scores],
    ood_scores: Mapping[str, Scores],
    threshold: float | None = None,
) -> Figure:
    """Return the spread of at most two kinds of test images, against each OOD set in turn."""
    ind_sets = [
        _ScoreSet(scores, *style)
        for scores, style in zip(ind_scores.values(), _IND_STYLES, strict=False)
    ]
    panels = {
        name: [*ind_sets, _ScoreSet(scores, ANOMALOUS, "-")] for name, scores in ood_scores.items()
    }
    with drawing_style():
        return _draw(list(ind_scores), panels or {"": ind_sets}, threshold)


def density(scores: Scores, edges: _Edges, points: _Points) -> _Points:
    """Return a smooth density at the points, whose area is that of the histogram's bars.

    Both count the scores between the first and the last edge, as a share of all. Scores have a long
    tail, and a kernel as wide as their standard deviation suggests would flatten the peak; so
    its width is Silverman's, which heeds the quartiles too. It is at least half a bin, so
    that scores which are all equal still have a curve. What a kernel loses beyond an end of the
    axis is reflected there.
    """
    low, high = edges[0], edges[-1]
    shown = scores[(scores >= low) & (scores <= high)]
    if len(shown) == 0:
        return np.zeros_like(points)
    quartiles = np.subtract(*np.quantile(shown, [0.75, 0.25]))
    width = 0.9 * min(shown.std(), quartiles / 1.34) * len(shown) ** -0.2
    kernels = KernelDensity(bandwidth=max(width, (edges[1] - low) / 2)).fit(shown[:, None])
    reflected = (points, 2 * low - points, 2 * high - points)
    total = sum(np.exp(kernels.score_samples(each[:, None])) for each in reflected)
    smooth: np.ndarray = total * len(shown) / len(scores)
    return smooth


def _draw(
    ind_names: list[str], panels: Mapping[str, list[_ScoreSet]], threshold: float | None
) -> Figure:
    handles = _legend_handles(ind_names, any(panels), threshold is not None)
    height = 3.2 if len(panels) == 1 else 1.5
    top = _TOP + _LEGEND_LINE * -(-len(handles) // 2) + _GAP
    step = _NAME + height + _GAP
    figure = new_figure(WIDTH, top + step * len(panels) + _BELOW)
    legend_at(figure, _LEFT, _TOP, handles, columns=2)
    edges = _edges([each.scores for sets in panels.values() for each in sets], threshold)
    width = WIDTH - _LEFT - _RIGHT
    for name, score_sets in panels.items():
        write_text(figure, _LEFT, top, name, width, weight="bold")
        axes = axes_at(figure, _LEFT, top + _NAME, width, height)
        _draw_panel(axes, score_sets, edges, threshold)
        top += step
    for axes in figure.axes[:-1]:
        axes.tick_params(labelbottom=False)
    figure.axes[-1].set_xlabel("score (higher is odder)")
    return figure


def _legend_handles(
    ind_names: list[str], has_ood: bool, has_threshold: bool
) -> list[Patch | Line2D]:
    styles = [(name, *style) for name, style in zip(ind_names, _IND_STYLES, strict=False)]
    if has_ood:
        styles.append(("OOD images", ANOMALOUS, "-"))
    handles: list[Patch | Line2D] = [
        Patch(facecolor=translucent(colour), edgecolor=colour, linestyle=line_style, label=name)
        for name, colour, line_style in styles
    ]
    if has_threshold:
        handles.append(Line2D([], [], color=BLACK, dashes=(4, 3), linewidth=1, label="threshold"))
    return handles


def _draw_panel(
    axes: Axes, score_sets: list[_ScoreSet], edges: _Edges, threshold: float | None
) -> None:
    points = np.linspace(edges[0], edges[-1], _CURVE_POINTS)
    for scores, colour, line_style in score_sets:
        if len(scores) == 0:
            continue
        # Each image counts as a share of all, also of those beyond the last edge.
        weights = np.full(len(scores), 1 / (len(scores) * (edges[1] - edges[0])))
        axes.hist(
            scores,
            edges.tolist(),
            weights=weights,
            color=translucent(colour, 0.3),
            histtype="stepfilled",
        )
        curve = density(scores, edges, points)
        axes.plot(points, curve, line_style, color=colour, linewidth=1.5)
    if threshold is not None:
        axes.axvline(threshold, color=BLACK, dashes=(4, 3), linewidth=1)
    axes.set(xlim=(edges[0], edges[-1]), ylabel="density")
    axes.spines.left.set_visible(True)
    axes.yaxis.set_major_locator(MaxNLocator(3))


def _edges(score_sets: list[Scores], threshold: float | None) -> _Edges:
    """Return the borders of the bins, from the lowest score to where nearly all of each set end."""
    finite = [scores[np.isfinite(scores)] for scores in score_sets]
    kept = [scores for scores in finite if len(scores) > 0]
    low = min((float(scores.min()) for scores in kept), default=0.0)
    high = max((float(np.quantile(scores, SHOWN)) for scores in kept), default=1.0)
    if threshold is not None:
        low, high = min(low, threshold), max(high, threshold)
    largest = max(abs(low), abs(high))
    if high - low <= SAME * largest:
        middle, room = (low + high) / 2, max(0.5, 1e-3 * largest)
        low, high = middle - room, middle + room
    return np.linspace(low, high, BINS + 1)
