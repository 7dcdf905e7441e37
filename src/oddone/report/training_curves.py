"""Training curves: the loss, its terms, and the learning rate, step by step."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

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

SMOOTHING_WINDOW = 0.03  # of all steps

# In inches.
_LEFT, _WIDTH, _LOSS, _RATE, _LEGEND_LINE = 0.75, WIDTH - 0.95, 2.9, 1.0, 0.215

# The same, for the losses of many networks.
_COLUMNS, _SMALL, _NAME, _BELOW = 2, 1.15, 0.26, 0.6
_SMALL_WIDTH = WIDTH / _COLUMNS - _LEFT - 0.1

Series = Float[np.ndarray, " steps"]


class LossCurve(NamedTuple):
    """The loss of a network, step by step."""

    steps: Int[np.ndarray, " steps"]
    values: Float[np.ndarray, " steps"]


def draw_training_curves(
    steps: Int[np.ndarray, " steps"], losses: Mapping[str, Series], learning_rate: Series
) -> Figure:
    """Return the losses by name, smoothed over pale raw values, above the learning rate."""
    with drawing_style():
        top = 0.1 + _LEGEND_LINE + 0.1
        below = top + _LOSS + 0.25
        figure = new_figure(WIDTH, below + _RATE + 0.55)
        loss = axes_at(figure, _LEFT, top, _WIDTH, _LOSS)
        rate = axes_at(figure, _LEFT, below, _WIDTH, _RATE)
        handles = []
        for index, (name, values) in enumerate(losses.items()):
            handles.append(_draw_loss(loss, steps, values, index))
            handles[-1].set_label(name)
        legend_at(figure, _LEFT, 0.1, handles, columns=len(handles))
        rate.plot(steps, learning_rate, color=SERIES[1])
        loss.set_ylabel("loss")
        rate.set(ylabel="learning rate", xlabel="step", ylim=(0, None))
        loss.tick_params(labelbottom=False)
        for axes, ticks in ((loss, 5), (rate, 3)):
            _format_axes(axes, steps, ticks)
    return figure


def draw_losses(networks: Mapping[str, Sequence[LossCurve]]) -> Figure:
    """Return the losses of many networks: a panel for each name, a line for each network."""
    with drawing_style():
        height = _NAME + _SMALL + _BELOW
        figure = new_figure(WIDTH, 0.1 + height * -(-len(networks) // _COLUMNS))
        for index, (name, curves) in enumerate(networks.items()):
            band, column = divmod(index, _COLUMNS)
            left, top = column * WIDTH / _COLUMNS, 0.1 + band * height
            write_text(
                figure, left + 0.1, top, name, WIDTH / _COLUMNS - 0.15, size=8, weight="bold"
            )
            axes = axes_at(figure, left + _LEFT, top + _NAME, _SMALL_WIDTH, _SMALL)
            for curve in curves:
                _draw_loss(axes, curve.steps, curve.values)
            longest = max((curve.steps for curve in curves), key=lambda steps: steps[-1])
            _format_axes(axes, longest, ticks=4, x_ticks=3)
            axes.set(xlabel="step", ylabel="loss")
    return figure


def smooth(values: Series) -> Series:
    """Return means over a window around each step, which is shorter at both ends."""
    radius = int(len(values) * SMOOTHING_WINDOW / 2)
    sums = np.concatenate(([0.0], np.cumsum(values)))
    indices = np.arange(len(values))
    first, last = np.maximum(indices - radius, 0), np.minimum(indices + radius + 1, len(values))
    means: np.ndarray = (sums[last] - sums[first]) / (last - first)
    return means


def _draw_loss(
    axes: Axes, steps: Int[np.ndarray, " steps"], values: Series, index: int = 0
) -> Line2D:
    """Return the smoothed line of a loss, drawn over the pale line of its raw values."""
    colour, dashes = SERIES[(index + 1) % len(SERIES)], DASHES[index % len(DASHES)]
    axes.plot(steps, values, color=translucent(colour, 0.25), linewidth=0.8)
    (line,) = axes.plot(steps, smooth(values), dashes, color=colour)
    return line


def _format_axes(
    axes: Axes, steps: Int[np.ndarray, " steps"], ticks: int, x_ticks: int = 5
) -> None:
    axes.set_xlim(steps[0], steps[-1] if len(steps) > 1 else steps[0] + 1)
    axes.grid(color=GRID)
    axes.spines.left.set_visible(True)
    axes.yaxis.set_major_locator(MaxNLocator(ticks))
    axes.xaxis.set_major_locator(MaxNLocator(x_ticks, integer=True))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
