"""The inception crop: a random box of each image, resized to the whole image's size.

Boxes are drawn as torchvision's RandomResizedCrop draws them. Resizing is bilinear without
antialiasing and is separable, so that a crop is two small matrix products an image: on a CPU
faster than gathering pixels, and exact.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from oddone.errors import DataError
from oddone.transforms.cache import rows_at_once
from oddone.transforms.poses import Flips

TRIES = 10


class Boxes(NamedTuple):
    """One box of whole pixels per row."""

    top: Int[Tensor, " rows"]
    left: Int[Tensor, " rows"]
    height: Int[Tensor, " rows"]
    width: Int[Tensor, " rows"]

    def take(self, rows: Int[Tensor, " some"] | slice) -> "Boxes":
        """Return the boxes of some rows."""
        return Boxes(*(numbers[rows] for numbers in self))

    def to(self, device: torch.device) -> "Boxes":
        """Return the boxes on another device."""
        return Boxes(*(numbers.to(device) for numbers in self))


def draw_boxes(
    rows: int,
    size: tuple[int, int],
    scale: tuple[float, float],
    ratio: tuple[float, float],
    *,
    generator: torch.Generator,
) -> Boxes:
    """Return random boxes in images of a (height, width).

    A box's share of the area is uniform in `scale`, its width over its height log-uniform in
    `ratio`. A row whose ten tries all reach out of the image gets the largest central box.
    """
    height, width = size
    share, shape = torch.rand(2, rows, TRIES, generator=generator, device=generator.device)
    down, across = torch.rand(2, rows, generator=generator, device=generator.device)
    area = height * width * (scale[0] + (scale[1] - scale[0]) * share)
    low, high = math.log(ratio[0]), math.log(ratio[1])
    aspect = (low + (high - low) * shape).exp()
    widths = (area * aspect).sqrt().round()
    heights = (area / aspect).sqrt().round()
    fits = (widths > 0) & (widths <= width) & (heights > 0) & (heights <= height)
    first = fits.int().argmax(dim=1, keepdim=True)
    none, central = ~fits.any(dim=1), _central(size, ratio)
    box_heights = heights.gather(1, first)[:, 0].masked_fill(none, central[0])
    box_widths = widths.gather(1, first)[:, 0].masked_fill(none, central[1])
    top = _start(height - box_heights, down, middle=none)
    left = _start(width - box_widths, across, middle=none)
    return Boxes(*(numbers.long() for numbers in (top, left, box_heights, box_widths)))


def crop(
    images: Float[Tensor, "rows 3 height width"], boxes: Boxes
) -> Float[Tensor, "rows 3 height width"]:
    """Return each image's box resized to the size of the image."""
    height, width = images.shape[2:]
    _check_boxes(boxes, len(images), height, width)
    unflipped = torch.zeros(len(images), dtype=torch.bool, device=images.device)
    boxes = boxes.to(images.device)
    return crop_flipped(images, boxes, Flips(unflipped, unflipped))


def random_crop(
    images: Float[Tensor, "rows 3 height width"],
    scale: tuple[float, float],
    ratio: tuple[float, float],
    *,
    generator: torch.Generator,
) -> Float[Tensor, "rows 3 height width"]:
    """Return a random box of each image, resized to the size of the image."""
    size = (images.shape[2], images.shape[3])
    return crop(images, draw_boxes(len(images), size, scale, ratio, generator=generator))


def crop_flipped(
    images: Float[Tensor, "rows 3 height width"], boxes: Boxes, flips: Flips
) -> Float[Tensor, "rows 3 height width"]:
    """Return what `crop` makes of the flipped images, without an image flipped in between.

    Works in float32 at least, like all of augmentation, and returns the dtype of the images.
    """
    _, channels, height, width = images.shape
    working = torch.promote_types(images.dtype, torch.float32)
    cropped = torch.empty_like(images, dtype=working, memory_format=torch.contiguous_format)
    places = (
        *_places(boxes.top, boxes.height, height, flips.down, working),
        *_places(boxes.left, boxes.width, width, flips.across, working),
    )
    parts = (numbers.split(rows_at_once(images)) for numbers in (images, cropped, *places))
    for source, target, to_rows, from_rows, to_columns, from_columns in zip(*parts, strict=True):
        down = _weights(to_rows[:, :, None] - from_rows[:, None, :])
        # Made transposed, not turned afterwards: the product then takes 2/3 of the time.
        across = _weights(from_columns[:, :, None] - to_columns[:, None, :])
        lines = source.to(working).flatten(1, 2)
        narrowed = torch.bmm(lines, across).unflatten(1, (channels, height))
        torch.matmul(down[:, None], narrowed, out=target)
    return cropped.to(images.dtype)


def _places(
    start: Int[Tensor, " rows"],
    length: Int[Tensor, " rows"],
    pixels: int,
    backwards: Bool[Tensor, " rows"],
    dtype: torch.dtype,
) -> tuple[Float[Tensor, "rows pixels"], Float[Tensor, "rows pixels"]]:
    """Return where the pixels of a resized line and of its source lie along the box.

    Both are counted from the box's first pixel, so that they are exact wherever it begins. A line
    that is read `backwards` is cropped as if it had been reversed before.
    """
    pixel = torch.arange(pixels, device=start.device, dtype=dtype)
    size = length[:, None].to(dtype)
    resized = ((pixel + 0.5) * (size / pixels) - 0.5).clamp(min=0).minimum(size - 1)
    forwards = pixel - start[:, None]
    return resized, torch.where(backwards[:, None], forwards.flip(1), forwards)


def _weights(
    distances: Float[Tensor, "rows pixels pixels"],
) -> Float[Tensor, "rows pixels pixels"]:
    """Return how much pixels count at these distances in linear interpolation."""
    return torch.rsub(distances.abs_(), 1).clamp_(min=0)


def _central(size: tuple[int, int], ratio: tuple[float, float]) -> tuple[int, int]:
    """Return height and width of the largest box whose width over height is allowed."""
    height, width = size
    if width < height * ratio[0]:
        return min(height, round(width / ratio[0])), width
    if width > height * ratio[1]:
        return height, min(width, round(height * ratio[1]))
    return height, width


def _start(
    room: Float[Tensor, " rows"], coins: Float[Tensor, " rows"], *, middle: Bool[Tensor, " rows"]
) -> Float[Tensor, " rows"]:
    """Return where in the room that is left a box begins: anywhere alike, or in the middle."""
    anywhere = (coins * (room + 1)).floor().minimum(room)  # the product may round up to room + 1
    return torch.where(middle, (room / 2).floor(), anywhere)


def _check_boxes(boxes: Boxes, rows: int, height: int, width: int) -> None:
    if boxes.top.shape != (rows,):
        raise DataError(f"{len(boxes.top)} boxes for {rows} images; pass one box per row")
    top, left, tall, wide = boxes
    inside = (top >= 0) & (left >= 0) & (tall >= 1) & (wide >= 1)
    inside &= (top + tall <= height) & (left + wide <= width)
    if not inside.all():
        row = int((~inside).nonzero()[0, 0])
        box = ", ".join(
            f"{name}={int(numbers[row])}"
            for name, numbers in zip(Boxes._fields, boxes, strict=True)
        )
        raise DataError(
            f"the box of row {row} ({box}) reaches out of an image of {height} x {width} pixels; "
            f"choose boxes of at least one pixel inside the image"
        )
