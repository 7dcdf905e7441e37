"""The views of Self-Ensemble Inference, and how far each is from the nearest class."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import UInt8
from matplotlib.figure import Figure

from oddone.detector import Detector, Explanation
from oddone.report.style import GREY, WIDTH, drawing_style, new_figure, show_image, write_text
from oddone.wording import format_score

COLUMNS = 4
_MARGIN, _STEP, _SIDE = 0.1, 1.27, 1.15  # inches
_HEADING, _ROW, _BELOW = 0.62, 1.62, 0.15


class View(NamedTuple):
    """One of an image's views."""

    name: str
    picture: UInt8[np.ndarray, "height width 3"]
    distance: float
    """From the class that is nearest to all views together."""


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


def image_views(
    detector: Detector, image: UInt8[np.ndarray, "3 height width"], explanation: Explanation
) -> list[View]:
    """Return the views of an image as the detector sees them, with the explanation's distances."""
    pictures = detector.embedder.views(torch.from_numpy(np.array(image))[None])[:, 0]
    distances = explanation.distances[:, nearest_class(detector, explanation)].tolist()
    return [
        View(name, picture.permute(1, 2, 0).numpy(), distance)
        for name, picture, distance in zip(_view_names(detector), pictures, distances, strict=True)
    ]


def nearest_class(detector: Detector, explanation: Explanation) -> int:
    """Return the class that is nearest to all views together, whose distance is the score."""
    return int(detector.fuse(explanation.distances[:, None])[0].argmin())


def _view_names(detector: Detector) -> list[str]:
    """Return what was done to an image for each of the detector's views."""
    views = detector.embedder.views
    changes = zip(views.poses, views.mirrored, views.moved, strict=True)
    return [_view_name(pose, shift, mirrored=mirrored) for pose, mirrored, shift in changes]


def _view_name(pose: int, shift: int, *, mirrored: bool) -> str:
    """Return a few words; names of mirrored views are short, as there is little room."""
    turned, moved = f"{90 * pose}°" if pose else "", f"{shift:+d}" if shift else ""
    if mirrored:
        return f"mirrored {turned}{moved}".strip()
    return f"rotated {turned}" if turned else f"moved {moved}" if moved else "as it is"
