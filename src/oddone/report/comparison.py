"""Methods compared: a panel for each measure, a line for each method, ours beside the paper's."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, ScalarFormatter

from oddone.report.style import (
    GREY,
    GRID,
    LIGHT_GREY,
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

COLUMNS = 2
"""Panels side by side, so that a phone can show them."""
_LEGEND_COLUMNS = 3
SEPARATOR = " · "
"""Between the names of a method."""

# In inches.
_LEFT, _NAMES, _GAP, _RIGHT = 0.1, 2.05, 0.25, 0.15
_PANEL = (WIDTH - _LEFT - _NAMES - (COLUMNS - 1) * _GAP - _RIGHT) / COLUMNS
_HEADING, _LINE, _ROOM, _BELOW, _LEGEND_LINE = 0.24, 0.16, 0.07, 0.62, 0.215
_BASELINE = 0.045  # of a name, below the middle of its line
_LONGEST_LINE = 26  # characters of a name

_OURS: dict[str, Any] = {
    "marker": "o",
    "color": NORMAL,
    "markersize": 6,
    "markeredgecolor": "white",
}
# A ring that is larger than our dot is seen around it where both are the same.
_PAPER: dict[str, Any] = {
    "marker": "o",
    "color": UNKNOWN,
    "markersize": 7,
    "markerfacecolor": "none",
}
_SPREAD: dict[str, Any] = {
    "color": translucent(NORMAL, 0.5),
    "linewidth": 3.5,
    "solid_capstyle": "butt",
}
_BEST: dict[str, Any] = {"color": NORMAL, "linewidth": 0.9, "dashes": (1, 2)}

Edges = Float[np.ndarray, " edges"]
"""Where the lines of the methods begin and end, in inches."""


class Measure(NamedTuple):
    """What is measured of each method."""

    of: str
    """The images it is about."""
    metric: str
    lower_is_better: bool = False


class PaperNumber(NamedTuple):
    """The paper's number beside one of ours."""

    value: float
    text: str
    """The number with a mark that says how ours compares."""
    compared: str
    """What ours is: better, worse or same."""


class MeasuredNumber(NamedTuple):
    """What a method reached by one measure, in percent."""

    ours: float
    text: str
    """The number with its spread."""
    spread: float | None = None
    """The standard deviation over seeds, if there are several."""
    paper: PaperNumber | None = None


class MethodRow(NamedTuple):
    """A row of the table: a method and its numbers."""

    names: Sequence[str]
    """One for each heading."""
    numbers: Sequence[MeasuredNumber | None]
    """One for each measure, if it was measured."""


class Comparison(NamedTuple):
    """Methods by the same measures."""

    headings: Sequence[str]
    """What each name of a method is, such as Method and Aggregation."""
    measures: Sequence[Measure]
    methods: Sequence[MethodRow]

    def best(self, index: int) -> MeasuredNumber | None:
        """Return the best of our numbers by one of the measures, if there is any."""
        numbers = [method.numbers[index] for method in self.methods]
        measured = [number for number in numbers if number is not None]
        pick = min if self.measures[index].lower_is_better else max
        return pick(measured, key=lambda number: number.ours, default=None)


def draw_comparison(comparison: Comparison) -> Figure:
    """Return a dot plot: filled dots are our numbers, hollow ones the paper's."""
    measured = [index for index in range(len(comparison.measures)) if comparison.best(index)]
    bands = [measured[first : first + COLUMNS] for first in range(0, len(measured), COLUMNS)]
    names = [_lines(method.names) for method in comparison.methods]
    edges = np.cumsum([0.0, *(_LINE * len(lines) + _ROOM for lines in names)])
    handles = list(_legend_handles(comparison))
    top = 0.1 + _LEGEND_LINE * -(-len(handles) // _LEGEND_COLUMNS) + 0.15
    with drawing_style():
        figure = new_figure(WIDTH, top + len(bands) * (_HEADING + edges[-1] + _BELOW))
        legend_at(figure, _LEFT, 0.1, handles, columns=_LEGEND_COLUMNS)
        for band in bands:
            write_text(figure, _LEFT, top, SEPARATOR.join(comparison.headings), _NAMES, color=GREY)
            top += _HEADING
            _write_names(figure, names, top + edges)
            for column, index in enumerate(band):
                left = _LEFT + _NAMES + column * (_PANEL + _GAP)
                of = comparison.measures[index].of
                write_text(figure, left, top - _HEADING, of, _PANEL, weight="bold")
                axes = axes_at(figure, left, top, _PANEL, edges[-1])
                _draw_panel(axes, comparison, index, edges)
            top += edges[-1] + _BELOW
    return figure


def _lines(names: Sequence[str]) -> list[str]:
    """Return the names of a method in one line, or in two if that is too long."""
    whole = SEPARATOR.join(names)
    if len(names) == 1 or len(whole) <= _LONGEST_LINE:
        return [whole]
    return [names[0], SEPARATOR.join(names[1:])]


def _write_names(figure: Figure, names: Sequence[list[str]], edges: Edges) -> None:
    for lines, top in zip(names, edges[:-1], strict=True):
        for number, line in enumerate(lines):
            base = top + _ROOM / 2 + _LINE * (number + 0.5) + _BASELINE
            write_text(figure, _LEFT, base, line, _NAMES - 0.1, va="baseline")


def _draw_panel(axes: Axes, comparison: Comparison, index: int, edges: Edges) -> None:
    heights = (edges[:-1] + edges[1:]) / 2
    measure, best = comparison.measures[index], comparison.best(index)
    if best is not None:
        axes.axvline(best.ours, **_BEST, zorder=1)
    for method, height in zip(comparison.methods, heights, strict=True):
        number = method.numbers[index]
        if number is not None:
            _draw_number(axes, number, height)
    better = f"← {measure.metric}, %" if measure.lower_is_better else f"{measure.metric}, % →"
    axes.set(ylim=(edges[-1], 0), yticks=heights, yticklabels=[], xlabel=better)
    axes.grid(color=GRID)
    axes.tick_params(axis="y", length=0)
    axes.margins(x=0.1)
    axes.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(ScalarFormatter(useOffset=False))


def _draw_number(axes: Axes, number: MeasuredNumber, height: float) -> None:
    if number.paper is not None:
        both = [number.ours, number.paper.value]
        axes.plot(both, [height, height], color=LIGHT_GREY, linewidth=1.5, zorder=2)
        axes.plot(number.paper.value, height, **_PAPER, zorder=4)
    if number.spread is not None:
        ends = [number.ours - number.spread, number.ours + number.spread]
        axes.plot(ends, [height, height], **_SPREAD, zorder=3)
    axes.plot(number.ours, height, **_OURS, zorder=5)


def _legend_handles(comparison: Comparison) -> Iterator[Line2D]:
    """Yield a legend entry for each kind of mark that is drawn."""
    numbers = [
        number for method in comparison.methods for number in method.numbers if number is not None
    ]
    yield Line2D([], [], **_OURS, linestyle="", label="our number")
    if any(number.paper for number in numbers):
        yield Line2D([], [], **_PAPER, linestyle="", label="the paper's")
    yield Line2D([], [], **_BEST, label="the best of ours")
    if any(number.spread is not None for number in numbers):
        yield Line2D([], [], **_SPREAD, label="± standard deviation")
