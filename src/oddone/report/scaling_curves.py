"""Methods by the minutes they were given: a panel for each measure, a line for each method."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, NullLocator

from oddone.bench.scaling import Curve
from oddone.report.style import (
    DASHES,
    GRID,
    SERIES,
    WIDTH,
    axes_at,
    drawing_style,
    legend_at,
    new_figure,
    translucent,
    write_text,
)

MARKERS = ("o", "s", "^", "D", "v", "P", "X")

# In inches.
_LEFT, _RIGHT, _PANEL, _NAME, _BELOW, _LEGEND_LINE = 0.6, 0.15, 2.2, 0.26, 0.6, 0.215
_LEGEND_COLUMNS = 2


def draw_scaling(measures: Mapping[str, Sequence[Curve]]) -> Figure:
    """Return the curves of each measure by its name, with their spread over seeds in the shade."""
    names = list(dict.fromkeys(curve.name for curves in measures.values() for curve in curves))
    handles = [Line2D([], [], **_style(index), label=name) for index, name in enumerate(names)]
    top = 0.1 + _LEGEND_LINE * -(-len(handles) // _LEGEND_COLUMNS) + 0.15
    with drawing_style():
        figure = new_figure(WIDTH, top + len(measures) * (_NAME + _PANEL + _BELOW))
        legend_at(figure, _LEFT, 0.1, handles, columns=_LEGEND_COLUMNS)
        for measure, curves in measures.items():
            write_text(figure, _LEFT, top, f"{measure}, %", WIDTH - _LEFT, weight="bold")
            axes = axes_at(figure, _LEFT, top + _NAME, WIDTH - _LEFT - _RIGHT, _PANEL)
            for curve in curves:
                _draw_curve(axes, curve, names.index(curve.name))
            _format_axes(axes, curves)
            top += _NAME + _PANEL + _BELOW
    return figure


def _style(index: int) -> dict[str, Any]:
    """Return the line of a method: colour, dashes and marker of its own."""
    return {
        "color": SERIES[index % len(SERIES)],
        "linestyle": DASHES[index % len(DASHES)],
        "marker": MARKERS[index % len(MARKERS)],
        "markersize": 4.5,
        "linewidth": 1.6,
    }


def _draw_curve(axes: Axes, curve: Curve, index: int) -> None:
    minutes = [point.minutes for point in curve.points]
    means = [point.mean for point in curve.points]
    axes.plot(minutes, means, **_style(index), zorder=3)
    if any(point.spread is not None for point in curve.points):
        spreads = [point.spread or 0.0 for point in curve.points]
        axes.fill_between(
            minutes,
            [mean - spread for mean, spread in zip(means, spreads, strict=True)],
            [mean + spread for mean, spread in zip(means, spreads, strict=True)],
            color=translucent(SERIES[index % len(SERIES)], 0.2),
            linewidth=0,
            zorder=2,
        )


def _format_axes(axes: Axes, curves: Sequence[Curve]) -> None:
    ticks = sorted({point.minutes for curve in curves for point in curve.points})
    axes.set_xscale("log")
    axes.set_xticks(ticks, [f"{minutes:g}" for minutes in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel("minutes of two cores")
    axes.grid(color=GRID)
    axes.spines.left.set_visible(True)
