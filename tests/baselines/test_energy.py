import math

import pytest
import torch
from hypothesis import given, strategies as st

from oddone.baselines import energy_scores
from oddone.errors import SettingsError

logit = st.floats(-30, 30, width=32)
rows_of_logits = st.lists(st.lists(logit, min_size=3, max_size=3), min_size=1, max_size=5)
temperatures = st.floats(0.5, 100)


@given(rows_of_logits, temperatures)
def test_the_score_is_the_free_energy(rows: list[list[float]], temperature: float) -> None:
    expected = [
        -temperature * math.log(sum(math.exp(value / temperature) for value in row)) for row in rows
    ]
    ours = energy_scores(torch.tensor(rows, dtype=torch.float64), temperature).tolist()
    torch.testing.assert_close(ours, expected)


def test_small_logits_are_odder_than_large_ones() -> None:
    silent, loud = energy_scores(torch.tensor([[0.0, 0.0, 0.0], [9.0, 0.0, 0.0]]))
    assert loud < silent


@given(rows_of_logits, temperatures, st.floats(-1000, 1000))
def test_logits_that_are_all_higher_lower_the_score_by_as_much(
    rows: list[list[float]], temperature: float, shift: float
) -> None:
    logits = torch.tensor(rows, dtype=torch.float64)
    shifted = energy_scores(logits + shift, temperature)
    torch.testing.assert_close(shifted, energy_scores(logits, temperature) - shift)


def test_a_low_temperature_leaves_only_the_highest_logit() -> None:
    logits = torch.tensor([[1.0, 4.0, 2.0], [0.0, -1.0, -3.0]])
    torch.testing.assert_close(energy_scores(logits, 0.01), torch.tensor([-4.0, 0.0]))


def test_huge_logits_one_class_and_no_image_have_scores() -> None:
    assert energy_scores(torch.tensor([[1e30, -1e30]])).tolist() == pytest.approx([-1e30])
    assert energy_scores(torch.tensor([[3.0], [-7.0]])).tolist() == [-3, 7]
    assert energy_scores(torch.empty(0, 4)).shape == (0,)


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan])
def test_a_temperature_that_is_not_positive_is_refused(temperature: float) -> None:
    with pytest.raises(SettingsError, match="temperature=.*choose it above 0"):
        energy_scores(torch.zeros(1, 2), temperature)
