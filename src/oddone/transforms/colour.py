"""Colour jitter and grey, as torchvision defines them on float images.

Brightness, contrast and saturation all blend an image with another one, so rows take these steps
together whatever their order. Only hue is of another kind: rows are sorted by its place.
"""

from collections.abc import Iterator
from itertools import permutations
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from oddone.transforms.cache import rows_at_once

LUMA = (0.2989, 0.587, 0.114)  # ITU-R 601, with torchvision's digits

STEPS = ("brightness", "contrast", "saturation", "hue")
_, CONTRAST, SATURATION, HUE = range(len(STEPS))
ORDERS = tuple(permutations(STEPS))
STEP_AT = torch.tensor(list(permutations(range(len(STEPS)))))
"""Which of STEPS is at which place of which order."""


class Strengths(NamedTuple):
    """How far each step of the jitter may reach."""

    brightness: float
    contrast: float
    saturation: float
    hue: float
    """In turns of the colour wheel: 0.5 reaches every hue."""


class Jitter(NamedTuple):
    """What happens to the colours of each row."""

    brightness: Float[Tensor, " rows"]
    contrast: Float[Tensor, " rows"]
    saturation: Float[Tensor, " rows"]
    hue: Float[Tensor, " rows"]
    order: Int[Tensor, " rows"]
    """The row's order of the four steps, as an index of ORDERS."""
    chosen: Bool[Tensor, " rows"]
    """Whether the row is jittered at all."""

    def take(self, rows: Int[Tensor, " some"] | slice) -> "Jitter":
        """Return the jitter of some rows."""
        return Jitter(*(numbers[rows] for numbers in self))

    def to(self, device: torch.device) -> "Jitter":
        """Return the jitter on another device."""
        return Jitter(*(numbers.to(device) for numbers in self))


def draw_jitter(
    rows: int, strengths: Strengths, probability: float, *, generator: torch.Generator
) -> Jitter:
    """Return random factors around 1 and random shifts of the hue, in a random order per row."""
    draws = torch.rand(5, rows, generator=generator, device=generator.device)
    low = [max(0.0, 1 - strength) for strength in strengths[:3]] + [-strengths.hue]
    high = [1 + strength for strength in strengths[:3]] + [strengths.hue]
    brightness, contrast, saturation, hue = (
        lo + (hi - lo) * uniform for lo, hi, uniform in zip(low, high, draws[:4], strict=True)
    )
    order = torch.randint(len(ORDERS), (rows,), generator=generator, device=generator.device)
    return Jitter(brightness, contrast, saturation, hue, order, draws[4] < probability)


@torch.no_grad()
def jitter(
    images: Float[Tensor, "rows 3 height width"], parameters: Jitter
) -> Float[Tensor, "rows 3 height width"]:
    """Return the images with their colours changed; after each step they are clamped to 0..1.

    Works in float32 at least and returns the dtype of the images. No gradient flows through.
    """
    jittered = images.to(torch.promote_types(images.dtype, torch.float32), copy=True)
    jitter_in_place(jittered, parameters.to(images.device))
    return jittered.to(images.dtype)


def random_jitter(
    images: Float[Tensor, "rows 3 height width"],
    strengths: Strengths,
    probability: float,
    *,
    generator: torch.Generator,
) -> Float[Tensor, "rows 3 height width"]:
    """Return the images, the colours of each changed with this probability."""
    return jitter(images, draw_jitter(len(images), strengths, probability, generator=generator))


def grey(
    images: Float[Tensor, "rows 3 height width"],
) -> Float[Tensor, "rows 3 height width"]:
    """Return the images without their colours, still in three channels."""
    working = images.to(torch.promote_types(images.dtype, torch.float32))
    red, green, blue = (
        channel * weight for channel, weight in zip(working.split(1, dim=1), LUMA, strict=True)
    )
    luma: Tensor = red + green + blue
    return luma.to(images.dtype).expand_as(images).contiguous()


def random_grey(
    images: Float[Tensor, "rows 3 height width"],
    probability: float,
    *,
    generator: torch.Generator,
) -> Float[Tensor, "rows 3 height width"]:
    """Return the images, each made grey with this probability."""
    coins = torch.rand(len(images), generator=generator, device=generator.device)
    members = (coins < probability).to(images.device).nonzero()[:, 0]
    return images.index_copy(0, members, grey(images[members]))


