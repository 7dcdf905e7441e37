"""SimCLR's augmentation of images that are already in their pose."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from oddone.errors import DataError, SettingsError, check_numbers
from oddone.transforms.colour import Jitter, Strengths, draw_jitter, grey, jitter_in_place
from oddone.transforms.crop import crop_flipped, draw_boxes
from oddone.transforms.poses import check_poses, source_flips
from oddone.transforms.shift import draw_shifts, shift_flipped

WHOLE = (1.0, 1.0)
"""The `crop_scale` and `crop_ratio` of images that are not cropped."""


@dataclass(frozen=True, kw_only=True)
class AugmentSettings:
    """How far views of one image may differ; the defaults are SimCLR's and the paper's.

    Examples
    --------
    >>> AugmentSettings.of_classifier(shift=4).jitter_probability
    0.0

    """

    crop_scale: tuple[float, float] = (0.08, 1.0)
    """The least and the greatest share of the image's area that a crop shows."""
    crop_ratio: tuple[float, float] = (3 / 4, 4 / 3)
    """The least and the greatest width of a crop over its height."""
    shift: int = 0
    """By how many pixels an image is moved at most, instead of cropped."""
    mirror_probability: float = 0.5
    brightness: float = 0.4
    contrast: float = 0.4
    saturation: float = 0.4
    hue: float = 0.1
    """In turns of the colour wheel, to either side."""
    jitter_probability: float = 0.8
    grey_probability: float = 0.2

    def __post_init__(self) -> None:
        check_numbers(self)
        low, high = self.crop_scale
        if not 0 < low <= high <= 1:
            raise SettingsError(
                f"crop_scale={self.crop_scale}: choose a least and a greatest share of the area, "
                f"above 0 and at most 1"
            )
        low, high = self.crop_ratio
        if not 0 < low <= high < math.inf:
            raise SettingsError(
                f"crop_ratio={self.crop_ratio}: choose a least and a greatest width over height, "
                f"both above 0"
            )
        if self.shift < 0:
            raise SettingsError(f"shift={self.shift}: choose 0 or a number of pixels")
        if self.shift > 0 and (self.crop_scale, self.crop_ratio) != (WHOLE, WHOLE):
            raise SettingsError(
                f"shift={self.shift} moves whole images, and crop_scale={self.crop_scale} with "
                f"crop_ratio={self.crop_ratio} cuts them; set both to {WHOLE}, or shift=0"
            )
        for name in ("mirror_probability", "jitter_probability", "grey_probability"):
            if not 0 <= getattr(self, name) <= 1:
                raise SettingsError(f"{name}={getattr(self, name)}: choose it from 0 to 1")
        for name in ("brightness", "contrast", "saturation"):
            if not 0 <= getattr(self, name) < math.inf:
                raise SettingsError(
                    f"{name}={getattr(self, name)}: choose 0 (no change) or a positive number"
                )
        if not 0 <= self.hue <= 0.5:
            raise SettingsError(f"hue={self.hue}: choose it from 0 to 0.5, half the colour wheel")

    @staticmethod
    def of_classifier(*, shift: int) -> "AugmentSettings":
        """Return what classifiers of small images are trained with: mirrored and moved, no more."""
        return AugmentSettings(
            crop_scale=WHOLE,
            crop_ratio=WHOLE,
            shift=shift,
            jitter_probability=0.0,
            grey_probability=0.0,
        )

    @property
    def strengths(self) -> Strengths:
        """How far the colour jitter reaches."""
        return Strengths(self.brightness, self.contrast, self.saturation, self.hue)


