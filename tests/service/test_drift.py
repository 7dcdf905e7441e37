"""The martingale is the one of the paper, and raises false alarms as rarely as it promises."""

import math
from random import Random

import pytest
from scipy.stats import kstest

from oddone.service.drift import BETS, JUMP, DriftTest


def simple_jumper(calibration: list[float], stream: list[float], seed: int) -> list[float]:
    """Return the capital after each image: the algorithm, written slowly, with sums over all."""
    random = Random(seed)  # noqa: S311
    scores, capitals = list(calibration), dict.fromkeys(BETS, 1 / len(BETS))
    history = []
    for score in stream:
        scores.append(score)
        greater = sum(other > score for other in scores)
        equal = sum(other == score for other in scores)
        p_value = (greater + random.random() * equal) / len(scores)
        total = sum(capitals.values())
        for bet in BETS:
            capitals[bet] = (1 - JUMP) * capitals[bet] + JUMP / len(BETS) * total
            capitals[bet] *= 1 + bet * (p_value - 0.5)
        history.append(sum(capitals.values()))
    return history


@pytest.mark.parametrize("seed", range(4))
def test_the_capital_is_that_of_the_algorithm_written_slowly(seed: int) -> None:
    random = Random(seed)  # noqa: S311
    calibration = [float(random.randint(0, 20)) for _ in range(15)]  # with ties
    stream = [float(random.randint(seed, 20 + seed)) for _ in range(60)]
    test = DriftTest(calibration, seed)
    for score, wanted in zip(stream, simple_jumper(calibration, stream, seed), strict=True):
        test.add(score)
        assert math.exp(test.log_capital) == pytest.approx(wanted)
    assert test.images == 60


def test_p_values_are_uniform_while_nothing_changes() -> None:
    random = Random(0)  # noqa: S311
    test = DriftTest([random.gauss(0, 1) for _ in range(20)])
    p_values = [test._p_value(random.gauss(0, 1)) for _ in range(1000)]
    assert kstest(p_values, "uniform").pvalue > 0.01


def test_false_alarms_are_as_rare_as_villes_inequality_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("oddone.service.drift.ALARM", 5.0)
    alarms = 0
    for seed in range(100):
        random = Random(seed)  # noqa: S311
        test = DriftTest([random.gauss(0, 1) for _ in range(30)], seed)
        for _ in range(100):
            test.add(random.gauss(0, 1))
        alarms += test.alarm
    assert 0 < alarms <= 100 / 5


@pytest.mark.parametrize("shift", [2.0, -2.0])
def test_a_stream_that_changes_is_noticed_and_the_alarm_stays(shift: float) -> None:
    random = Random(1)  # noqa: S311
    test = DriftTest([random.gauss(0, 1) for _ in range(200)])
    for _ in range(100):
        test.add(random.gauss(0, 1))
    assert not test.alarm
    for _ in range(60):
        test.add(random.gauss(shift, 1))
    assert test.alarm
    for _ in range(500):
        test.add(random.gauss(0, 1))
    assert test.alarm
    assert test.log_capital < test.highest_log_capital


def test_no_stream_is_too_long_for_the_numbers() -> None:
    test = DriftTest([0.0])
    for score in range(3000):
        test.add(float(score))  # each is odder than all before it
    assert math.isfinite(test.log_capital)
    assert test.log_capital > 1000


def test_no_more_scores_are_kept_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oddone.service.drift.MOST_SCORES", 50)
    test = DriftTest([1.0, 2.0])
    for score in range(500):
        test.add(float(score % 7))
    assert len(test._scores) == 50
