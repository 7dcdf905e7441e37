import pytest
import torch
from torch import Tensor

from oddone.errors import SettingsError
from oddone.transforms import AugmentSettings, augment
from oddone.transforms.poses import Flips
from oddone.transforms.shift import Shifts, draw_shifts, shift_flipped


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def some_images(rows: int = 6, height: int = 5, width: int = 7) -> Tensor:
    return torch.rand(rows, 3, height, width, generator=seeded())


def shifted_slowly(image: Tensor, down: int, across: int) -> Tensor:
    """Return an image pixel by pixel, as if it stood between mirrors."""
    _, height, width = image.shape
    moved = torch.empty_like(image)
    for line in range(height):
        for column in range(width):
            source = []
            for place, size in ((line - down, height), (column - across, width)):
                while not 0 <= place < size:
                    place = -place if place < 0 else 2 * (size - 1) - place  # noqa: PLW2901
                source.append(place)
            moved[:, line, column] = image[:, source[0], source[1]]
    return moved


@pytest.mark.parametrize("largest", [1, 3, 4])
def test_images_are_moved_between_mirrors(largest: int) -> None:
    images, shifts = some_images(40), draw_shifts(40, largest, generator=seeded(1))
    coins = torch.rand(2, 40, generator=seeded(2)) < 0.5
    found = shift_flipped(images, shifts, Flips(*coins))
    for row, (down, across) in enumerate(zip(*(s.tolist() for s in shifts), strict=True)):
        flipped = images[row].flip([2] * bool(coins[0, row]) + [1] * bool(coins[1, row]))
        # Flipping comes first: a mirrored image is then moved like any other.
        assert torch.equal(found[row], shifted_slowly(flipped, down, across))


def test_no_shift_changes_nothing() -> None:
    images, still = some_images(), torch.zeros(6, dtype=torch.long)
    found = shift_flipped(images, Shifts(still, still), Flips(still.bool(), still.bool()))
    assert torch.equal(found, images)


def test_shifts_reach_every_pixel_to_either_side_alike() -> None:
    shifts = torch.stack(draw_shifts(7000, 3, generator=seeded()))
    values, counts = shifts.unique(return_counts=True)
    assert values.tolist() == [-3, -2, -1, 0, 1, 2, 3]
    assert counts.min() > 1800


def test_a_classifiers_views_are_whole_images_moved_and_mirrored() -> None:
    images, poses = some_images(50, 8, 8), torch.zeros(50, dtype=torch.long)
    views = augment(images, poses, AugmentSettings.of_classifier(shift=2), generator=seeded())
    for image, view in zip(images, views, strict=True):
        candidates = [
            shifted_slowly(flipped, down, across)
            for flipped in (image, image.flip(2))
            for down in range(-2, 3)
            for across in range(-2, 3)
        ]
        assert any(torch.equal(view, candidate) for candidate in candidates)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shift": -1}, "shift=-1: choose 0 or"),
        ({"shift": 2}, r"shift=2 moves whole images, and crop_scale=\(0.08, 1.0\)"),
        ({"shift": 2, "crop_scale": (1.0, 1.0)}, r"set both to \(1.0, 1.0\), or shift=0"),
    ],
)
def test_images_are_moved_or_cropped_and_not_both(changes: dict, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        AugmentSettings(**changes)


def test_an_image_is_not_moved_out_of_sight() -> None:
    settings, poses = AugmentSettings.of_classifier(shift=5), torch.zeros(6, dtype=torch.long)
    with pytest.raises(SettingsError, match="image of 5 x 5 pixels out of sight; choose at most 4"):
        augment(some_images(6, 5, 5), poses, settings, generator=seeded())
