import math

import torch
from hypothesis import given, strategies as st

from oddone.baselines import msp_scores

logit = st.floats(-30, 30, width=32)
rows_of_logits = st.lists(st.lists(logit, min_size=3, max_size=3), min_size=1, max_size=5)


@given(rows_of_logits)
def test_the_score_is_minus_the_highest_probability(rows: list[list[float]]) -> None:
    expected = []
    for row in rows:
        total = sum(math.exp(value) for value in row)
        expected.append(-max(math.exp(value) / total for value in row))
    ours = msp_scores(torch.tensor(rows)).tolist()
    torch.testing.assert_close(ours, expected)


def test_an_unsure_guess_is_odder_than_a_sure_one() -> None:
    unsure, sure = msp_scores(torch.tensor([[1.0, 1.0, 1.0, 1.0], [9.0, 0.0, 0.0, 0.0]]))
    assert unsure == -1 / 4
    assert sure < unsure


@given(rows_of_logits, st.floats(-1000, 1000))
def test_only_differences_of_logits_matter(rows: list[list[float]], shift: float) -> None:
    logits = torch.tensor(rows, dtype=torch.float64)
    torch.testing.assert_close(msp_scores(logits + shift), msp_scores(logits))


def test_of_two_very_sure_guesses_one_is_still_surer() -> None:
    sure, surer = msp_scores(torch.tensor([[20.0, 0.0], [25.0, 0.0]]))
    assert surer < sure


def test_huge_logits_one_class_and_no_image_have_scores() -> None:
    assert msp_scores(torch.tensor([[1e30, -1e30]])).tolist() == [-1]
    assert msp_scores(torch.tensor([[3.0], [-7.0]])).tolist() == [-1, -1]
    assert msp_scores(torch.empty(0, 4)).shape == (0,)
