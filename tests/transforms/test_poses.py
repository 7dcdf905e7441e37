import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from oddone.errors import DataError, SettingsError
from oddone.transforms import (
    ViewSet,
    mirror,
    moved_and_mirrored,
    one_view,
    random_mirror,
    rotate,
    rotations,
    rotations_and_mirrors,
)
from oddone.transforms.poses import move

POSES = torch.tensor([0, 1, 2, 3, 3, 1, 0, 2])


def some_images(rows: int = 8, height: int = 6, width: int = 6) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    levels = torch.randint(256, (rows, 3, height, width), generator=generator)
    return levels.float() / 255


def with_pillow(image: Tensor, operation: Image.Transpose) -> Tensor:
    """Return the image as Pillow transposes it."""
    pixels = (image.permute(1, 2, 0).numpy() * 255).round().astype(np.uint8)
    turned = np.asarray(Image.fromarray(pixels).transpose(operation))
    return torch.from_numpy(turned.copy()).permute(2, 0, 1).float() / 255


def test_turns_are_pillows_counter_clockwise_rotations() -> None:
    images = some_images()
    turned = rotate(images, POSES)
    rotations = [None, *(Image.Transpose[f"ROTATE_{degrees}"] for degrees in (90, 180, 270))]
    for image, result, pose in zip(images, turned, POSES.tolist(), strict=True):
        rotation = rotations[pose]
        assert torch.equal(result, image if rotation is None else with_pillow(image, rotation))


def test_four_quarter_rotations_are_none() -> None:
    images, once = some_images(), torch.ones(8, dtype=torch.long)
    turned = images
    for _ in range(4):
        turned = rotate(turned, once)
    assert torch.equal(turned, images)
    assert torch.equal(rotate(rotate(images, POSES), -POSES % 4), images)


def test_a_mirror_is_the_source_images_horizontal_flip() -> None:
    images = some_images()
    flipped = torch.stack([with_pillow(image, Image.Transpose.FLIP_LEFT_RIGHT) for image in images])
    assert torch.equal(mirror(rotate(images, POSES), POSES), rotate(flipped, POSES))


def test_mirroring_twice_is_not_mirroring() -> None:
    images = some_images()
    assert torch.equal(mirror(mirror(images, POSES), POSES), images)