def jitter_in_place(images: Float[Tensor, "rows 3 height width"], parameters: Jitter) -> None:
    """Change the colours of the images, in float32 or float64.

    Rows that shift their hue at the same place, as their first step for example, are worked on
    together. At the three other places they all blend, each in its own way.
    """
    kinds = STEP_AT.to(images.device)[parameters.order]  # which of STEPS  [rows places]
    steps = _steps(parameters, kinds, images)
    for hue_place, members in enumerate((kinds.T == HUE) & parameters.chosen):
        for rows in members.nonzero()[:, 0].split(rows_at_once(images)):
            pixels = images.index_select(0, rows).flatten(2)
            for place, step in enumerate(steps.in_order(rows)):
                if place == hue_place:
                    _shift_hue(pixels, step.amounts[..., 0])
                else:
                    _blend(pixels, *step)
            images.index_copy_(0, rows, pixels.unflatten(2, images.shape[2:]))


class _Steps(NamedTuple):
    """What a step does to each row; with an axis for places, all four steps in the row's order."""

    amounts: Float[Tensor, "rows *places 1 1"]
    """How far it goes: towards the image it blends with, or along the colour wheel."""
    of_pixel: Float[Tensor, "rows *places 1 3"]
    """The weights of the pixel's own channels in that image: LUMA for saturation, else zeros."""
    of_mean: Float[Tensor, "rows *places 1 3"]
    """The weights of the channels' means in that image: LUMA for contrast, else zeros."""

    def in_order(self, rows: Int[Tensor, " some"]) -> Iterator["_Steps"]:
        """Yield the first step of some rows, then their second, their third and their fourth."""
        return map(_Steps, *(numbers[rows].unbind(1) for numbers in self))


def _steps(
    parameters: Jitter,
    kinds: Int[Tensor, "rows places"],
    images: Float[Tensor, "rows 3 height width"],
) -> _Steps:
    """Return the four steps of each row in the row's order, in the dtype of the images."""
    amounts_by_kind = [1 - factors for factors in parameters[:HUE]] + [parameters.hue]
    amounts = torch.stack(amounts_by_kind, dim=1).to(images.dtype).gather(1, kinds)
    luma = images.new_tensor([LUMA])
    of_pixel, of_mean = ((kinds == kind)[..., None, None] * luma for kind in (SATURATION, CONTRAST))
    return _Steps(amounts[..., None, None], of_pixel, of_mean)


def _blend(
    images: Float[Tensor, "some 3 pixels"],
    amounts: Float[Tensor, "some 1 1"],
    of_pixel: Float[Tensor, "some 1 3"],
    of_mean: Float[Tensor, "some 1 3"],
) -> None:
    """Blend each row with another image, in place: which one is in the row's weights.

    Brightness blends with black (both weights are zero), saturation with the grey image (`of_pixel`
    holds LUMA), contrast with the mean of the grey image (`of_mean` holds LUMA).
    """
    mean = torch.bmm(of_mean, images.mean(dim=2, keepdim=True))
    images.lerp_(torch.baddbmm(mean, of_pixel, images), amounts).clamp_(0, 1)


def _shift_hue(images: Float[Tensor, "some 3 pixels"], shifts: Float[Tensor, "some 1"]) -> None:
    """Move along the colour wheel at the same value and saturation (HSV), in place.

    The hue counts sixths of the wheel: red is 0, green 2, blue 4. Counted from red to either side
    it is (green + blue - red + high - 2 low) / chroma, from 0 to 3, whichever channel is the
    highest and lowest; the side is that of the larger of green and blue. No case needs a mask.
    """
    if not shifts.any():
        return
    red, green, blue = images.unbind(1)
    high, low = images.amax(dim=1), images.amin(dim=1)
    chroma = high - low
    hue = (green + blue).sub_(red).add_(high).sub_(low, alpha=2)
    hue.div_(chroma.clamp(min=torch.finfo(images.dtype).tiny))  # a grey pixel's hue is 0
    hue.copysign_(green - blue)
    hue.add_(shifts, alpha=6)
    hue.sub_((hue / 6).floor_(), alpha=6)
    # How far a channel is from its brightest (for red: from its darkest) hue, 0 to 1 outside
    # of the third of the wheel in which it stays the highest (for red: the lowest).
    centres = images.new_tensor([[3], [2], [4]])
    torch.sub(hue[:, None], centres, out=images).abs_().sub_(1).clamp_(0, 1)
    torch.addcmul(low, chroma, red, out=red)
    torch.addcmul(high, chroma, green, value=-1, out=green)
    torch.addcmul(high, chroma, blue, value=-1, out=blue)
