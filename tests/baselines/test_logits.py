import math

import pytest
import torch
from hypothesis import given, strategies as st
from toys import odd, score, sighted

from oddone.baselines import energy, energy_scores, msp, msp_scores
from oddone.errors import SettingsError

logit = st.floats(-30, 30, width=32)
rows_of_logits = st.lists(st.lists(logit, min_size=3, max_size=3), min_size=1, max_size=5)
temperatures = st.floats(0.5, 100)


# --- Maximum softmax probability --------------------------------------------------------------


@given(rows_of_logits)
def test_msp_is_minus_the_highest_probability(rows: list[list[float]]) -> None:
    expected = []
    for row in rows:
        total = sum(math.exp(value) for value in row)
        expected.append(-max(math.exp(value) / total for value in row))
    ours = msp_scores(torch.tensor(rows)).tolist()
    torch.testing.assert_close(ours, expected)


def test_an_unsure_guess_is_more_anomalous_than_a_sure_one() -> None:
    unsure, sure = msp_scores(torch.tensor([[1.0, 1.0, 1.0, 1.0], [9.0, 0.0, 0.0, 0.0]]))
    assert unsure == -1 / 4
    assert sure < unsure


@given(rows_of_logits, st.floats(-1000, 1000))
def test_to_msp_only_differences_of_logits_matter(rows: list[list[float]], shift: float) -> None:
    logits = torch.tensor(rows, dtype=torch.float64)
    torch.testing.assert_close(msp_scores(logits + shift), msp_scores(logits))


def test_of_two_very_sure_guesses_one_is_still_surer() -> None:
    sure, surer = msp_scores(torch.tensor([[20.0, 0.0], [25.0, 0.0]]))
    assert surer < sure


def test_huge_logits_one_class_and_no_image_have_an_msp() -> None:
    assert msp_scores(torch.tensor([[1e30, -1e30]])).tolist() == [-1]
    assert msp_scores(torch.tensor([[3.0], [-7.0]])).tolist() == [-1, -1]
    assert msp_scores(torch.empty(0, 4)).shape == (0,)


# --- Energy -----------------------------------------------------------------------------------


@given(rows_of_logits, temperatures)
def test_energy_is_the_free_energy(rows: list[list[float]], temperature: float) -> None:
    expected = [
        -temperature * math.log(sum(math.exp(value / temperature) for value in row)) for row in rows
    ]
    ours = energy_scores(torch.tensor(rows, dtype=torch.float64), temperature).tolist()
    torch.testing.assert_close(ours, expected)


def test_small_logits_are_more_anomalous_than_large_ones() -> None:
    small, large = energy_scores(torch.tensor([[0.0, 0.0, 0.0], [9.0, 0.0, 0.0]]))
    assert large < small


@given(rows_of_logits, temperatures, st.floats(-1000, 1000))
def test_logits_that_are_all_higher_lower_the_energy_by_as_much(
    rows: list[list[float]], temperature: float, shift: float
) -> None:
    logits = torch.tensor(rows, dtype=torch.float64)
    shifted = energy_scores(logits + shift, temperature)
    torch.testing.assert_close(shifted, energy_scores(logits, temperature) - shift)


def test_a_low_temperature_leaves_only_the_highest_logit() -> None:
    logits = torch.tensor([[1.0, 4.0, 2.0], [0.0, -1.0, -3.0]])
    torch.testing.assert_close(energy_scores(logits, 0.01), torch.tensor([-4.0, 0.0]))


def test_huge_logits_one_class_and_no_image_have_an_energy() -> None:
    assert energy_scores(torch.tensor([[1e30, -1e30]])).tolist() == pytest.approx([-1e30])
    assert energy_scores(torch.tensor([[3.0], [-7.0]])).tolist() == [-3, 7]
    assert energy_scores(torch.empty(0, 4)).shape == (0,)


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan])
def test_a_temperature_that_is_not_positive_is_refused(temperature: float) -> None:
    with pytest.raises(SettingsError, match="temperature=.*choose a positive number"):
        energy_scores(torch.zeros(1, 2), temperature)
    with pytest.raises(SettingsError, match="temperature=.*choose a positive number"):
        energy(sighted(), temperature)


# --- As scorers -------------------------------------------------------------------------------


def test_verdicts_are_those_of_the_classifier_s_logits() -> None:
    trained, images = sighted(), odd()
    classifier = trained.network.classifier
    assert classifier is not None
    with torch.no_grad():
        logits = classifier(trained.network(torch.from_numpy(images).float() / 255).features)
    by_msp, by_energy = score(msp(trained), images), score(energy(trained, 3.0), images)
    torch.testing.assert_close(by_msp.scores, msp_scores(logits), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(by_energy.scores, energy_scores(logits, 3.0), rtol=1e-5, atol=1e-5)
    for verdicts in (by_msp, by_energy):
        assert torch.equal(verdicts.labels, logits.argmax(dim=1))
        assert verdicts.probabilities is not None
        torch.testing.assert_close(verdicts.probabilities, logits.softmax(dim=1))
