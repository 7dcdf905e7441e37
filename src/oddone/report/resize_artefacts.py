"""What resizing leaves behind: the same pictures resized with antialiasing and without."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8
from matplotlib.figure import Figure

from oddone.report.style import GREY, WIDTH, drawing_style, new_figure, show_image, write_text
from oddone.wording import format_score

COLUMNS = 4

# In inches.
_MARGIN, _STEP, _SIDE, _HEADING, _ROW, _GAP = 0.1, 1.27, 1.15, 0.28, 1.48, 0.12


class ResizedImage(NamedTuple):
    """A small picture and its anomaly score."""

    picture: UInt8[np.ndarray, "height width 3"]
    score: float


class ResizedPair(NamedTuple):
    """The same picture, resized with antialiasing and by dropping pixels."""

    antialiased: ResizedImage
    aliased: ResizedImage


def draw_artefacts(pairs: Sequence[ResizedPair]) -> Figure:
    """Return the pictures in rows of four: above antialiased, below aliased."""
    bands = [pairs[start : start + COLUMNS] for start in range(0, len(pairs), COLUMNS)]
    height = 2 * (_HEADING + _ROW) + _GAP
    with drawing_style():
        figure = new_figure(WIDTH, height * len(bands) + 0.05)
        for index, band in enumerate(bands):
            top = index * height + 0.05
            _draw_row(figure, "antialiased", [pair.antialiased for pair in band], top)
            aliased = [pair.aliased for pair in band]
            _draw_row(figure, "aliased: pixels dropped", aliased, top + _HEADING + _ROW)
    return figure


def _draw_row(figure: Figure, heading: str, row: Sequence[ResizedImage], top: float) -> None:
    write_text(figure, _MARGIN, top, heading, WIDTH, weight="bold")
    for column, resized in enumerate(row):
        left, upper = _MARGIN + column * _STEP, top + _HEADING
        show_image(figure, left, upper, _SIDE, resized.picture).set_label(heading)
        score = f"score {format_score(resized.score)}"
        write_text(figure, left, upper + _SIDE + 0.05, score, _SIDE, color=GREY)
