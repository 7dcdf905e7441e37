"""Moving an image by a few pixels, its edge mirrored: the usual augmentation of classifiers."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from oddone.transforms.poses import Flips, reflect


class Shifts(NamedTuple):
    """By how many pixels each row is moved."""

    down: Int[Tensor, " rows"]
    across: Int[Tensor, " rows"]

    def take(self, rows: Int[Tensor, " some"] | slice) -> "Shifts":
        """Return the shifts of some rows."""
        return Shifts(*(numbers[rows] for numbers in self))

    def to(self, device: torch.device) -> "Shifts":
        """Return the shifts on another device."""
        return Shifts(*(numbers.to(device) for numbers in self))


def draw_shifts(rows: int, largest: int, *, generator: torch.Generator) -> Shifts:
    """Return whole shifts of up to so many pixels to every side, all as likely."""
    size = (2, rows)
    pixels = torch.randint(
        -largest, largest + 1, size, generator=generator, device=generator.device
    )
    return Shifts(*pixels)


def shift_flipped(
    images: Float[Tensor, "rows 3 height width"], shifts: Shifts, flips: Flips
) -> Float[Tensor, "rows 3 height width"]:
    """Return the images flipped, then moved; what comes in at an edge is its mirror image."""
    _, channels, height, width = images.shape
    lines = _sources(shifts.down, flips.down, height)[:, None, :, None]
    columns = _sources(shifts.across, flips.across, width)[:, None, None, :]
    moved = images.gather(2, lines.expand(-1, channels, -1, width))
    return moved.gather(3, columns.expand(-1, channels, height, -1))


def _sources(
    shifts: Int[Tensor, " rows"], flipped: Bool[Tensor, " rows"], pixels: int
) -> Int[Tensor, "rows pixels"]:
    """Return which pixel of a line comes to each place."""
    inside = reflect(torch.arange(pixels, device=shifts.device) - shifts[:, None], pixels)
    return torch.where(flipped[:, None], pixels - 1 - inside, inside)