def test_half_turns_keep_the_shape_of_any_image() -> None:
    images = some_images(height=4)
    assert torch.equal(rotate(images, POSES // 2 * 2)[2], images[2].flip(1, 2))


def test_a_quarter_rotation_of_an_oblong_image_is_refused() -> None:
    with pytest.raises(DataError, match="images of 4 x 6 pixels cannot be rotated by a quarter"):
        rotate(some_images(height=4), POSES)


def test_poses_other_than_quarter_rotations_are_refused() -> None:
    with pytest.raises(DataError, match="poses holds 4, which is not one of 0 to 3"):
        rotate(some_images(), POSES + 1)
    with pytest.raises(DataError, match="poses holds -1"):
        mirror(some_images(), POSES - 1)


@pytest.mark.usefixtures("as_shipped")
def test_poses_of_the_wrong_length_are_named() -> None:
    with pytest.raises(DataError, match=r"poses has shape \(7,\) but there are 8 images"):
        rotate(some_images(), POSES[1:])


@pytest.mark.parametrize("probability", [0.0, 1.0])
def test_certain_coins_mirror_none_or_all(probability: float) -> None:
    images, generator = some_images(), torch.Generator().manual_seed(0)
    result = random_mirror(images, POSES, probability, generator=generator)
    assert torch.equal(result, mirror(images, POSES) if probability else images)


def test_each_row_is_mirrored_by_its_own_coin() -> None:
    images, poses = some_images(4000, 2, 2), torch.arange(4000) % 4
    generator = torch.Generator().manual_seed(0)
    result = random_mirror(images, poses, 0.3, generator=generator)
    kept = (result == images).flatten(1).all(dim=1)
    mirrored = (result == mirror(images, poses)).flatten(1).all(dim=1)
    assert (kept | mirrored).all()
    assert mirrored.float().mean().item() == pytest.approx(0.3, abs=0.03)


def test_the_same_seed_mirrors_the_same_rows() -> None:
    images = some_images()
    first, second = (
        random_mirror(images, POSES, 0.5, generator=torch.Generator().manual_seed(5))
        for _ in range(2)
    )
    assert torch.equal(first, second)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_rotations_and_mirrors_keep_the_dtype(dtype: torch.dtype) -> None:
    images = some_images().to(dtype)
    assert rotate(images, POSES).dtype == mirror(images, POSES).dtype == dtype


def test_one_view_is_the_images() -> None:
    images = some_images(height=4)
    assert torch.equal(one_view(images), images[None])
    assert (len(one_view), one_view.n_poses) == (1, 1)


def test_rotations_are_the_poses_in_order() -> None:
    images = some_images()
    assert rotations.poses == (0, 1, 2, 3)
    assert (len(rotations), rotations.n_poses, any(rotations.mirrored)) == (4, 4, False)
    for view, pose in zip(rotations(images), rotations.poses, strict=True):
        assert torch.equal(view, rotate(images, torch.full((8,), pose)))


def test_rotations_and_mirrors_add_the_mirrored_source_in_each_pose() -> None:
    images = some_images()
    views = rotations_and_mirrors(images)
    assert rotations_and_mirrors.poses == (0, 1, 2, 3, 0, 1, 2, 3)
    assert rotations_and_mirrors.mirrored == (False,) * 4 + (True,) * 4
    assert torch.equal(views[:4], rotations(images))
    for pose in range(4):
        rows = torch.full((8,), pose)
        assert torch.equal(views[4 + pose], rotate(images.flip(3), rows))
        assert torch.equal(views[4 + pose], mirror(views[pose], rows))


def test_no_images_have_views_too() -> None:
    assert rotations_and_mirrors(some_images(0)).shape == (8, 0, 3, 6, 6)


@pytest.mark.parametrize(
    ("poses", "mirrored", "shifts"),
    [
        ((), (), ()),
        ((0, 1), (False,), ()),
        ((1, 0), (False, False), ()),
        ((0,), (True,), ()),
        ((0, 2), (False, False), ()),
        ((0, 1), (False, True), ()),
        ((0,), (False,), (1,)),
        ((0, 1), (False, False), (0, 1)),
        ((0, 0), (False, True), (0,)),
    ],
)
def test_views_begin_with_the_image_and_leave_no_pose_out(
    poses: tuple[int, ...], mirrored: tuple[bool, ...], shifts: tuple[int, ...]
) -> None:
    with pytest.raises(SettingsError, match="views 'mine' with poses=.*the image as it is first"):
        ViewSet("mine", poses, mirrored, shifts)


@pytest.mark.parametrize("pixels", [-3, -1, 0, 2])
def test_images_are_moved_down_and_right_with_a_mirror_at_their_edge(pixels: int) -> None:
    images = some_images(height=5)
    padded = nn.functional.pad(images, (4, 4, 4, 4), mode="reflect")
    start, (height, width) = 4 - pixels, images.shape[2:]
    expected = padded[:, :, start : start + height, start : start + width]
    assert torch.equal(move(images, pixels), expected)
    as_bytes = (images * 255).byte()
    assert torch.equal(move(as_bytes, pixels), (move(images, pixels) * 255).byte())


def test_an_image_is_not_moved_out_of_itself() -> None:
    with pytest.raises(DataError, match="5 x 6 pixels cannot be moved by -5"):
        move(some_images(height=5), -5)


def test_moved_and_mirrored_are_three_places_of_the_image_and_of_its_mirror() -> None:
    images = some_images()
    views = moved_and_mirrored(images)
    for mirrored, source in enumerate((images, images.flip(3))):
        expected = torch.stack([source, move(source, 1), move(source, -1)])
        assert torch.equal(views[mirrored::2], expected)
    assert moved_and_mirrored.unmirrored == (0,)
    assert moved_and_mirrored.without_changes().poses == (0,)
    assert rotations_and_mirrors.without_changes().poses == rotations.poses
    assert moved_and_mirrored.n_poses == 1


def test_views_of_ones_own_are_made_as_they_are_described() -> None:
    images = some_images()
    views = ViewSet("upright", (0, 0), (False, True))(images)
    assert torch.equal(views, torch.stack([images, images.flip(3)]))
