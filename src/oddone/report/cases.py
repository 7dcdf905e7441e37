"""Images with a wrong verdict, each with the training images that look most like it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8
from matplotlib.figure import Figure

from oddone.report.style import (
    GREY,
    WIDTH,
    axes_at,
    drawing_style,
    new_figure,
    show_image,
    write_text,
)

MAX_NEIGHBOURS = 3

# In inches.
_MARGIN, _STEP, _SIDE, _HEADING, _FILE, _ROW = 0.1, 1.27, 1.15, 0.34, 0.2, 1.88


class CaptionedImage(NamedTuple):
    """A picture and the two lines below it."""

    picture: UInt8[np.ndarray, "height width 3"]
    name: str
    note: str


class Case(NamedTuple):
    """An image and the training images that look most like it."""

    image: CaptionedImage
    neighbours: Sequence[CaptionedImage]
    file_name: str
    """Where the image is found again."""


def draw_cases(cases: Sequence[Case], heading: str, colour: str) -> Figure:
    """Return a row for each case: its file, the image framed in the colour, its neighbours."""
    with drawing_style():
        figure = new_figure(WIDTH, _HEADING + _ROW * len(cases))
        write_text(figure, _MARGIN, 0.08, heading, _SIDE, weight="bold")
        others = "training images that look most like it"
        write_text(figure, _MARGIN + _STEP, 0.08, others, 3 * _STEP, weight="bold")
        for row, case in enumerate(cases):
            top = _HEADING + row * _ROW + _FILE
            width = WIDTH - 2 * _MARGIN
            write_text(figure, _MARGIN, top - _FILE, case.file_name, width, color=GREY, size=9)
            pictures = (case.image, *case.neighbours[:MAX_NEIGHBOURS])
            for column, image in enumerate(pictures):
                _draw_image(figure, image, _MARGIN + column * _STEP, top)
            frame = axes_at(figure, _MARGIN, top, _SIDE, _SIDE)
            frame.set(xticks=[], yticks=[], facecolor="none", label="frame")
            frame.spines[:].set(visible=True, color=colour, linewidth=2.5)
    return figure


def _draw_image(figure: Figure, image: CaptionedImage, left: float, top: float) -> None:
    show_image(figure, left, top, _SIDE, image.picture)
    write_text(figure, left, top + _SIDE + 0.06, image.name, _SIDE)
    write_text(figure, left, top + _SIDE + 0.24, image.note, _SIDE, color=GREY, size=9)
