"""Poses: quarter rotations, mirrors of the source image, and the view sets of inference.

A pose counts quarter rotations counter-clockwise, 0 to 3. A mirror is always the horizontal flip
of the *source* image. For an image that is already rotated, that is the flip that commutes with
its pose: left to right for poses 0 and 2, upside down for poses 1 and 3.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from oddone.errors import DataError, SettingsError

POSES = 4

Rotations = Literal["task", "augmentation", "none"]
"""What rotations are in training: an auxiliary task, plain augmentation (the paper's DA), or
nothing."""


class Flips(NamedTuple):
    """Which rows are flipped, and how."""

    across: Bool[Tensor, " rows"]
    """Left to right."""
    down: Bool[Tensor, " rows"]
    """Upside down."""


def rotate(
    images: Shaped[Tensor, "rows 3 height width"], poses: Int[Tensor, " rows"]
) -> Shaped[Tensor, "rows 3 height width"]:
    """Return each image rotated counter-clockwise by as many quarters as its pose says."""
    check_poses(poses, len(images))
    if (poses % 2 == 1).any():
        _check_square(images)
    rotated = images.clone()
    for pose in range(1, POSES):
        members = (poses == pose).to(images.device).nonzero()[:, 0]
        if len(members) > 0:  # none would still need the shape of a rotated image
            rotated.index_copy_(0, members, images.index_select(0, members).rot90(pose, (2, 3)))
    return rotated


def mirror(
    images: Float[Tensor, "rows 3 height width"], poses: Int[Tensor, " rows"]
) -> Float[Tensor, "rows 3 height width"]:
    """Return what rotating the mirrored source images would have given."""
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


def move(
    images: Shaped[Tensor, "rows 3 height width"], pixels: int
) -> Shaped[Tensor, "rows 3 height width"]:
    """Return the images moved down and to the right; what comes in is the edge's mirror image."""
    if pixels == 0:
        return images
    height, width = images.shape[2:]
    if abs(pixels) >= min(height, width):
        raise DataError(
            f"images of {height} x {width} pixels cannot be moved by {pixels}; choose views that "
            f"are moved less"
        )
    lines, columns = (
        reflect(torch.arange(size, device=images.device) - pixels, size)
        for size in images.shape[2:]
    )
    return images[:, :, lines][:, :, :, columns]


def reflect(places: Int[Tensor, "*any"], pixels: int) -> Int[Tensor, "*any"]:
    """Return places in a line of pixels; beyond either end, those that a mirror there shows."""
    last = pixels - 1
    inside: Tensor = last - (last - places.abs()).abs()
    return inside


@dataclass(frozen=True)
class ViewSet:
    """Which views of an image are looked at: some poses, each mirrored or not, moved or not.

    Called with images, it makes the views. The first view is always the image as it is.
    """

    name: str
    poses: tuple[int, ...]
    """The pose of each view; a mirrored view's is that of its rotation."""
    mirrored: tuple[bool, ...]
    """Whether each view shows the mirrored image."""
    shifts: tuple[int, ...] = ()
    """By how many pixels each view is moved down and to the right; empty: none is."""

    def __post_init__(self) -> None:
        complete = len(self.poses) == len(self.mirrored) == len(self.moved) > 0
        plain = {self.poses[view] for view in self.unmirrored} if complete else set()
        first = complete and (self.poses[0], self.unmirrored[:1]) == (0, (0,))
        if not first or plain != set(range(self.n_poses)) or self.n_poses > POSES:
            raise SettingsError(
                f"views {self.name!r} with poses={self.poses}, mirrored={self.mirrored} and "
                f"shifts={self.shifts}: give all for each view, the image as it is first (pose 0, "
                f"not mirrored, not moved), and such views of poses from 0 to at most {POSES - 1} "
                f"without gaps"
            )

    def __len__(self) -> int:
        return len(self.poses)

    @property
    def unmirrored(self) -> tuple[int, ...]:
        """Which of the views show the image as it is, in some pose: not moved either."""
        changes = zip(self.mirrored, self.moved, strict=True)
        return tuple(view for view, change in enumerate(changes) if not any(change))

    def without_changes(self) -> "ViewSet":
        """Return the views that show the image as it is, in some pose, and no others."""
        poses = tuple(self.poses[view] for view in self.unmirrored)
        return ViewSet(f"{self.name}, unchanged", poses, (False,) * len(poses))

    @property
    def moved(self) -> tuple[int, ...]:
        """By how many pixels each view is moved, also where none is."""
        return self.shifts or (0,) * len(self.poses)

    @property
    def n_poses(self) -> int:
        """How many different poses there are."""
        return max(self.poses) + 1

    def __call__(
        self, images: Shaped[Tensor, "images 3 height width"], views: Sequence[int] | None = None
    ) -> Shaped[Tensor, "views images 3 height width"]:
        """Return the views of the images: all, or those of the given numbers.

        Pixels are moved, not changed: floats or bytes.
        """
        numbers = range(len(self)) if views is None else views
        chosen = [(self.poses[view], self.mirrored[view], self.moved[view]) for view in numbers]
        if chosen == [(0, False, 0)]:
            return images[None]
        if any(pose % 2 for pose, _, _ in chosen):
            _check_square(images)
        flipped = images.flip(3) if any(mirrored for _, mirrored, _ in chosen) else images
        return torch.stack(
            [
                move((flipped if mirrored else images).rot90(pose, dims=(2, 3)), shift)
                for pose, mirrored, shift in chosen
            ]
        )


one_view = ViewSet("one_view", (0,), (False,))
"""The image as it is."""
moved_and_mirrored = ViewSet(
    "moved_and_mirrored", (0,) * 6, 3 * (False, True), (0, 0, 1, 1, -1, -1)
)
"""The image as it is and its mirror image, then both moved by a pixel either way."""
rotations = ViewSet("rotations", tuple(range(POSES)), (False,) * POSES)
"""The image in each of the four poses: 4-way SEI."""
rotations_and_mirrors = ViewSet(
    "rotations_and_mirrors", 2 * tuple(range(POSES)), (False,) * POSES + (True,) * POSES
)
"""The image in each of the four poses, then the mirrored image in each of them: 8-way SEI."""


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
            f"count quarter rotations"
        )


def _check_square(images: Tensor) -> None:
    height, width = images.shape[2:]
    if height != width:
        raise DataError(
            f"images of {height} x {width} pixels cannot be rotated by a quarter and keep their "
            f"shape; crop or resize them to a square, or use poses 0 and 2 only"
        )
