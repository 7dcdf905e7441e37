"""The views of Self-Ensemble Inference, and how far each is from the nearest class."""

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from oddone.detector.views import View
from oddone.report.style import GREY, WIDTH, drawing_style, new_figure, show_image, write_text
from oddone.wording import format_score

COLUMNS = 4
_MARGIN, _STEP, _SIDE = 0.1, 1.27, 1.15  # inches
_HEADING, _ROW, _BELOW = 0.62, 1.62, 0.15


class ImageViews(NamedTuple):
    """An image with all its views."""

    heading: str
    score: float
    views: Sequence[View]


def draw_views(images: Sequence[ImageViews]) -> Figure:
    """Return the views of each image, in rows of four, with their distances."""
    rows = [-(-len(image.views) // COLUMNS) for image in images]
    with drawing_style():
        figure = new_figure(WIDTH, sum(_HEADING + _ROW * count + _BELOW for count in rows))
        top = 0.1
        for image, count in zip(images, rows, strict=True):
            _draw_image(figure, image, top)
            top += _HEADING + _ROW * count + _BELOW
    return figure


def _draw_image(figure: Figure, image: ImageViews, top: float) -> None:
    width = WIDTH - 2 * _MARGIN
    write_text(figure, _MARGIN, top, image.heading, width, size=11, weight="bold")
    together = f"score of all views together: {format_score(image.score)}"
    write_text(figure, _MARGIN, top + 0.24, together, width, color=GREY)
    for index, view in enumerate(image.views):
        row, column = divmod(index, COLUMNS)
        left, upper = _MARGIN + column * _STEP, top + _HEADING - 0.1 + row * _ROW
        show_image(figure, left, upper, _SIDE, view.picture).set_label("view")
        write_text(figure, left, upper + _SIDE + 0.05, view.name, _SIDE)
        distance = f"distance {format_score(view.distance)}"
        write_text(figure, left, upper + _SIDE + 0.22, distance, _SIDE, color=GREY)
