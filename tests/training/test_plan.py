"""What fits into the time and the memory there are."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from oddone.presets import mcl, paper
from oddone.training import cost as cost_module, plan
from oddone.training.cost import COPIES_OF_VIEWS, ROWS, SPARE, RowCost, measure_cost
from oddone.training.plan import (
    SMALLEST_BATCH,
    SizePlan,
    bytes_of_step,
    cut_batch,
    epochs_in_time,
    plan_image_size,
)
from oddone.training.settings import TrainSettings
from runs import tiny_settings


def by_pixels(_settings: TrainSettings, size: int) -> RowCost:
    """Return what a row would cost on a machine that needs a microsecond a pixel."""
    return RowCost(1000.0 * size**2, 1e-6 * size**2)


def test_a_linear_encoder_keeps_its_images_and_the_heads_activations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def linear(*_: object) -> nn.Module:
        encoder = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 10))
        return build(encoder, settings.model, 8)

    settings, build = tiny_settings(), cost_module.build_network
    monkeypatch.setattr(cost_module, "build_network", linear)
    measured = measure_cost(settings, 8)
    numbers = 3 * 8 * 8 + 10 + 16 + 8  # image, features, hidden after its ReLU, embedding
    views = 3 * 8 * 8 * COPIES_OF_VIEWS
    assert measured.bytes_per_row == pytest.approx(SPARE * 4 * (numbers + views))
    assert measured.seconds_per_row > 0
    assert ROWS > 1


def test_memory_grows_with_pixels_and_little_more() -> None:
    small, large = (measure_cost(mcl(), size).bytes_per_row for size in (32, 64))
    assert large / small == pytest.approx(4, rel=0.1)


def test_measuring_leaves_random_numbers_as_they_are() -> None:
    before = torch.get_rng_state()
    measure_cost(tiny_settings(), 16)
    assert torch.equal(torch.get_rng_state(), before)


def test_epochs_are_the_time_by_what_it_takes_to_see_all_images_once() -> None:
    settings = replace(mcl(), minutes=1.0)  # two views, one pose
    assert epochs_in_time(settings, 100, RowCost(1.0, 0.01)) == pytest.approx(60 / (100 * 2 * 0.01))
    assert epochs_in_time(tiny_settings(), 100, RowCost(1.0, 0.01)) == float("inf")


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        (50, SizePlan(224, 119.57908)),  # 600 s at 0.05 s a row
        (480, SizePlan(64, 152.58789)),
        (10_000, SizePlan(32, 29.296875)),
    ],
)
def test_the_size_is_the_largest_that_is_seen_a_hundred_times(
    monkeypatch: pytest.MonkeyPatch, images: int, expected: SizePlan
) -> None:
    monkeypatch.setattr(plan, "measure_cost", by_pixels)
    ours = plan_image_size(mcl(), images, (224, 128, 64, 32))
    assert ours.image_size == expected.image_size
    assert ours.epochs == pytest.approx(expected.epochs, rel=1e-4)


def test_a_batch_is_cut_to_two_gigabytes_but_not_to_nothing() -> None:
    cost = RowCost(1e6, 1.0)
    cut = cut_batch(paper(), cost)  # eight rows an image
    assert cut.batch.images == 250
    assert bytes_of_step(cut, 1000, cost) == 2e9
    assert bytes_of_step(cut, 10, cost) == 8e7  # no more images than there are
    assert cut_batch(paper(), RowCost(1e9, 1.0)).batch.images == SMALLEST_BATCH
    in_parts = replace(paper(), batch=replace(paper().batch, parts=16))
    assert cut_batch(in_parts, RowCost(1e9, 1.0)).batch.parts == SMALLEST_BATCH
    assert replace(cut, batch=paper().batch) == paper()
