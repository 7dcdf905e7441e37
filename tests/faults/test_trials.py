"""The trials of the harness: all are made, counted, and told."""

import json
from pathlib import Path

import pytest
from trials import Trials


def test_a_trial_that_fails_is_told_at_the_end_and_those_after_it_are_made(tmp_path: Path) -> None:
    trials = Trials()
    for number in range(3):
        with trials.trial("kill: train", f"number {number}"):
            assert number != 1, "the weights differ"
    with trials.trial("disk: score"):
        raise OSError("of any kind")
    with pytest.raises(AssertionError, match=r"2 of 4 trials failed.*") as caught:
        trials.check()
    assert "kill: train number 1\n" in str(caught.value)
    assert "the weights differ" in str(caught.value)
    trials.append_figures(tmp_path / "figures")
    assert list(map(json.loads, (tmp_path / "figures").read_text().splitlines())) == [
        {"name": "kill: train", "tried": 3, "failed": 1},
        {"name": "disk: score", "tried": 1, "failed": 1},
    ]


def test_trials_that_all_hold_are_no_error() -> None:
    trials = Trials()
    with trials.trial("kill: train"):
        pass
    trials.check()
    assert trials.tried.total() == 1
