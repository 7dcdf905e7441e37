"""Poses, views and SimCLR's augmentation, batched on tensors of any device.

Images are floats from 0 to 1. Every row has its own random parameters, drawn from a generator.
"""

from oddone.transforms.colour import Jitter, Strengths, grey, jitter, random_grey, random_jitter
from oddone.transforms.crop import Boxes, crop, draw_boxes, random_crop
from oddone.transforms.policy import (
    AugmentSettings,
    CroppedViews,
    ViewDraws,
    augment,
    colour,
    cut_views,
    draw_views,
)
from oddone.transforms.poses import (
    POSES,
    Rotations,
    ViewSet,
    mirror,
    moved_and_mirrored,
    one_view,
    random_mirror,
    rotate,
    rotations,
    rotations_and_mirrors,
)

__all__ = [
    "POSES",
    "AugmentSettings",
    "Boxes",
    "CroppedViews",
    "Jitter",
    "Rotations",
    "Strengths",
    "ViewDraws",
    "ViewSet",
    "augment",
    "colour",
    "crop",
    "cut_views",
    "draw_boxes",
    "draw_views",
    "grey",
    "jitter",
    "mirror",
    "moved_and_mirrored",
    "one_view",
    "random_crop",
    "random_grey",
    "random_jitter",
    "random_mirror",
    "rotate",
    "rotations",
    "rotations_and_mirrors",
]
