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
    FAINT,
    GRID,
    NORMAL,
    PALE,
    UNKNOWN,
    WIDTH,
    axes_at,
    drawing,
    key_at,
    new_figure,
    tinted,
    write,
)

ACROSS = 2
"""Panels side by side, so that a phone can show them."""
_KEYS_ACROSS = 3
SEPARATOR = " · "
"""Between the names of a method."""

# In inches.
_LEFT, _NAMES, _GAP, _RIGHT = 0.1, 2.05, 0.25, 0.15
_PANEL = (WIDTH - _LEFT - _NAMES - (ACROSS - 1) * _GAP - _RIGHT) / ACROSS
_HEADING, _LINE, _ROOM, _BELOW, _KEY_LINE = 0.24, 0.16, 0.07, 0.62, 0.215
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
_SPREAD: dict[str, Any] = {"color": tinted(NORMAL, 0.5), "linewidth": 3.5, "solid_capstyle": "butt"}
_BEST: dict[str, Any] = {"color": NORMAL, "linewidth": 0.9, "dashes": (1, 2)}

Edges = Float[np.ndarray, " edges"]
"""Where the lines of the methods begin and end, in inches."""


class Measure(NamedTuple):
    """What is measured of each method."""

    of: str
    """The images it is about."""
    metric: str
    lower_is_better: bool = False


class Printed(NamedTuple):
    """The paper's number beside one of ours."""

    value: float
    words: str
    """It as text, with a mark that says how ours compares."""
    ours_is: str
    """Better, worse or same."""


class Number(NamedTuple):
    """What a method reached, in percent."""

    ours: float
    words: str
    """It as text, with its spread."""
    spread: float | None = None
    """The standard deviation over seeds, if there are several."""
    paper: Printed | None = None


class Method(NamedTuple):
    """A method and its numbers."""

    names: Sequence[str]
    """One for each heading."""
    numbers: Sequence[Number | None]
    """One for each measure, if it was measured."""


class Comparison(NamedTuple):
    """Methods by the same measures."""

    headings: Sequence[str]
    """What the names of a method say."""
    measures: Sequence[Measure]
    methods: Sequence[Method]

    def best(self, place: int) -> Number | None:
        """Return the best of our numbers by the measure at that place, if there is any."""
        numbers = [method.numbers[place] for method in self.methods]
        measured = [number for number in numbers if number is not None]
        pick = min if self.measures[place].lower_is_better else max
        return pick(measured, key=lambda number: number.ours, default=None)


def draw_comparison(comparison: Comparison) -> Figure:
    """Return a dot plot: filled dots are our numbers, hollow ones the paper's."""
    measured = [place for place in range(len(comparison.measures)) if comparison.best(place)]
    bands = [measured[first : first + ACROSS] for first in range(0, len(measured), ACROSS)]
    names = [_lines(method.names) for method in comparison.methods]
    edges = np.cumsum([0.0, *(_LINE * len(lines) + _ROOM for lines in names)])
    keys = list(_keys(comparison))
    top = 0.1 + _KEY_LINE * -(-len(keys) // _KEYS_ACROSS) + 0.15
    with drawing():
        figure = new_figure(WIDTH, top + len(bands) * (_HEADING + edges[-1] + _BELOW))
        key_at(figure, _LEFT, 0.1, keys, columns=_KEYS_ACROSS)
        for band in bands:
            write(figure, _LEFT, top, SEPARATOR.join(comparison.headings), _NAMES, color=FAINT)
            top += _HEADING
            _write_names(figure, names, top + edges)
            for column, place in enumerate(band):
                left = _LEFT + _NAMES + column * (_PANEL + _GAP)
                of = comparison.measures[place].of
                write(figure, left, top - _HEADING, of, _PANEL, weight="bold")
                axes = axes_at(figure, left, top, _PANEL, edges[-1])
                _draw_panel(axes, comparison, place, edges)
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
            write(figure, _LEFT, base, line, _NAMES - 0.1, va="baseline")


def _draw_panel(axes: Axes, comparison: Comparison, place: int, edges: Edges) -> None:
    heights = (edges[:-1] + edges[1:]) / 2
    measure, best = comparison.measures[place], comparison.best(place)
    if best is not None:
        axes.axvline(best.ours, **_BEST, zorder=1)
    for method, height in zip(comparison.methods, heights, strict=True):
        number = method.numbers[place]
        if number is not None:
            _draw_number(axes, number, height)
    better = f"← {measure.metric}, %" if measure.lower_is_better else f"{measure.metric}, % →"
    axes.set(ylim=(edges[-1], 0), yticks=heights, yticklabels=[], xlabel=better)
    axes.grid(color=GRID)
    axes.tick_params(axis="y", length=0)
    axes.margins(x=0.1)
    axes.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(ScalarFormatter(useOffset=False))


def _draw_number(axes: Axes, number: Number, height: float) -> None:
    if number.paper is not None:
        both = [number.ours, number.paper.value]
        axes.plot(both, [height, height], color=PALE, linewidth=1.5, zorder=2)
        axes.plot(number.paper.value, height, **_PAPER, zorder=4)
    if number.spread is not None:
        ends = [number.ours - number.spread, number.ours + number.spread]
        axes.plot(ends, [height, height], **_SPREAD, zorder=3)
    axes.plot(number.ours, height, **_OURS, zorder=5)


def _keys(comparison: Comparison) -> Iterator[Line2D]:
    """Yield what explains the marks that are there."""
    numbers = [
        number for method in comparison.methods for number in method.numbers if number is not None
    ]
    yield Line2D([], [], **_OURS, linestyle="", label="our number")
    if any(number.paper for number in numbers):
        yield Line2D([], [], **_PAPER, linestyle="", label="the paper's")
    yield Line2D([], [], **_BEST, label="the best of ours")
    if any(number.spread is not None for number in numbers):
        yield Line2D([], [], **_SPREAD, label="± standard deviation")
