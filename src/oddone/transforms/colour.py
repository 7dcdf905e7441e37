"""Colour jitter and grey, as torchvision defines them on float images.

Rows are sorted by the order of their steps, so that neighbours take many steps together, and go
through all steps in place, a few rows at a time: what is worked on stays in the processor's cache,
and no large buffer is asked of the system and given back at every step.
"""

import math
from collections.abc import Callable
from itertools import groupby, permutations
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

RED, GREEN, BLUE = 0.2989, 0.587, 0.114  # ITU-R 601, with torchvision's digits

# How many numbers of images are worked on at a time: 1 MiB of float32.
NUMBERS_AT_ONCE = 2**18

ORDERS = tuple(permutations(("brightness", "contrast", "saturation", "hue")))


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


Step = Callable[[Tensor, Tensor], None]


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
    working = torch.promote_types(images.dtype, torch.float32)
    jittered = torch.empty_like(images)
    rows = neighbours(parameters).to(images.device)
    parameters = parameters.to(images.device)
    for some in rows.split(rows_at_once(images)):
        part = images.index_select(0, some).to(working)
        jitter_in_place(part, parameters.take(some))
        jittered.index_copy_(0, some, part.to(images.dtype))
    return jittered


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
    return _luma(working).to(images.dtype).expand_as(images).contiguous()


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


def neighbours(parameters: Jitter) -> Int[Tensor, " rows"]:
    """Return the rows in an order in which those that begin with the same steps are neighbours."""
    return parameters.order.where(parameters.chosen, len(ORDERS)).argsort(stable=True)


def rows_at_once(images: Float[Tensor, "rows 3 height width"]) -> int:
    """Return how many rows stay in the cache together."""
    return max(1, NUMBERS_AT_ONCE // max(1, math.prod(images.shape[1:])))


def jitter_in_place(images: Float[Tensor, "rows 3 height width"], parameters: Jitter) -> None:
    """Change the colours of the images, in float32 or float64; fast if rows are `neighbours`.

    A step that would change no row is left out.
    """
    idle = {
        name
        for name in ORDERS[0]
        if (getattr(parameters, name) == (0 if name == "hue" else 1)).all()
    }
    orders = parameters.order.where(parameters.chosen, -1).tolist()
    for place in range(len(ORDERS[0])):
        names = [None if order < 0 else ORDERS[order][place] for order in orders]
        stop = 0
        for name, run in groupby(names):
            start, stop = stop, stop + sum(1 for _ in run)
            if name is not None and name not in idle:
                STEPS[name](images[start:stop], getattr(parameters, name)[start:stop])


def _change_brightness(images: Tensor, factors: Tensor) -> None:
    """Blend with black, in place."""
    images.mul_(_per_row(factors, images)).clamp_(0, 1)


def _change_contrast(images: Tensor, factors: Tensor) -> None:
    """Blend with the mean of the grey image, in place."""
    red, green, blue = images.mean(dim=(2, 3)).unbind(1)
    mean = RED * red + GREEN * green + BLUE * blue
    offsets = _per_row((1 - factors) * mean, images)
    images.mul_(_per_row(factors, images)).add_(offsets).clamp_(0, 1)


def _change_saturation(images: Tensor, factors: Tensor) -> None:
    """Blend with the grey image, in place."""
    offsets = _luma(images).mul_(_per_row(1 - factors, images))
    images.mul_(_per_row(factors, images)).add_(offsets).clamp_(0, 1)


def _change_hue(images: Tensor, shifts: Tensor) -> None:
    """Move along the colour wheel at the same value and saturation (HSV), in place.

    The hue counts sixths of the wheel: red is 0, green 2, blue 4. Counted from red to either side
    it is (green + blue - red + high - 2 low) / chroma, from 0 to 3, whichever channel is the
    highest and lowest; the side is that of the larger of green and blue. No case needs a mask.
    """
    red, green, blue = images.unbind(1)
    high, low = images.amax(dim=1), images.amin(dim=1)
    chroma = high - low
    hue = (green + blue).sub_(red).add_(high).sub_(low, alpha=2)
    hue.div_(chroma.clamp(min=torch.finfo(images.dtype).tiny))  # a grey pixel's hue is 0
    hue.copysign_(green - blue)
    hue.add_(6 * shifts[:, None, None])
    hue.sub_((hue / 6).floor_(), alpha=6)
    # How far a channel is from its brightest (for red: from its darkest) hue, 0 to 1 outside
    # of the third of the wheel in which it stays the highest (for red: the lowest).
    centres = images.new_tensor((3, 2, 4))[:, None, None]
    distance = torch.sub(hue[:, None], centres).abs_().sub_(1).clamp_(0, 1)
    torch.addcmul(low, chroma, distance[:, 0], out=red)
    torch.addcmul(high, chroma, distance[:, 1], value=-1, out=green)
    torch.addcmul(high, chroma, distance[:, 2], value=-1, out=blue)


STEPS: dict[str, Step] = {
    "brightness": _change_brightness,
    "contrast": _change_contrast,
    "saturation": _change_saturation,
    "hue": _change_hue,
}


def _luma(
    images: Float[Tensor, "rows 3 height width"],
) -> Float[Tensor, "rows 1 height width"]:
    red, green, blue = images.split(1, dim=1)
    luma: Tensor = (red * RED).add_(green, alpha=GREEN).add_(blue, alpha=BLUE)
    return luma


def _per_row(numbers: Float[Tensor, " rows"], images: Tensor) -> Float[Tensor, "rows 1 1 1"]:
    return numbers.to(images.dtype)[:, None, None, None]
