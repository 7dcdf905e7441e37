"""t-SNE: embeddings of test images in two dimensions, coloured by class, and of OOD images."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from sklearn.manifold import TSNE

from oddone.report.style import (
    BLACK,
    LIGHT_GREY,
    WIDTH,
    axes_at,
    drawing_style,
    legend_at,
    new_figure,
    shorten,
    write_text,
)
from oddone.wording import legible

MIN_POINTS = 4  # that t-SNE can lay out
PERPLEXITY = 30.0
MAX_NAMED_CLASSES = 20

# Paul Tol's muted colours, which every eye can tell apart, and grey; OOD points are black crosses.
COLOURS = (
    "#332288", "#88CCEE", "#117733", "#DDCC77", "#CC6677", "#44AA99", "#882255", "#999933",
    "#AA4499", "#9A9A9A",
)  # fmt: skip
MARKERS = "os^D"
_OOD = {"marker": "x", "color": BLACK, "linestyle": "", "markeredgewidth": 0.8}

# In inches.
_MARGIN, _GAP, _TITLE, _BELOW, _LEGEND_LINE, _LEGEND_WIDTH = 0.3, 0.4, 0.3, 0.4, 0.215, 1.25
_SIDES = {1: WIDTH - 2 * _MARGIN, 2: 3.6, 3: 2.9, 4: 2.6}
_LONGEST_NAME = 13


class TSNEPanel(NamedTuple):
    """One detector's embeddings in two dimensions."""

    name: str
    points: Float[np.ndarray, "points 2"]
    labels: Int[np.ndarray, " points"]
    """The class of each; -1 for OOD images."""


def tsne_points(
    embeddings: Float[np.ndarray, "points dim"], seed: int
) -> Float[np.ndarray, "points 2"]:
    """Return two coordinates for each embedding, such that neighbours stay neighbours."""
    perplexity = min(PERPLEXITY, (len(embeddings) - 1) / 3)
    has_two_axes = embeddings.shape[1] > 1 and bool(np.ptp(embeddings, axis=0).any())
    layout = TSNE(
        perplexity=perplexity,
        init="pca" if has_two_axes else "random",  # the axes of one point would be divided by zero
        random_state=seed,
    )
    points: np.ndarray = layout.fit_transform(embeddings)
    return points


def draw_tsne(panels: Sequence[TSNEPanel], classes: Sequence[str]) -> Figure:
    """Return the points of up to four detectors side by side, with names if there are several."""
    side = _SIDES[len(panels)]
    width = 2 * _MARGIN + len(panels) * (side + _GAP) - _GAP
    top = 0.05 + (_TITLE if len(panels) > 1 else 0)
    handles = _legend_handles(panels, classes)
    columns = int((width - _MARGIN) / _LEGEND_WIDTH)
    lines = -(-len(handles) // columns)
    with drawing_style():
        figure = new_figure(width, top + side + _BELOW + _LEGEND_LINE * lines + 0.05)
        for index, panel in enumerate(panels):
            left = _MARGIN + index * (side + _GAP)
            if len(panels) > 1:
                write_text(figure, left, 0.05, panel.name, side, size=11, weight="bold")
            _draw_points(axes_at(figure, left, top, side, side), panel, 1.3 + 0.45 * side)
        legend_at(figure, _MARGIN, top + side + _BELOW, handles, columns)
    return figure


def _draw_points(axes: Axes, panel: TSNEPanel, size: float) -> None:
    for label in np.unique(panel.labels):
        across, up = panel.points[panel.labels == label].T
        axes.plot(across, up, **_marker_style(int(label)), markersize=size)
    axes.set(xticks=[], yticks=[], xlabel="first t-SNE axis", ylabel="second t-SNE axis")
    axes.spines[:].set(visible=True, color=LIGHT_GREY)


def _marker_style(label: int) -> dict[str, Any]:
    if label < 0:
        return {**_OOD, "zorder": 3}
    colour, marker = COLOURS[label % len(COLOURS)], MARKERS[label % len(MARKERS)]
    return {"marker": marker, "color": colour, "linestyle": "", "markeredgewidth": 0}


def _legend_handles(panels: Sequence[TSNEPanel], classes: Sequence[str]) -> list[Line2D]:
    """Return a legend entry for each class, or one with their number if there are very many."""
    shown = np.unique(np.concatenate([panel.labels for panel in panels])).tolist()
    known = [label for label in shown if label >= 0]
    if len(known) <= MAX_NAMED_CLASSES:
        names = [shorten(legible(classes[label]), _LONGEST_NAME) for label in known]
    else:
        names, known = [f"{len(known):,} classes"], known[:1]
    labels = dict(zip(known, names, strict=True)) | ({-1: "OOD"} if -1 in shown else {})
    return [
        Line2D([], [], **_marker_style(label), markersize=5, label=name)
        for label, name in labels.items()
    ]
