"""What shrinking leaves behind: the same pictures antialiased, and with pixels dropped."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8
from matplotlib.figure import Figure

from oddone.report.style import FAINT, WIDTH, drawing, new_figure, show_image, write
from oddone.report.words import number

ACROSS = 4

# In inches.
_MARGIN, _STEP, _SIDE, _HEADING, _ROW, _GAP = 0.1, 1.27, 1.15, 0.28, 1.48, 0.12


class Shrunk(NamedTuple):
    """A small picture and how odd the detector finds it."""

    picture: UInt8[np.ndarray, "height width 3"]
    score: float


class BothWays(NamedTuple):
    """The same picture, shrunk in both ways."""

    fixed: Shrunk
    aliased: Shrunk


def draw_artefacts(pictures: Sequence[BothWays]) -> Figure:
    """Return the pictures in bands of four: above antialiased, below aliased."""
    bands = [pictures[start : start + ACROSS] for start in range(0, len(pictures), ACROSS)]
    height = 2 * (_HEADING + _ROW) + _GAP
    with drawing():
        figure = new_figure(WIDTH, height * len(bands) + 0.05)
        for place, band in enumerate(bands):
            top = place * height + 0.05
            _draw(figure, "antialiased", [both.fixed for both in band], top)
            aliased = [both.aliased for both in band]
            _draw(figure, "aliased: pixels dropped", aliased, top + _HEADING + _ROW)
    return figure


def _draw(figure: Figure, heading: str, row: Sequence[Shrunk], top: float) -> None:
    write(figure, _MARGIN, top, heading, WIDTH, weight="bold")
    for column, shrunk in enumerate(row):
        left, upper = _MARGIN + column * _STEP, top + _HEADING
        show_image(figure, left, upper, _SIDE, shrunk.picture).set_label(heading)
        score = f"score {number(shrunk.score)}"
        write(figure, left, upper + _SIDE + 0.05, score, _SIDE, color=FAINT)
