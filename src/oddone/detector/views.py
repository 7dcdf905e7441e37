"""The views of an image as the detector sees them, each with its name and its distance."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from jaxtyping import UInt8

if TYPE_CHECKING:
    from oddone.detector.detector import Detector, Explanation


class View(NamedTuple):
    """One of an image's views."""

    name: str
    picture: UInt8[np.ndarray, "height width 3"]
    distance: float
    """From the class that is nearest to all views together."""


def image_views(
    detector: "Detector", image: UInt8[np.ndarray, "3 height width"], explanation: "Explanation"
) -> list[View]:
    """Return the views of an image as the detector sees them, with the explanation's distances."""
    pictures = detector.embedder.views(torch.from_numpy(np.array(image))[None])[:, 0]
    distances = explanation.distances[:, nearest_class(detector, explanation)].tolist()
    return [
        View(name, picture.permute(1, 2, 0).numpy(), distance)
        for name, picture, distance in zip(_view_names(detector), pictures, distances, strict=True)
    ]


def nearest_class(detector: "Detector", explanation: "Explanation") -> int:
    """Return the class that is nearest to all views together, whose distance is the score."""
    return int(detector.fuse(explanation.distances[:, None])[0].argmin())


def _view_names(detector: "Detector") -> list[str]:
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
