"""Training curves: the loss, what it is made of, and the learning rate, step by step."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from oddone.report.style import (
    DASHES,
    GRID,
    SERIES,
    WIDTH,
    axes_at,
    drawing,
    key_at,
    new_figure,
    tinted,
)

SMOOTHED_OVER = 0.03  # of all steps

# In inches.
_LEFT, _WIDTH, _LOSS, _RATE, _KEY_LINE = 0.75, WIDTH - 0.95, 2.9, 1.0, 0.215

Series = Float[np.ndarray, " steps"]


def draw_curves(
    steps: Int[np.ndarray, " steps"], losses: Mapping[str, Series], learning_rate: Series
) -> Figure:
    """Return the losses by their names, pale as they were and smoothed, above the learning rate."""
    with drawing():
        top = 0.1 + _KEY_LINE + 0.1
        below = top + _LOSS + 0.25
        figure = new_figure(WIDTH, below + _RATE + 0.55)
        loss = axes_at(figure, _LEFT, top, _WIDTH, _LOSS)
        rate = axes_at(figure, _LEFT, below, _WIDTH, _RATE)
        keys = []
        for place, (name, values) in enumerate(losses.items()):
            colour, dashes = SERIES[(place + 1) % len(SERIES)], DASHES[place % len(DASHES)]
            loss.plot(steps, values, color=tinted(colour, 0.25), linewidth=0.8)
            keys += loss.plot(steps, smoothed(values), dashes, color=colour, label=name)
        key_at(figure, _LEFT, 0.1, keys, columns=len(keys))
        rate.plot(steps, learning_rate, color=SERIES[1])
        loss.set_ylabel("loss")
        rate.set(ylabel="learning rate", xlabel="step", ylim=(0, None))
        loss.tick_params(labelbottom=False)
        for axes, ticks in ((loss, 5), (rate, 3)):
            _tidy(axes, steps, ticks)
    return figure


def smoothed(values: Series) -> Series:
    """Return means over a window around each step, which at both ends is cut short."""
    radius = int(len(values) * SMOOTHED_OVER / 2)
    sums = np.concatenate(([0.0], np.cumsum(values)))
    places = np.arange(len(values))
    first, last = np.maximum(places - radius, 0), np.minimum(places + radius + 1, len(values))
    means: np.ndarray = (sums[last] - sums[first]) / (last - first)
    return means


def _tidy(axes: Axes, steps: Int[np.ndarray, " steps"], ticks: int) -> None:
    axes.set_xlim(steps[0], steps[-1] if len(steps) > 1 else steps[0] + 1)
    axes.grid(color=GRID)
    axes.spines.left.set_visible(True)
    axes.yaxis.set_major_locator(MaxNLocator(ticks))
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
