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
from scipy.stats import gaussian_kde

_Dashes = Literal["-", "--"]

BINS = 50
SHOWN = 0.995  # of each group; the rest, far to the right, would press all others together
_CURVE_POINTS = 256
_LOOKS: tuple[tuple[str, _Dashes], ...] = ((NORMAL, "-"), (UNKNOWN, "--"))

# In inches.
_LEFT, _RIGHT, _TOP, _BELOW, _GAP = 0.75, 0.2, 0.1, 0.55, 0.15
_NAME, _KEY_LINE = 0.28, 0.22


class _Group(NamedTuple):
    scores: Scores
    colour: str
    dashes: _Dashes


def draw_distributions(
    ind_scores: Mapping[str, Scores],
    ood_scores: Mapping[str, Scores],
    threshold: float | None = None,
) -> Figure:
    """Return the spread of at most two groups of test images, against each OOD set in turn."""
    known = [
        _Group(scores, *style) for scores, style in zip(ind_scores.values(), _LOOKS, strict=False)
    ]
    panels = {name: [*known, _Group(scores, ANOMALOUS, "-")] for name, scores in ood_scores.items()}
    with drawing_style():
        return _draw(list(ind_scores), panels or {"": known}, threshold)


def _draw(names: list[str], panels: Mapping[str, list[_Group]], threshold: float | None) -> Figure:
    keys: list[Patch | Line2D] = [
        Patch(facecolor=translucent(colour), edgecolor=colour, linestyle=dashes, label=name)
        for name, (colour, dashes) in zip(names, _LOOKS, strict=False)
    ]
    if any(panels):
        keys.append(
            Patch(facecolor=translucent(ANOMALOUS), edgecolor=ANOMALOUS, label="OOD images")
        )
    if threshold is not None:
        keys.append(Line2D([], [], color=BLACK, dashes=(4, 3), linewidth=1, label="threshold"))
    height = 3.2 if len(panels) == 1 else 1.5
    top = _TOP + _KEY_LINE * -(-len(keys) // 2) + _GAP
    step = _NAME + height + _GAP
    figure = new_figure(WIDTH, top + step * len(panels) + _BELOW)
    legend_at(figure, _LEFT, _TOP, keys, columns=2)
    edges = _edges([group.scores for groups in panels.values() for group in groups], threshold)
    width = WIDTH - _LEFT - _RIGHT
    for name, groups in panels.items():
        write_text(figure, _LEFT, top, name, width, weight="bold")
        axes = axes_at(figure, _LEFT, top + _NAME, width, height)
        _draw_panel(axes, groups, edges, threshold)
        top += step
    for axes in figure.axes[:-1]:
        axes.tick_params(labelbottom=False)
    figure.axes[-1].set_xlabel("score (higher is odder)")
    return figure


def _draw_panel(
    axes: Axes, groups: list[_Group], edges: Float[np.ndarray, " edges"], threshold: float | None
) -> None:
    points = np.linspace(edges[0], edges[-1], _CURVE_POINTS)
    for group in groups:
        if len(group.scores) == 0:
            continue
        # A share of all, also of those beyond the last edge.
        share = 1 / (len(group.scores) * (edges[1] - edges[0]))
        weights = np.full(len(group.scores), share)
        colour = translucent(group.colour, 0.3)
        axes.hist(
            group.scores, edges.tolist(), weights=weights, color=colour, histtype="stepfilled"
        )
        density = _density(group.scores, points)
        if density is not None:
            axes.plot(points, density, group.dashes, color=group.colour, linewidth=1.5)
    if threshold is not None:
        axes.axvline(threshold, color=BLACK, dashes=(4, 3), linewidth=1)
    axes.set(xlim=(edges[0], edges[-1]), ylabel="density")
    axes.spines.left.set_visible(True)
    axes.yaxis.set_major_locator(MaxNLocator(3))


def _edges(groups: list[Scores], threshold: float | None) -> Float[np.ndarray, " edges"]:
    """Return the borders of the bins, from the lowest score to where nearly all of each end."""
    finite = [scores[np.isfinite(scores)] for scores in groups]
    kept = [scores for scores in finite if len(scores) > 0]
    low = min((scores.min() for scores in kept), default=0.0)
    high = max((np.quantile(scores, SHOWN) for scores in kept), default=1.0)
    if threshold is not None:
        low, high = min(low, threshold), max(high, threshold)
    if low == high:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, BINS + 1)


def _density(
    scores: Scores, points: Float[np.ndarray, " points"]
) -> Float[np.ndarray, " points"] | None:
    """Return the smoothed density; None where the scores do not vary."""
    finite = scores[np.isfinite(scores)]
    if len(finite) < 2 or np.ptp(finite) == 0:
        return None
    density: np.ndarray = gaussian_kde(finite)(points) * len(finite) / len(scores)
    return density
