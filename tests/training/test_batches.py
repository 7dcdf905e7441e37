from collections import Counter

import numpy as np
import pytest
import torch

from oddone.training import BatchSettings
from oddone.training.batches import Batches, colour_views
from oddone.transforms import AugmentSettings, rotate
from runs import tiny_settings, tiny_source

CPU = torch.device("cpu")
PLAIN = AugmentSettings(
    crop_scale=(1.0, 1.0),
    crop_ratio=(1.0, 1.0),
    mirror_probability=0.0,
    jitter_probability=0.0,
    grey_probability=0.0,
)


@pytest.mark.parametrize("poses_per_image", [1, 4])
@pytest.mark.parametrize("rotations", ["task", "augmentation", "none"])
def test_rows_are_what_their_facts_say(poses_per_image: int, rotations: str) -> None:
    source = tiny_source()
    batch = BatchSettings(images=12, poses_per_image=poses_per_image)
    batches = Batches(source, tiny_settings(batch=batch, rotations=rotations, augment=PLAIN))
    views, rows = batches.make(2, CPU)
    images = colour_views(views)
    posed = 12 * (1 if rotations == "none" else poses_per_image)
    assert len(images) == len(rows.labels) == 2 * posed
    assert Counter(rows.parents.tolist()) == dict.fromkeys(range(posed), 2)
    originals = torch.from_numpy(source.images).float() / 255
    for image, label, pose in zip(images, rows.labels, rows.poses, strict=True):
        back = rotate(image[None], -pose[None] % 4)[0]
        matches = [i for i in range(len(source)) if torch.allclose(originals[i], back, atol=1e-6)]
        assert len(matches) == 1
        assert source.labels[matches[0]] == label


def test_all_four_turns_of_an_image_share_a_batch() -> None:
    settings = tiny_settings(batch=BatchSettings(images=12, poses_per_image=4))
    rows = Batches(tiny_source(), settings).rows(0)
    assert Counter(rows.poses.tolist()) == dict.fromkeys(range(4), 24)


def test_an_epoch_shows_every_image_once_in_another_order_each_time() -> None:
    batches = Batches(tiny_source(), tiny_settings())
    assert batches.steps_per_epoch == 4
    first = np.concatenate([batches._picked(step) for step in range(4)])
    second = np.concatenate([batches._picked(step) for step in range(4, 8)])
    assert sorted(first) == sorted(second) == list(range(48))
    assert first.tolist() != second.tolist()


def test_a_batch_larger_than_the_data_is_all_of_it() -> None:
    batches = Batches(tiny_source(10), tiny_settings())
    assert (batches.images_per_step, batches.steps_per_epoch) == (10, 1)


def test_a_step_is_the_same_whoever_asks_for_it() -> None:
    one, other = (Batches(tiny_source(), tiny_settings()) for _ in range(2))
    other.make(0, CPU)
    images = colour_views(one.make(5, CPU).views)
    assert torch.equal(images, colour_views(other.make(5, CPU).views))
    assert not torch.equal(images, colour_views(one.make(6, CPU).views))
    assert images.is_contiguous(memory_format=torch.channels_last)


def test_the_halves_of_a_step_are_its_two_views_of_every_image() -> None:
    batches = Batches(tiny_source(), tiny_settings())
    whole, halves = colour_views(batches.make(5, CPU).views), batches.make(5, CPU).views.halves()
    first, second = map(colour_views, halves)
    torch.testing.assert_close(torch.cat([first, second]), whole)
    assert batches.rows(5).parents.tolist() == 2 * list(range(12))


def test_cross_entropy_sees_one_view() -> None:
    rows = Batches(tiny_source(), tiny_settings(objective="cross-entropy")).rows(0)
    assert len(rows.labels) == 12
