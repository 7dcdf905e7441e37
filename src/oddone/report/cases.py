"""Images that were taken for something else, each with the training images it looks like."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8
from matplotlib.figure import Figure

from oddone.report.style import FAINT, WIDTH, axes_at, drawing, new_figure, show_image, write

MOST_NEIGHBOURS = 3

# In inches.
_MARGIN, _STEP, _SIDE, _HEADING, _ROW = 0.1, 1.27, 1.15, 0.34, 1.68


class Captioned(NamedTuple):
    """A picture, and two lines to stand below it."""

    picture: UInt8[np.ndarray, "height width 3"]
    name: str
    note: str


class Case(NamedTuple):
    """An image and the training images that look most like it."""

    image: Captioned
    neighbours: Sequence[Captioned]


def draw_cases(cases: Sequence[Case], heading: str, colour: str) -> Figure:
    """Return a row for each case: the image, framed in the colour, and its neighbours."""
    with drawing():
        figure = new_figure(WIDTH, _HEADING + _ROW * len(cases))
        write(figure, _MARGIN, 0.08, heading, _SIDE, weight="bold")
        others = "training images that look most like it"
        write(figure, _MARGIN + _STEP, 0.08, others, 3 * _STEP, weight="bold")
        for row, case in enumerate(cases):
            top = _HEADING + row * _ROW
            pictures = (case.image, *case.neighbours[:MOST_NEIGHBOURS])
            for column, captioned in enumerate(pictures):
                _draw(figure, captioned, _MARGIN + column * _STEP, top)
            frame = axes_at(figure, _MARGIN, top, _SIDE, _SIDE)
            frame.set(xticks=[], yticks=[], facecolor="none", label="frame")
            frame.spines[:].set(visible=True, color=colour, linewidth=2.5)
    return figure


def _draw(figure: Figure, captioned: Captioned, left: float, top: float) -> None:
    show_image(figure, left, top, _SIDE, captioned.picture)
    write(figure, left, top + _SIDE + 0.06, captioned.name, _SIDE)
    write(figure, left, top + _SIDE + 0.24, captioned.note, _SIDE, color=FAINT, size=9)
