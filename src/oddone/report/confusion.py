"""The confusion matrix: which class is taken for which."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64, Int
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba_array
from matplotlib.figure import Figure
from sklearn.metrics import confusion_matrix

from oddone.report.style import (
    BLACK,
    LIGHT_GREY,
    NORMAL,
    ON_COLOUR,
    WIDTH,
    axes_at,
    drawing_style,
    new_figure,
    shorten,
)
from oddone.wording import legible

MAX_WITH_NUMBERS = 12
MAX_WITH_NAMES = 40
MAX_BELOW_DARK_TEXT = 0.8  # on a stronger colour, light text has more contrast
_LONGEST_NAME = 13

# In inches.
_LEFT, _TOP, _BELOW = 1.4, 0.15, 1.4
_SIDE = WIDTH - _LEFT - 0.1


def confusion_shares(
    labels: Int[np.ndarray, " images"], predicted: Int[np.ndarray, " images"], classes: int
) -> Float64[np.ndarray, "classes classes"]:
    """Return which share of each true class gets which label; NaN where a class has no images."""
    counts = confusion_matrix(labels, predicted, labels=np.arange(classes))
    totals = counts.sum(axis=1, keepdims=True)
    shares = np.full(counts.shape, np.nan)  # where scikit-learn's normalize="true" would say 0
    np.divide(counts, totals, out=shares, where=totals > 0)
    return shares


def draw_confusion(
    shares: Float64[np.ndarray, "classes classes"], classes: Sequence[str]
) -> Figure:
    """Return the matrix as squares, the stronger the more; of few classes with numbers."""
    with drawing_style():
        figure = new_figure(WIDTH, _TOP + _SIDE + _BELOW)
        axes = axes_at(figure, _LEFT, _TOP, _SIDE, _SIDE)
        axes.imshow(_squares(shares))
        axes.set(xlabel="name given, in percent of the true class", ylabel="true class")
        axes.spines[:].set(visible=True, color=LIGHT_GREY)
        axes.tick_params(length=0)
        _write_names(axes, classes)
        if len(classes) <= MAX_WITH_NUMBERS:
            _write_percents(axes, shares)
    return figure


def _squares(
    shares: Float64[np.ndarray, "classes classes"],
) -> Float64[np.ndarray, "classes classes 4"]:
    """Return a colour for each share that lets the page shine through, be it light or dark."""
    opacity = np.nan_to_num(shares)  # what has no images is left empty
    return to_rgba_array(NORMAL, opacity.ravel()).reshape(*shares.shape, 4)


def _write_names(axes: Axes, classes: Sequence[str]) -> None:
    if len(classes) > MAX_WITH_NAMES:
        axes.set(xticks=[], yticks=[])
        return
    names = [shorten(legible(name), _LONGEST_NAME) for name in classes]
    size = 9.5 if len(classes) <= 20 else 6
    indices = range(len(classes))
    axes.set_xticks(indices, names, size=size, rotation=90)
    axes.set_yticks(indices, names, size=size)


def _write_percents(axes: Axes, shares: Float64[np.ndarray, "classes classes"]) -> None:
    for (row, column), share in np.ndenumerate(shares):
        if not share >= 0.01:  # NaN, where there are no images, is left out too
            continue
        colour = ON_COLOUR if share > MAX_BELOW_DARK_TEXT else BLACK
        axes.text(
            column, row, f"{100 * share:.0f}", ha="center", va="center", size=8.5, color=colour
        )
