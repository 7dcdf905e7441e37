import math

import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor, nn

from oddone.errors import DataError
from oddone.transforms import Boxes, crop, draw_boxes, random_crop
from oddone.transforms.crop import crop_flipped
from oddone.transforms.poses import Flips, flip

SCALE, RATIO = (0.08, 1.0), (3 / 4, 4 / 3)


def some_images(
    rows: int = 8, height: int = 12, width: int = 12, dtype: torch.dtype = torch.float32
) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.rand(rows, 3, height, width, generator=generator, dtype=torch.float64).to(dtype)


def some_boxes(rows: int, height: int, width: int, seed: int = 0) -> Boxes:
    generator = torch.Generator().manual_seed(seed)
    return draw_boxes(rows, (height, width), SCALE, RATIO, generator=generator)


def box(top: int, left: int, height: int, width: int) -> Boxes:
    return Boxes(*(torch.tensor([number]) for number in (top, left, height, width)))


def one_by_one(images: Tensor, boxes: Boxes) -> Tensor:
    """Return the crops, each cut out of its image and resized on its own."""
    size = images.shape[2:]
    crops = []
    for image, top, left, height, width in zip(images, *(b.tolist() for b in boxes), strict=True):
        cut = image[None, :, top : top + height, left : left + width]
        crops.append(nn.functional.interpolate(cut, size, mode="bilinear", align_corners=False))
    return torch.cat(crops)


def bilinear(line: list[float], length: int) -> list[float]:
    """Return a line of numbers stretched to another length, pixel by pixel."""
    stretched = []
    for i in range(length):
        place = min(max((i + 0.5) * len(line) / length - 0.5, 0), len(line) - 1)
        first = math.floor(place)
        second = min(first + 1, len(line) - 1)
        stretched.append(line[first] * (first + 1 - place) + line[second] * (place - first))
    return stretched


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 1000))
def test_crops_are_cut_and_resized_images(height: int, width: int, seed: int) -> None:
    images, boxes = some_images(5, height, width), some_boxes(5, height, width, seed)
    expected = one_by_one(images, boxes)
    torch.testing.assert_close(crop(images, boxes), expected, rtol=1e-5, atol=2e-6)


def test_crops_of_large_images_keep_their_precision() -> None:
    images, boxes = some_images(3, 224, 224), some_boxes(3, 224, 224)
    torch.testing.assert_close(crop(images, boxes), one_by_one(images, boxes), rtol=0, atol=1e-5)


def test_a_crop_is_the_textbooks_bilinear_interpolation() -> None:
    images = some_images(1, 6, 6, torch.float64)
    cropped = crop(images, box(1, 2, 3, 4))
    lines = [bilinear(line, 6) for line in images[0, 0, 1:4, 2:6].tolist()]
    columns = [bilinear(list(column), 6) for column in zip(*lines, strict=True)]
    expected = torch.tensor(columns, dtype=torch.float64).T
    torch.testing.assert_close(cropped[0, 0], expected)


def test_the_whole_image_is_its_own_crop() -> None:
    images = some_images(1, 9, 7)
    assert torch.equal(crop(images, box(0, 0, 9, 7)), images)


def test_one_pixel_fills_the_image() -> None:
    images = some_images(1)
    cropped = crop(images, box(3, 11, 1, 1))
    assert torch.equal(cropped, images[:, :, 3:4, 11:].expand_as(images))


def test_nothing_outside_the_box_is_seen() -> None:
    images = torch.zeros(1, 3, 12, 12)
    images[:, :, 4:8, 2:9] = 1
    assert torch.equal(crop(images, box(4, 2, 4, 7)), torch.ones(1, 3, 12, 12))