class CroppedViews(NamedTuple):
    """Views that have been mirrored and cropped, or moved, and are still to be coloured."""

    views: Float[Tensor, "rows 3 height width"]
    jitter: Jitter
    greyed: Bool[Tensor, " rows"]

    def take(self, rows: Int[Tensor, " some"] | slice) -> "CroppedViews":
        """Return some of the views."""
        return CroppedViews(self.views[rows], self.jitter.take(rows), self.greyed[rows])

    def parts(self, number: int) -> "list[CroppedViews]":
        """Return the views in so many parts, or in fewer, so that none has less than two."""
        number = max(1, min(number, len(self.views) // 2))
        ends = [len(self.views) * end // number for end in range(number + 1)]
        return [self.take(slice(start, end)) for start, end in pairwise(ends)]

    def __add__(self, other: "CroppedViews") -> "CroppedViews":  # type: ignore[override]
        """Return the views of both."""
        jitter = Jitter(*map(torch.cat, zip(self.jitter, other.jitter, strict=True)))
        views, greyed = (
            torch.cat(both) for both in ((self.views, other.views), (self.greyed, other.greyed))
        )
        return CroppedViews(views, jitter, greyed)


def augment(
    images: Float[Tensor, "rows 3 height width"],
    poses: Int[Tensor, " rows"],
    settings: AugmentSettings,
    *,
    generator: torch.Generator,
) -> Float[Tensor, "rows 3 height width"]:
    """Return one random view of each image, which is already turned to its pose.

    The same as `random_mirror`, `random_crop`, `random_jitter` and `random_grey` one after the
    other, but mirror and crop are one step, and what follows is done in place. Works in float32 at
    least; no gradient flows through.
    """
    return colour(crop_views(images, poses, settings, generator=generator)).to(images.dtype)


@torch.no_grad()
def crop_views(
    images: Float[Tensor, "rows 3 height width"],
    poses: Int[Tensor, " rows"],
    settings: AugmentSettings,
    *,
    generator: torch.Generator,
) -> CroppedViews:
    """Return the first half of `augment`, which draws all that is random; float32 at least."""
    _check_images(images)
    check_poses(poses, len(images))
    device = images.device
    rows, _, height, width = images.shape
    mirrored = _coins(rows, settings.mirror_probability, generator)
    flips = source_flips(mirrored.to(device), poses.to(device))
    working = images.to(torch.promote_types(images.dtype, torch.float32))
    if settings.shift > 0:
        _check_shift(settings.shift, height, width)
        shifts = draw_shifts(rows, settings.shift, generator=generator).to(device)
        views = shift_flipped(working, shifts, flips)
    else:
        boxes = draw_boxes(
            rows, (height, width), settings.crop_scale, settings.crop_ratio, generator=generator
        ).to(device)
        views = crop_flipped(working, boxes, flips)
    jitter = draw_jitter(
        rows, settings.strengths, settings.jitter_probability, generator=generator
    ).to(device)
    greyed = _coins(rows, settings.grey_probability, generator).to(device)
    return CroppedViews(views, jitter, greyed)


@torch.no_grad()
def colour(cropped: CroppedViews) -> Float[Tensor, "rows 3 height width"]:
    """Return the second half of `augment`, in the place of the views."""
    views, jitter, greyed = cropped
    jitter_in_place(views, jitter)
    members = greyed.nonzero()[:, 0]
    return views.index_copy_(0, members, grey(views.index_select(0, members)))


def _check_shift(shift: int, height: int, width: int) -> None:
    if shift >= min(height, width):
        raise SettingsError(
            f"shift={shift} would move an image of {height} x {width} pixels out of sight; choose "
            f"at most {min(height, width) - 1}"
        )


def _coins(rows: int, probability: float, generator: torch.Generator) -> Tensor:
    return torch.rand(rows, generator=generator, device=generator.device) < probability


def _check_images(images: Tensor) -> None:
    if not images.is_floating_point():
        raise DataError(
            f"images are {images.dtype}; pass floats from 0 to 1, such as images.float() / 255"
        )
    if images.ndim != 4 or images.shape[1] != 3:
        raise DataError(
            f"images have shape {tuple(images.shape)}; pass [rows, 3, height, width], "
            f"grey images with their channel repeated"
        )
