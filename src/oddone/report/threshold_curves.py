"""What all thresholds would do, from one that flags no image to one that flags them all."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int64
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from oddone.report.style import (
    DASHES,
    FAINT,
    GRID,
    INK,
    SERIES,
    WIDTH,
    axes_at,
    key_at,
    new_figure,
    shortened,
)
from oddone.report.words import legible

Scores = Float[np.ndarray, " _"]

# In inches.
_LEFT, _TOP, _SIDE, _KEY_TOP, _KEY_LINE = 0.75, 0.15, 4.2, 5.0, 0.215
_LONGEST_NAME = 32


class Flagged(NamedTuple):
    """How many images are flagged at each threshold, from none to all."""

    ind: Int64[np.ndarray, " thresholds"]
    ood: Int64[np.ndarray, " thresholds"]


class Point(NamedTuple):
    """A point of a curve."""

    across: float
    up: float


class Curve(NamedTuple):
    """What is drawn for one OOD set."""

    across: Float[np.ndarray, " points"]
    up: Float[np.ndarray, " points"]
    note: str
    """What is said of it beside its name."""
    at_threshold: Point | None
    """Where the detector's own threshold is; None without one."""


def flagged(ind_scores: Scores, ood_scores: Scores) -> Flagged:
    """Return how many IND and OOD images each threshold flags; equal scores are never split."""
    thresholds = np.unique(np.concatenate((ind_scores, ood_scores)))
    ind, ood = (
        len(scores) - np.searchsorted(np.sort(scores), thresholds)
        for scores in (ind_scores, ood_scores)
    )
    return Flagged(np.append(ind, 0)[::-1], np.append(ood, 0)[::-1])


def draw_curves_of_sets(
    curves: Mapping[str, Curve], *, diagonal: str | None = None
) -> tuple[Figure, Axes]:
    """Return a square of shares with one curve for each OOD set, and the key below it.

    With a name for the diagonal, there is one.
    """
    marked = any(curve.at_threshold for curve in curves.values())
    lines = len(curves) + marked + (diagonal is not None)
    figure = new_figure(WIDTH, _KEY_TOP + _KEY_LINE * lines + 0.05)
    axes = axes_at(figure, _LEFT, _TOP, _SIDE, _SIDE)
    axes.grid(color=GRID)
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.spines.left.set_visible(True)
    keys = [
        _draw_curve(axes, name, curve, place) for place, (name, curve) in enumerate(curves.items())
    ]
    if marked:
        keys.append(_dot(Point(np.nan, np.nan), INK, "at the detector's own threshold"))
    if diagonal is not None:
        keys += axes.plot([0, 1], [0, 1], color=FAINT, linewidth=1, dashes=(1, 2), label=diagonal)
    key_at(figure, _LEFT, _KEY_TOP, keys)
    return figure, axes


def _draw_curve(axes: Axes, name: str, curve: Curve, place: int) -> Line2D:
    colour, dashes = SERIES[place % len(SERIES)], DASHES[place % len(DASHES)]
    label = f"{shortened(legible(name), _LONGEST_NAME)}: {curve.note}"
    # What runs along the border is seen whole, so nothing is clipped.
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