def test_cropping_with_flips_is_cropping_the_flipped_images() -> None:
    images, boxes = some_images(8, 12, 10), some_boxes(8, 12, 10)
    flips = Flips(torch.arange(8) % 3 == 1, torch.arange(8) % 3 == 2)
    expected = crop(flip(images, flips), boxes)
    torch.testing.assert_close(crop_flipped(images, boxes, flips), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_crops_keep_dtype_shape_and_range(dtype: torch.dtype) -> None:
    images = some_images(200, dtype=dtype).round(decimals=0)  # black and white
    cropped = random_crop(images, SCALE, RATIO, generator=torch.Generator().manual_seed(0))
    assert cropped.dtype == dtype
    assert cropped.shape == images.shape
    assert cropped.min() == 0
    assert cropped.max() == 1


def test_grey_images_stay_grey_when_cropped() -> None:
    images = some_images()[:, :1].repeat(1, 3, 1, 1)
    cropped = random_crop(images, SCALE, RATIO, generator=torch.Generator().manual_seed(0))
    assert torch.equal(cropped[:, 0], cropped[:, 1])
    assert torch.equal(cropped[:, 0], cropped[:, 2])


def test_crops_in_bfloat16_are_rounded_once() -> None:
    images, boxes = some_images(dtype=torch.bfloat16), some_boxes(8, 12, 12)
    assert torch.equal(crop(images, boxes), crop(images.float(), boxes).bfloat16())


def test_the_same_seed_gives_the_same_crops_and_each_row_its_own() -> None:
    images = some_images(1).repeat(8, 1, 1, 1)
    first, second = (
        random_crop(images, SCALE, RATIO, generator=torch.Generator().manual_seed(3))
        for _ in range(2)
    )
    assert torch.equal(first, second)
    assert all(not torch.equal(first[0], row) for row in first[1:])


@pytest.mark.parametrize(("height", "width"), [(32, 32), (3, 3), (20, 5), (1, 64)])
def test_boxes_lie_inside_the_image(height: int, width: int) -> None:
    top, left, tall, wide = some_boxes(5000, height, width)
    assert top.min() >= 0
    assert left.min() >= 0
    assert tall.min() >= 1
    assert wide.min() >= 1
    assert (top + tall).max() <= height
    assert (left + wide).max() <= width


def test_boxes_have_the_areas_and_ratios_asked_for() -> None:
    size = 1000  # so that whole pixels hardly matter
    _, _, tall, wide = some_boxes(20_000, size, size)
    share, ratio = tall * wide / size**2, wide / tall
    assert share.min().item() == pytest.approx(0.08, abs=0.003)
    assert 0.95 < share.max().item() <= 1
    assert ratio.min().item() == pytest.approx(3 / 4, abs=0.01)
    assert ratio.max().item() == pytest.approx(4 / 3, abs=0.01)
    assert ratio.log().mean().item() == pytest.approx(0, abs=0.005)
    small = share[share < 0.5]  # none of these was ever rejected, so they are uniform
    assert small.mean().item() == pytest.approx(0.29, abs=0.005)


def test_boxes_are_anywhere_in_the_room_they_have() -> None:
    generator = torch.Generator().manual_seed(0)
    boxes = draw_boxes(9000, (12, 12), (0.6944444, 0.6944445), (1.0, 1.0), generator=generator)
    assert set(boxes.height.tolist()) == set(boxes.width.tolist()) == {10}
    for start in (boxes.top, boxes.left):
        assert start.unique().tolist() == [0, 1, 2]
        torch.testing.assert_close(
            start.bincount() / 9000, torch.full((3,), 1 / 3), atol=0.02, rtol=0
        )
    assert (boxes.top != boxes.left).any()


@pytest.mark.parametrize(
    ("size", "expected"),
    [((12, 100), (0, 42, 12, 16)), ((100, 12), (42, 0, 16, 12)), ((12, 12), (0, 0, 12, 12))],
)
def test_a_row_that_never_fits_gets_the_largest_central_box(
    size: tuple[int, int], expected: tuple[int, ...]
) -> None:
    generator = torch.Generator().manual_seed(0)
    # Larger than the image, so that every try reaches out of it.
    boxes = draw_boxes(3, size, (1.3, 1.3), RATIO, generator=generator)
    for numbers, number in zip(boxes, expected, strict=True):
        assert numbers.tolist() == [number] * 3


def test_a_box_outside_the_image_is_refused() -> None:
    with pytest.raises(DataError, match=r"row 0 \(top=5, left=0, height=8, width=3\) reaches out"):
        crop(some_images(1), box(5, 0, 8, 3))


@pytest.mark.usefixtures("as_shipped")
def test_boxes_of_the_wrong_number_are_named() -> None:
    with pytest.raises(DataError, match="1 boxes for 2 images"):
        crop(some_images(2), box(0, 0, 1, 1))


def test_no_images_have_no_crops() -> None:
    generator = torch.Generator().manual_seed(0)
    assert random_crop(some_images(0), SCALE, RATIO, generator=generator).shape == (0, 3, 12, 12)
