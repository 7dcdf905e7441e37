"""Poses: quarter turns, mirrors of the source image, and the view sets of inference.

A pose counts quarter turns counter-clockwise, 0 to 3. A mirror is always the horizontal flip of
the *source* image, which for an image that is already turned is the flip that commutes with its
pose: left to right for poses 0 and 2, upside down for poses 1 and 3.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from oddone.errors import DataError

POSES = 4


class Views(NamedTuple):
    """Copies of the same images in several poses."""

    images: Shaped[Tensor, "views images 3 height width"]
    poses: Int[Tensor, " views"]
    """The pose that each view is measured in; a mirrored view's is that of its rotation."""


class Flips(NamedTuple):
    """Which rows are flipped, and how."""

    across: Bool[Tensor, " rows"]
    """Left to right."""
    down: Bool[Tensor, " rows"]
    """Upside down."""


def rotate(
    images: Shaped[Tensor, "rows 3 height width"], poses: Int[Tensor, " rows"]
) -> Shaped[Tensor, "rows 3 height width"]:
    """Return each image turned counter-clockwise by as many quarters as its pose says, exactly."""
    check_poses(poses, len(images))
    if (poses % 2 == 1).any():
        _check_square(images)
    turned = images.clone()
    for pose in range(1, POSES):
        members = (poses == pose).to(images.device).nonzero()[:, 0]
        if len(members) > 0:  # none at all would still have to have the shape of a turned image
            turned.index_copy_(0, members, images.index_select(0, members).rot90(pose, (2, 3)))
    return turned


def mirror(
    images: Float[Tensor, "rows 3 height width"], poses: Int[Tensor, " rows"]
) -> Float[Tensor, "rows 3 height width"]:
    """Return what turning the mirrored source images would have given."""
    check_poses(poses, len(images))
    return flip(images, source_flips(torch.ones_like(poses, dtype=torch.bool), poses))


def random_mirror(
    images: Float[Tensor, "rows 3 height width"],
    poses: Int[Tensor, " rows"],
    probability: float,
    *,
    generator: torch.Generator,
) -> Float[Tensor, "rows 3 height width"]:
    """Return the images, each with its source mirrored with this probability."""
    check_poses(poses, len(images))
    coins = torch.rand(len(images), generator=generator, device=generator.device)
    return flip(images, source_flips((coins < probability).to(poses.device), poses))


def source_flips(chosen: Bool[Tensor, " rows"], poses: Int[Tensor, " rows"]) -> Flips:
    """Return how the chosen rows are flipped so that it mirrors their source images."""
    upright = poses % 2 == 0
    return Flips(across=chosen & upright, down=chosen & ~upright)


def flip(
    images: Float[Tensor, "rows 3 height width"], flips: Flips
) -> Float[Tensor, "rows 3 height width"]:
    """Return the images with some rows flipped; no row is flipped both ways."""
    flipped = images.clone()
    for chosen, axis in ((flips.across, 3), (flips.down, 2)):
        members = chosen.to(images.device).nonzero()[:, 0]
        flipped[members] = images[members].flip(axis)
    return flipped


def one_view(images: Shaped[Tensor, "images 3 height width"]) -> Views:
    """Return the images as they are, as one set of views in pose 0."""
    return Views(images[None], torch.zeros(1, dtype=torch.long, device=images.device))


def rotations(images: Shaped[Tensor, "images 3 height width"]) -> Views:
    """Return the images in each of the four poses."""
    return Views(torch.stack(_all_rotations(images)), torch.arange(POSES, device=images.device))


def rotations_and_mirrors(images: Shaped[Tensor, "images 3 height width"]) -> Views:
    """Return the images in each of the four poses, then the mirrored images in each of them."""
    poses = torch.arange(POSES, device=images.device).repeat(2)
    return Views(torch.stack([*_all_rotations(images), *_all_rotations(images.flip(3))]), poses)


MakeViews = Callable[[Shaped[Tensor, "images 3 height width"]], Views]
"""Moves pixels and changes none: they may be floats or bytes."""

VIEW_SETS: dict[str, MakeViews] = {
    make.__name__: make for make in (one_view, rotations, rotations_and_mirrors)
}


def check_poses(poses: Tensor, rows: int) -> None:
    """Raise a DataError unless there is one pose from 0 to 3 for each row."""
    if poses.shape != (rows,):
        raise DataError(
            f"poses has shape {tuple(poses.shape)} but there are {rows} images; "
            f"pass one pose per row"
        )
    outside = poses[(poses < 0) | (poses >= POSES)]
    if len(outside) > 0:
        raise DataError(
            f"poses holds {int(outside[0])}, which is not one of 0 to {POSES - 1}; "
            f"count quarter turns"
        )


def _check_square(images: Tensor) -> None:
    height, width = images.shape[2:]
    if height != width:
        raise DataError(
            f"images of {height} x {width} pixels cannot be turned by a quarter and keep their "
            f"shape; crop or resize them to a square, or use poses 0 and 2 only"
        )


def _all_rotations(
    images: Shaped[Tensor, "images 3 height width"],
) -> list[Shaped[Tensor, "images 3 height width"]]:
    _check_square(images)
    return [images.rot90(pose, dims=(2, 3)) for pose in range(POSES)]
