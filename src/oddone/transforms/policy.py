"""SimCLR's augmentation of images that are already in their pose."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from oddone.errors import DataError, SettingsError, check_numbers
from oddone.transforms.colour import Jitter, Strengths, draw_jitter, grey, jitter_in_place
from oddone.transforms.crop import Boxes, crop_flipped, draw_boxes
from oddone.transforms.poses import check_poses, source_flips
from oddone.transforms.shift import Shifts, draw_shifts, shift_flipped

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


class ViewDraws(NamedTuple):
    """All that is random about views, row by row."""

    mirrored: Bool[Tensor, " rows"]
    cut: Boxes | Shifts
    """Which box of its image a view shows, or by how much the whole image is moved."""
    jitter: Jitter
    greyed: Bool[Tensor, " rows"]

    def take(self, rows: Int[Tensor, " some"] | slice) -> "ViewDraws":
        """Return what was drawn for some rows."""
        return ViewDraws(
            self.mirrored[rows], self.cut.take(rows), self.jitter.take(rows), self.greyed[rows]
        )

    def to(self, device: torch.device) -> "ViewDraws":
        """Return the same on another device."""
        return ViewDraws(*(part.to(device) for part in self))  # type: ignore[arg-type]

    def __add__(self, other: "ViewDraws") -> "ViewDraws":  # type: ignore[override]
        """Return what was drawn for the rows of both, which are cut in the same way."""
        cut = (torch.cat(both) for both in zip(self.cut, other.cut, strict=True))
        jitter = (torch.cat(both) for both in zip(self.jitter, other.jitter, strict=True))
        return ViewDraws(
            torch.cat([self.mirrored, other.mirrored]),
            type(self.cut)(*cut),
            Jitter(*jitter),
            torch.cat([self.greyed, other.greyed]),
        )


class CroppedViews(NamedTuple):
    """Views that have been mirrored and cropped, or moved, and are still to be coloured."""

    views: Float[Tensor, "rows 3 height width"]
    jitter: Jitter
    greyed: Bool[Tensor, " rows"]

    def split(self, sizes: Sequence[int]) -> "list[CroppedViews]":
        """Return the views in parts of so many rows."""
        ends = [0, *accumulate(sizes)]
        return [
            CroppedViews(self.views[part], self.jitter.take(part), self.greyed[part])
            for part in itertools.starmap(slice, pairwise(ends))
        ]


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
    size = (images.shape[2], images.shape[3])
    _check_images(images)
    draws = draw_views(len(images), size, settings, generator=generator)
    return colour(cut_views(images, poses, draws)).to(images.dtype)


def draw_views(
    rows: int, size: tuple[int, int], settings: AugmentSettings, *, generator: torch.Generator
) -> ViewDraws:
    """Return all that is random about so many views of images of a (height, width)."""
    mirrored = _coins(rows, settings.mirror_probability, generator)
    cut: Boxes | Shifts
    if settings.shift > 0:
        _check_shift(settings.shift, *size)
        cut = draw_shifts(rows, settings.shift, generator=generator)
    else:
        cut = draw_boxes(rows, size, settings.crop_scale, settings.crop_ratio, generator=generator)
    jitter = draw_jitter(rows, settings.strengths, settings.jitter_probability, generator=generator)
    return ViewDraws(mirrored, cut, jitter, _coins(rows, settings.grey_probability, generator))


@torch.no_grad()
def cut_views(
    images: Float[Tensor, "rows 3 height width"], poses: Int[Tensor, " rows"], draws: ViewDraws
) -> CroppedViews:
    """Return the first half of `augment`: mirrored and cropped, or moved; float32 at least."""
    _check_images(images)
    check_poses(poses, len(images))
    draws = draws.to(images.device)
    flips = source_flips(draws.mirrored, poses.to(images.device))
    working = images.to(torch.promote_types(images.dtype, torch.float32))
    if isinstance(draws.cut, Shifts):
        views = shift_flipped(working, draws.cut, flips)
    else:
        views = crop_flipped(working, draws.cut, flips)
    return CroppedViews(views, draws.jitter, draws.greyed)


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
