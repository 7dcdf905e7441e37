"""The views that self-ensemble inference looks at, and how far each is from the nearest class."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import UInt8
from matplotlib.figure import Figure

from oddone.detector import Detector, Explanation
from oddone.report.style import FAINT, WIDTH, drawing, new_figure, show_image, write
from oddone.report.words import number
from oddone.transforms import rotate

ACROSS = 4
_MARGIN, _STEP, _SIDE = 0.1, 1.27, 1.15  # inches
_HEADING, _ROW, _BELOW = 0.62, 1.62, 0.15


class View(NamedTuple):
    """One of an image's views."""

    name: str
    picture: UInt8[np.ndarray, "height width 3"]
    distance: float
    """From the class that is nearest to all views together."""


class Viewed(NamedTuple):
    """An image with all its views."""

    heading: str
    score: float
    views: Sequence[View]


def draw_views(images: Sequence[Viewed]) -> Figure:
    """Return the views of each image, in rows of four, with their distances."""
    rows = [-(-len(image.views) // ACROSS) for image in images]
    with drawing():
        figure = new_figure(WIDTH, sum(_HEADING + _ROW * count + _BELOW for count in rows))
        top = 0.1
        for image, count in zip(images, rows, strict=True):
            _draw(figure, image, top)
            top += _HEADING + _ROW * count + _BELOW
    return figure


def _draw(figure: Figure, image: Viewed, top: float) -> None:
    width = WIDTH - 2 * _MARGIN
    write(figure, _MARGIN, top, image.heading, width, size=11, weight="bold")
    together = f"score of all views together: {number(image.score)}"
    write(figure, _MARGIN, top + 0.24, together, width, color=FAINT)
    for place, view in enumerate(image.views):
        row, column = divmod(place, ACROSS)
        left, upper = _MARGIN + column * _STEP, top + _HEADING - 0.1 + row * _ROW
        show_image(figure, left, upper, _SIDE, view.picture).set_label("view")
        write(figure, left, upper + _SIDE + 0.05, view.name, _SIDE)
        distance = f"distance {number(view.distance)}"
        write(figure, left, upper + _SIDE + 0.22, distance, _SIDE, color=FAINT)


def views_of(
    detector: Detector, image: UInt8[np.ndarray, "3 height width"], explanation: Explanation
) -> list[View]:
    """Return the views of an image as the detector sees them, measured as it was explained."""
    upright = torch.from_numpy(np.array(image))[None].float() / 255
    views = detector.encoder.views(upright)
    pictures = views.images[:, 0]
    turned = rotate(upright.repeat(len(pictures), 1, 1, 1), views.poses)
    distances = explanation.distances[:, nearest_class(detector, explanation)].tolist()
    return [
        View(
            _name(pose, mirrored=not torch.equal(picture, plain)),
            (picture.permute(1, 2, 0) * 255).round().byte().numpy(),
            distance,
        )
        for pose, picture, plain, distance in zip(
            views.poses.tolist(), pictures, turned, distances, strict=True
        )
    ]


def nearest_class(detector: Detector, explanation: Explanation) -> int:
    """Return the class that is nearest to all views together, whose distance is the score."""
    return int(detector.fuse(explanation.distances[:, None])[0].argmin())


def _name(pose: int, *, mirrored: bool) -> str:
    if pose == 0:
        return "mirrored" if mirrored else "as it is"
    return f"{'mirrored' if mirrored else 'turned'} {90 * pose}°"
