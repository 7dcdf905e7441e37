"""Minutes become steps by what a step costs in processor time, measured once."""

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from benches import known, odd, toy_scale

from oddone.bench import recipes
from oddone.bench.recipes import Plan, plan
from oddone.bench.step_costs import ROUNDS, StepCosts, in_steps, measure_step
from oddone.data import ImageSet
from oddone.errors import ArtifactError, InUseError
from oddone.files import lock_folder

TRAINING, OUTLIERS = known(60, seed=0), odd(12, seed=99)


def in_minutes(recipe: recipes.Recipe, minutes: float = 1.0, seed: int = 0) -> Plan:
    planned = plan(recipe, toy_scale(), seed)
    settings = replace(planned.settings, steps=None, minutes=minutes)
    return planned._replace(settings=settings)


class Measuring:
    """Measurements that are made up: those of one recipe, one after the other."""

    def __init__(self, **seconds: list[float]) -> None:
        self.seconds = seconds
        self.order: list[str] = []

    def __call__(self, wanted: Plan, _training: ImageSet, outliers: ImageSet | None) -> float:
        assert (outliers is not None) == wanted.outliers
        self.order.append(wanted.name)
        return self.seconds[wanted.name].pop(0)


def costs(folder: Path, measure: Measuring) -> StepCosts:
    return StepCosts(folder / "step_costs", TRAINING, OUTLIERS, measure)


def test_recipes_are_measured_in_turns_and_the_least_counts(tmp_path: Path) -> None:
    measuring = Measuring(MCL=[3.0, 2.0, 2.5], SupCLR=[1.0, 9.0, 9.0])
    plans = [in_minutes(recipe) for recipe in (recipes.MCL, recipes.SUPCLR)]
    known_costs = costs(tmp_path, measuring)
    assert known_costs.known(plans[0]) is None
    said: list[str] = []
    known_costs.find(plans, said.append)
    assert measuring.order == ["MCL", "SupCLR"] * ROUNDS
    assert said == ["measuring what a step costs: 2 recipes"]
    found = [known_costs.known(each) for each in plans]
    assert [each and each.processor_seconds for each in found] == [2.0, 1.0]


def test_what_was_measured_holds_for_all_seeds_and_lengths_and_is_not_measured_again(
    tmp_path: Path,
) -> None:
    costs(tmp_path, Measuring(MCL=[2.0] * ROUNDS)).find([in_minutes(recipes.MCL)], print)
    again = Measuring()
    known_costs = costs(tmp_path, again)
    longer = in_minutes(recipes.MCL, minutes=20.0, seed=3)
    known_costs.find([longer], print)
    assert again.order == []
    cost = known_costs.known(longer)
    assert cost is not None
    assert known_costs.known(in_minutes(recipes.CSI)) is None
    # Twenty minutes of two cores are 2,400 seconds of one.
    assert in_steps(longer.settings, cost) == replace(longer.settings, minutes=None, steps=1200)


def test_minutes_stay_those_of_the_machine_that_was_measured_first(tmp_path: Path) -> None:
    """The second machine takes half as long for MCL, so its SupCLR counts twice."""
    mcl, supclr = in_minutes(recipes.MCL), in_minutes(recipes.SUPCLR)
    costs(tmp_path, Measuring(MCL=[2.0] * ROUNDS)).find([mcl], print)
    measuring = Measuring(MCL=[9.0, 1.0, 1.5], SupCLR=[3.0, 0.75, 9.0])
    known_costs = costs(tmp_path, measuring)
    known_costs.find([mcl, supclr], print)
    assert measuring.order == ["SupCLR", "MCL"] * ROUNDS
    found = [known_costs.known(each) for each in (mcl, supclr)]
    assert [each and each.processor_seconds for each in found] == [2.0, 1.5]


def test_outliers_have_a_cost_of_their_own(tmp_path: Path) -> None:
    exposed = in_minutes(recipes.OUTLIER_EXPOSURE)
    measuring = Measuring(**{"outlier exposure": [5.0] * ROUNDS})
    known_costs = costs(tmp_path, measuring)
    known_costs.find([exposed], print)
    assert known_costs.known(exposed) is not None
    assert known_costs.known(in_minutes(recipes.CROSS_ENTROPY)) is None


def test_a_step_of_fewer_images_than_a_batch_has_a_cost_of_its_own(tmp_path: Path) -> None:
    wanted, exposed = in_minutes(recipes.MCL), in_minutes(recipes.OUTLIER_EXPOSURE)
    batch = wanted.settings.batch.images
    measuring = Measuring(**{"MCL": [2.0] * ROUNDS, "outlier exposure": [5.0] * ROUNDS})
    costs(tmp_path, measuring).find([wanted, exposed], print)

    def is_known(each: Plan, images: int, outliers: int) -> bool:
        training, outside = known(images, seed=1), odd(outliers, seed=1)
        folder = tmp_path / "step_costs"
        return StepCosts(folder, training, outside, Measuring()).known(each) is not None

    assert is_known(wanted, 5 * batch, 1)
    assert not is_known(wanted, batch - 1, 1)
    assert is_known(exposed, 5 * batch, len(OUTLIERS))
    assert not is_known(exposed, 5 * batch, 1)


def test_the_shortest_budget_pays_for_one_step(tmp_path: Path) -> None:
    known_costs = costs(tmp_path, Measuring(MCL=[500.0] * ROUNDS))
    wanted = in_minutes(recipes.MCL, minutes=0.01)
    known_costs.find([wanted], print)
    cost = known_costs.known(wanted)
    assert cost is not None
    assert in_steps(wanted.settings, cost).steps == 1


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    known_costs = costs(tmp_path, Measuring(MCL=[2.0] * ROUNDS))
    wanted = in_minutes(recipes.MCL)
    known_costs.find([wanted], print)
    path = known_costs.path_of(wanted)
    content = json.loads(path.read_text())
    for broken in ("{", json.dumps({**content, "processor_seconds": 0})):
        path.write_text(broken)
        with pytest.raises(ArtifactError, match="remove that file, to measure anew"):
            known_costs.known(wanted)


def test_two_processes_do_not_measure_at_once(tmp_path: Path) -> None:
    (tmp_path / "step_costs").mkdir()
    with lock_folder(tmp_path / "step_costs"), pytest.raises(InUseError):
        costs(tmp_path, Measuring()).find([in_minutes(recipes.MCL)], print)


def test_a_step_costs_processor_time_and_no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slept seconds are on the clock, and nobody pays for them."""
    threads = torch.get_num_threads()
    original = time.process_time
    ticks = iter(range(1000))

    def sleep_and_read() -> float:
        next(ticks)
        time.sleep(0.05)
        return original()

    wanted = in_minutes(recipes.MCL)
    plain = measure_step(wanted, TRAINING, None)
    monkeypatch.setattr("oddone.bench.step_costs.time.process_time", sleep_and_read)
    assert 0 < measure_step(wanted, TRAINING, None) < 10 * plain + 0.04
    assert torch.get_num_threads() == threads
