"""What every threshold would do, from one above all scores to one below all of them."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int64
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from oddone.report.style import (
    BLACK,
    DASHES,
    GREY,
    GRID,
    SERIES,
    WIDTH,
    axes_at,
    legend_at,
    new_figure,
    shorten,
)
from oddone.wording import legible

Scores = Float[np.ndarray, " _"]

# In inches.
_LEFT, _TOP, _SIDE, _LEGEND_TOP, _LEGEND_LINE = 0.75, 0.15, 4.2, 5.0, 0.215
_LONGEST_NAME = 32


class AnomalousCounts(NamedTuple):
    """How many images are anomalous at each threshold, from none to all."""

    ind: Int64[np.ndarray, " thresholds"]
    ood: Int64[np.ndarray, " thresholds"]


class Point(NamedTuple):
    """A point of a curve."""

    across: float
    up: float


class ThresholdCurve(NamedTuple):
    """What is drawn for one OOD set."""

    across: Float[np.ndarray, " points"]
    up: Float[np.ndarray, " points"]
    note: str
    """What the legend says beside the name of the set."""
    at_threshold: Point | None
    """Where the detector's own threshold is; None without one."""


def count_anomalous(ind_scores: Scores, ood_scores: Scores) -> AnomalousCounts:
    """Return how many images are anomalous at each threshold; equal scores are never split."""
    thresholds = np.unique(np.concatenate((ind_scores, ood_scores)))
    ind, ood = (
        len(scores) - np.searchsorted(np.sort(scores), thresholds)
        for scores in (ind_scores, ood_scores)
    )
    return AnomalousCounts(np.append(ind, 0)[::-1], np.append(ood, 0)[::-1])


def draw_threshold_curves(
    curves: Mapping[str, ThresholdCurve], *, diagonal: str | None = None
) -> tuple[Figure, Axes]:
    """Return a square of shares with one curve for each OOD set, and the legend below it.

    A diagonal is drawn if it has a name.
    """
    marked = any(curve.at_threshold for curve in curves.values())
    lines = len(curves) + marked + (diagonal is not None)
    figure = new_figure(WIDTH, _LEGEND_TOP + _LEGEND_LINE * lines + 0.05)
    axes = axes_at(figure, _LEFT, _TOP, _SIDE, _SIDE)
    axes.grid(color=GRID)
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.spines.left.set_visible(True)
    handles = [
        _draw_curve(axes, name, curve, index) for index, (name, curve) in enumerate(curves.items())
    ]
    if marked:
        handles.append(_dot(Point(np.nan, np.nan), BLACK, "at the detector's own threshold"))
    if diagonal is not None:
        handles += axes.plot([0, 1], [0, 1], color=GREY, linewidth=1, dashes=(1, 2), label=diagonal)
    legend_at(figure, _LEFT, _LEGEND_TOP, handles)
    return figure, axes


def _draw_curve(axes: Axes, name: str, curve: ThresholdCurve, index: int) -> Line2D:
    colour, dashes = SERIES[index % len(SERIES)], DASHES[index % len(DASHES)]
    label = f"{shorten(legible(name), _LONGEST_NAME)}: {curve.note}"
    # Not clipped, so that a line along the border has its full width.
    (line,) = axes.plot(
        curve.across, curve.up, dashes, color=colour, linewidth=1.8, label=label, clip_on=False
    )
    if curve.at_threshold is not None:
        axes.add_line(_dot(curve.at_threshold, colour, ""))
    return line


def _dot(point: Point, colour: str, label: str) -> Line2D:
    return Line2D(
        [point.across],
        [point.up],
        marker="o",
        markersize=7,
        markeredgecolor="white",
        color=colour,
        linestyle="",
        label=label,
        clip_on=False,
        zorder=5,
    )
