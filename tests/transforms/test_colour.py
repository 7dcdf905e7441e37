import colorsys

import numpy as np
import numpy.typing as npt
import pytest
import torch
from PIL import Image
from torch import Tensor

from oddone.transforms import Jitter, Strengths, grey, jitter, random_grey, random_jitter
from oddone.transforms.colour import ORDERS, draw_jitter

STRENGTHS = Strengths(brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1)
Pixels = npt.NDArray[np.float64]


def some_images(rows: int = 48, size: int = 5, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return images with black, white, grey and pure pixels among the random ones."""
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(rows, 3, size, size, generator=generator, dtype=torch.float64)
    images[:, :, 0] = images[:, :, 0].round()
    images[:, :, 1] = images[:, :1, 1]
    return images.to(dtype)


def drawn(rows: int, strengths: Strengths = STRENGTHS, probability: float = 0.8) -> Jitter:
    return draw_jitter(rows, strengths, probability, generator=torch.Generator().manual_seed(1))


def one_step(name: str, factors: Tensor) -> Jitter:
    """Return a jitter of one step."""
    rows = len(factors)
    neutral = {"brightness": 1.0, "contrast": 1.0, "saturation": 1.0, "hue": 0.0}
    steps = {step: torch.full((rows,), number) for step, number in neutral.items()}
    return Jitter(
        **(steps | {name: factors}),
        order=torch.arange(rows) % len(ORDERS),
        chosen=torch.ones(rows, dtype=torch.bool),
    )


# --- One image, one step at a time, in NumPy and colorsys, as torchvision documents it ----------


def numpy_grey(image: Pixels) -> Pixels:
    return 0.2989 * image[0] + 0.587 * image[1] + 0.114 * image[2]


def blend(image: Pixels, other: Pixels | float, factor: float) -> Pixels:
    return np.clip(factor * image + (1 - factor) * other, 0, 1)


def shift_hue(image: Pixels, shift: float) -> Pixels:
    shifted = np.empty_like(image)
    for y, x in np.ndindex(image.shape[1:]):
        hue, saturation, value = colorsys.rgb_to_hsv(*image[:, y, x])
        shifted[:, y, x] = colorsys.hsv_to_rgb((hue + shift) % 1, saturation, value)
    return shifted


def numpy_step(image: Pixels, name: str, factor: float) -> Pixels:
    if name == "brightness":
        return blend(image, 0, factor)
    if name == "contrast":
        return blend(image, numpy_grey(image).mean(), factor)
    if name == "saturation":
        return blend(image, numpy_grey(image), factor)
    return shift_hue(image, factor)


def numpy_jitter(images: Tensor, parameters: Jitter) -> Tensor:
    jittered = []
    for row, image in enumerate(images.double().numpy()):
        pixels = image
        if parameters.chosen[row]:
            for name in ORDERS[int(parameters.order[row])]:
                pixels = numpy_step(pixels, name, float(getattr(parameters, name)[row]))
        jittered.append(torch.from_numpy(pixels))
    return torch.stack(jittered)


# --- Jitter -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_jitter_is_the_four_steps_in_each_rows_order(dtype: torch.dtype) -> None:
    images, parameters = some_images(dtype=dtype), drawn(48)
    assert len(parameters.order.unique()) > 15
    assert parameters.chosen.any()
    assert not parameters.chosen.all()
    jittered = jitter(images, parameters)
    assert jittered.dtype == dtype
    expected = numpy_jitter(images, parameters).to(dtype)
    torch.testing.assert_close(jittered, expected, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("name", ["brightness", "contrast", "saturation", "hue"])
def test_each_step_alone_is_its_definition(name: str) -> None:
    images = some_images(31)
    factors = torch.linspace(-0.5, 0.5, 31) if name == "hue" else torch.linspace(0, 2, 31)
    parameters = one_step(name, factors)
    expected = numpy_jitter(images, parameters)
    torch.testing.assert_close(jitter(images, parameters), expected, rtol=1e-6, atol=1e-6)


def test_hues_of_every_kind_of_pixel_are_shifted_as_colorsys_shifts_them() -> None:
    levels = torch.linspace(0, 1, 5, dtype=torch.float64)
    cube = torch.cartesian_prod(levels, levels, levels)  # all ties and all orders of channels
    images = cube.T.reshape(1, 3, 5, 25).repeat(21, 1, 1, 1)
    parameters = one_step("hue", torch.linspace(-0.5, 0.5, 21))
    expected = numpy_jitter(images, parameters)
    torch.testing.assert_close(jitter(images, parameters), expected, rtol=0, atol=1e-6)


def test_a_third_of_the_wheel_rotates_the_channels() -> None:
    images = some_images(4)
    shifted = jitter(images, one_step("hue", torch.full((4,), 1 / 3)))
    torch.testing.assert_close(shifted, images.roll(1, dims=1), rtol=0, atol=1e-6)


def test_neutral_factors_change_nothing() -> None:
    images = some_images()
    assert torch.equal(
        jitter(images, drawn(48, Strengths(0.0, 0.0, 0.0, 0.0), probability=1.0)), images
    )


def test_rows_that_are_not_chosen_stay_as_they_are() -> None:
    images, parameters = some_images(dtype=torch.bfloat16), drawn(48)
    jittered = jitter(images, parameters)
    same = (jittered == images).flatten(1).all(dim=1)
    assert torch.equal(same, ~parameters.chosen)


def test_jitter_does_not_change_its_input() -> None:
    images = some_images()
    before = images.clone()
    jitter(images, drawn(48))
    assert torch.equal(images, before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_strong_jitter_keeps_dtype_shape_and_range(dtype: torch.dtype) -> None:
    images = some_images(500, dtype=dtype)
    strong = Strengths(2.0, 2.0, 2.0, 0.5)
    generator = torch.Generator().manual_seed(0)
    jittered = random_jitter(images, strong, 1.0, generator=generator)
    assert jittered.dtype == dtype
    assert jittered.shape == images.shape
    assert jittered.min() >= 0
    assert jittered.max() <= 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_grey_images_stay_grey_when_jittered(dtype: torch.dtype) -> None:
    images = some_images(dtype=dtype)[:, :1].repeat(1, 3, 1, 1)
    jittered = jitter(images, drawn(48, probability=1.0))
    assert torch.equal(jittered[:, 0], jittered[:, 1])
    assert torch.equal(jittered[:, 0], jittered[:, 2])


def test_rows_taken_in_parts_are_jittered_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    images, parameters = some_images(), drawn(48)
    whole = jitter(images, parameters)
    monkeypatch.setattr("oddone.transforms.cache.NUMBERS_AT_ONCE", 1)
    torch.testing.assert_close(jitter(images, parameters), whole)


def test_the_layout_of_the_memory_does_not_matter() -> None:
    images, parameters = some_images(), drawn(48)
    last = images.contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(jitter(last, parameters), jitter(images, parameters))


def test_factors_are_uniform_around_one_and_orders_equally_likely() -> None:
    parameters = drawn(24_000)
    for name in ("brightness", "contrast", "saturation"):
        factors = getattr(parameters, name)
        assert factors.min().item() == pytest.approx(0.6, abs=1e-3)
        assert factors.max().item() == pytest.approx(1.4, abs=1e-3)
        assert factors.mean().item() == pytest.approx(1, abs=0.01)
    assert parameters.hue.min().item() == pytest.approx(-0.1, abs=1e-3)
    assert parameters.hue.max().item() == pytest.approx(0.1, abs=1e-3)
    assert parameters.chosen.float().mean().item() == pytest.approx(0.8, abs=0.01)
    assert parameters.order.bincount(minlength=24).min() > 850
    assert len(parameters.order.bincount()) == 24


def test_factors_are_never_negative() -> None:
    assert drawn(1000, Strengths(3.0, 3.0, 3.0, 0.5)).brightness.min() >= 0


def test_the_same_seed_gives_the_same_jitter_and_each_row_its_own() -> None:
    images = some_images(1).repeat(8, 1, 1, 1)
    first, second = (
        random_jitter(images, STRENGTHS, 1.0, generator=torch.Generator().manual_seed(3))
        for _ in range(2)
    )
    assert torch.equal(first, second)
    assert all(not torch.equal(first[0], row) for row in first[1:])


# --- Grey ---------------------------------------------------------------------------------------


def test_grey_is_pillows_within_its_rounding() -> None:
    generator = torch.Generator().manual_seed(0)
    levels = torch.randint(256, (4, 3, 8, 8), generator=generator, dtype=torch.uint8)
    ours = grey(levels.double() / 255) * 255
    for image, result in zip(levels, ours, strict=True):
        pillows = np.asarray(Image.fromarray(image.permute(1, 2, 0).numpy()).convert("L"))
        for channel in result:
            assert np.abs(channel.numpy() - pillows).max() < 1


def test_grey_is_the_weighted_sum_of_the_channels() -> None:
    images = some_images()
    for image, result in zip(images, grey(images), strict=True):
        expected = torch.from_numpy(numpy_grey(image.numpy()))
        torch.testing.assert_close(result, expected.expand(3, -1, -1))


@pytest.mark.parametrize("probability", [0.0, 1.0])
def test_certain_coins_make_none_or_all_grey(probability: float) -> None:
    images = some_images()
    result = random_grey(images, probability, generator=torch.Generator().manual_seed(0))
    assert torch.equal(result, grey(images) if probability else images)


def test_each_row_is_made_grey_by_its_own_coin() -> None:
    images = torch.rand(4000, 3, 1, 1, generator=torch.Generator().manual_seed(1))
    result = random_grey(images, 0.2, generator=torch.Generator().manual_seed(0))
    kept = (result == images).flatten(1).all(dim=1)
    greyed = (result == grey(images)).flatten(1).all(dim=1)
    assert (kept | greyed).all()
    assert greyed.float().mean().item() == pytest.approx(0.2, abs=0.02)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_grey_keeps_dtype_and_range(dtype: torch.dtype) -> None:
    images = some_images(dtype=dtype)
    result = random_grey(images, 0.5, generator=torch.Generator().manual_seed(0))
    assert result.dtype == dtype
    assert result.min() >= 0
    assert result.max() <= 1
