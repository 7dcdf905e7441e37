from dataclasses import replace

import numpy as np
import pytest

from oddone.errors import SettingsError
from oddone.training import split_held_out
from oddone.training.batches import Batches
from runs import tiny_settings, tiny_source


def test_every_class_gives_the_same_share_and_no_image_is_lost() -> None:
    source = tiny_source(images=90, classes=3)
    parts = split_held_out(source, tiny_settings(held_out=0.2))
    assert np.bincount(source.labels[parts.held_out]).tolist() == [6, 6, 6]
    assert sorted([*parts.training, *parts.held_out]) == list(range(90))


def test_a_share_is_rounded_down_so_that_a_small_class_keeps_its_images() -> None:
    source = tiny_source(images=27, classes=3)
    assert len(split_held_out(source, tiny_settings(held_out=0.1)).held_out) == 0


def test_nothing_is_held_out_unless_asked_for() -> None:
    parts = split_held_out(tiny_source(images=9), tiny_settings(held_out=0.0))
    assert parts.training.tolist() == list(range(9))


def test_the_split_follows_from_the_seed() -> None:
    source, settings = tiny_source(images=90), tiny_settings(held_out=0.3)
    again = split_held_out(source, settings).held_out
    assert split_held_out(source, settings).held_out.tolist() == again.tolist()
    assert split_held_out(source, replace(settings, seed=8)).held_out.tolist() != again.tolist()


def test_training_never_sees_what_is_held_out() -> None:
    source, settings = tiny_source(images=60), tiny_settings(held_out=0.25)
    batches = Batches(source, settings)
    seen = {int(i) for step in range(20 * batches.steps_per_epoch) for i in batches._picked(step)}
    assert seen == set(split_held_out(source, settings).training.tolist())


@pytest.mark.parametrize("share", [-0.1, 1.0])
def test_a_share_outside_0_to_1_is_refused(share: float) -> None:
    with pytest.raises(SettingsError, match="held_out=.*choose a share"):
        tiny_settings(held_out=share)
