import math
from dataclasses import FrozenInstanceError, replace

import pytest
import torch
from torch import Tensor

from oddone.errors import DataError, SettingsError
from oddone.transforms import (
    AugmentSettings,
    augment,
    mirror,
    random_crop,
    random_grey,
    random_jitter,
    random_mirror,
)

DEFAULTS = AugmentSettings()
NOTHING = AugmentSettings(
    crop_scale=(1.0, 1.0),
    crop_ratio=(1.0, 1.0),
    mirror_probability=0.0,
    jitter_probability=0.0,
    grey_probability=0.0,
)


def some_images(rows: int = 60, size: int = 8, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.rand(rows, 3, size, size, generator=torch.Generator().manual_seed(0)).to(dtype)


def some_poses(rows: int = 60) -> Tensor:
    return torch.randint(4, (rows,), generator=torch.Generator().manual_seed(1))


def augmented(images: Tensor, settings: AugmentSettings = DEFAULTS, seed: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return augment(images, some_poses(len(images)), settings, generator=generator)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_augmenting_is_mirror_crop_jitter_and_grey_in_that_order(dtype: torch.dtype) -> None:
    settings = AugmentSettings()
    images, generator = some_images(dtype=dtype), torch.Generator().manual_seed(2)
    views = random_mirror(images, some_poses(), settings.mirror_probability, generator=generator)
    views = random_crop(views, settings.crop_scale, settings.crop_ratio, generator=generator)
    views = random_jitter(
        views, settings.strengths, settings.jitter_probability, generator=generator
    )
    views = random_grey(views, settings.grey_probability, generator=generator)
    torch.testing.assert_close(augmented(images), views, rtol=1e-5, atol=1e-6)


def test_settings_that_ask_for_nothing_change_nothing() -> None:
    images = some_images()
    assert torch.equal(augmented(images, NOTHING), images)


def test_a_certain_mirror_follows_the_pose() -> None:
    images = some_images()
    expected = mirror(images, some_poses())
    assert torch.equal(augmented(images, replace(NOTHING, mirror_probability=1.0)), expected)


def test_the_share_of_grey_views_is_the_one_asked_for() -> None:
    views = augmented(some_images(4000, 4), AugmentSettings(grey_probability=0.3))
    is_grey = (views == views[:, :1]).flatten(1).all(dim=1)
    assert is_grey.float().mean().item() == pytest.approx(0.3, abs=0.02)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_views_keep_dtype_shape_and_range(dtype: torch.dtype) -> None:
    images = some_images(500, dtype=dtype).round()
    views = augmented(images)
    assert views.dtype == dtype
    assert views.shape == images.shape
    assert views.min() >= 0
    assert views.max() <= 1


def test_views_in_bfloat16_are_rounded_once() -> None:
    images = some_images(dtype=torch.bfloat16)
    assert torch.equal(augmented(images), augmented(images.float()).bfloat16())


def test_grey_images_stay_grey() -> None:
    views = augmented(some_images()[:, :1].repeat(1, 3, 1, 1))
    assert torch.equal(views[:, 0], views[:, 1])
    assert torch.equal(views[:, 0], views[:, 2])


def test_the_same_seed_gives_the_same_views_and_another_seed_others() -> None:
    images = some_images()
    assert torch.equal(augmented(images), augmented(images))
    assert not torch.equal(augmented(images), augmented(images, seed=3))


def test_rows_taken_in_parts_are_augmented_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    images = some_images()
    whole = augmented(images)
    monkeypatch.setattr("oddone.transforms.cache.NUMBERS_AT_ONCE", 7 * 3 * 8 * 8)
    torch.testing.assert_close(augmented(images), whole)


def test_two_views_of_one_image_differ() -> None:
    views = augmented(some_images(1).repeat(10, 1, 1, 1))
    assert all(not torch.equal(views[0], view) for view in views[1:])


def test_the_images_themselves_are_left_alone() -> None:
    images = some_images()
    before = images.clone()
    augmented(images)
    assert torch.equal(images, before)


def test_oblong_images_and_no_images_are_augmented_too() -> None:
    assert augmented(some_images()[:, :, :5]).shape == (60, 3, 5, 8)
    assert augmented(some_images(0)).shape == (0, 3, 8, 8)


def test_settings_are_the_papers_and_frozen() -> None:
    settings = AugmentSettings()
    assert settings.strengths == (0.4, 0.4, 0.4, 0.1)
    with pytest.raises(FrozenInstanceError):
        settings.hue = 0.2  # type: ignore[misc]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"crop_scale": (0.0, 1.0)}, r"crop_scale=\(0.0, 1.0\): choose .* above 0 and at most 1"),
        ({"crop_scale": (0.5, 0.2)}, r"crop_scale=\(0.5, 0.2\)"),
        ({"crop_ratio": (2.0, 1.0)}, r"crop_ratio=\(2.0, 1.0\): choose .* both above 0"),
        ({"crop_ratio": (1.0, math.inf)}, r"crop_ratio=\(1.0, inf\)"),
        ({"mirror_probability": 1.5}, "mirror_probability=1.5: choose it from 0 to 1"),
        ({"jitter_probability": -0.1}, "jitter_probability=-0.1"),
        ({"grey_probability": math.nan}, "grey_probability=nan"),
        ({"brightness": -1.0}, r"brightness=-1.0: choose 0 \(no change\) or a positive"),
        ({"contrast": math.inf}, "contrast=inf"),
        ({"saturation": math.nan}, "saturation=nan"),
        ({"hue": 0.6}, "hue=0.6: choose it from 0 to 0.5"),
    ],
)
def test_impossible_settings_are_refused(
    settings: dict[str, float | tuple[float, float]], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        AugmentSettings(**settings)  # type: ignore[arg-type]


@pytest.mark.usefixtures("as_shipped")
def test_images_of_the_wrong_kind_are_named() -> None:
    images, generator = some_images(4), torch.Generator()
    poses = torch.zeros(4, dtype=torch.long)
    with pytest.raises(DataError, match=r"images are torch.uint8; pass floats from 0 to 1"):
        augment(images.byte(), poses, AugmentSettings(), generator=generator)
    with pytest.raises(DataError, match=r"images have shape \(4, 1, 8, 8\)"):
        augment(images[:, :1], poses, AugmentSettings(), generator=generator)
    with pytest.raises(DataError, match="poses holds 4"):
        augment(images, poses + 4, AugmentSettings(), generator=generator)
