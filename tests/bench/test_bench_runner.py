"""Tables are filled: all networks are trained and score, once each, and go on after a stop."""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from benches import (
    TOY_TABLES,
    Counting,
    Toys,
    known,
    odd,
    toy_bench,
    toy_record,
    toy_scale,
    toy_sets,
)

from oddone.bench import TABLES, Bench, BenchImages, Interrupted, Table, recipes, sample
from oddone.bench.recipes import Plan, plan
from oddone.data import ImageSet
from oddone.encoders import load_network
from oddone.errors import DataError, SettingsError
from oddone.training import Outcome, RunDirectory, TrainSettings, train_network
from oddone.training.run_directory import INCOMPLETE

ALL_TABLES = pytest.mark.parametrize("table", TOY_TABLES.values(), ids=lambda table: table.name)


def of_rows(table: Table, *names: str) -> Table:
    """Return the table with these rows only."""
    return replace(table, rows=tuple(row for row in table.rows if " ".join(row.names) in names))


@ALL_TABLES
def test_every_row_and_column_of_a_table_is_filled(toys: Toys, table: Table) -> None:
    record = toys.records[table.name]
    assert [row.names for row in record.rows] == [row.names for row in table.rows]
    for row in record.rows:
        for column in record.columns:
            (number,) = row.numbers(column)
            assert 0 <= number <= 100
    given = {"svhn", "cifar100", "textures", "near", "far", "mean", None}
    assert [column for column in table.columns if column.of in given] == [
        column for column in record.columns if column in table.columns
    ]
    assert {column.of for column in record.columns} >= {"svhn", "cifar100", "textures"}


def test_a_network_is_trained_once_for_all_rows_and_tables(toys: Toys) -> None:
    assert len(toys.train.trained) == len(set(toys.train.trained))
    plans: set[str] = set()
    for table in TOY_TABLES.values():
        for row in table.rows:
            wanted: Plan | None = toys.bench.in_steps(toys.bench.planned(row, seed=0))
            while wanted is not None:
                plans.add(toys.bench.key(wanted))
                wanted = wanted.start
    assert len(toys.train.trained) == len(plans) == 13 + 10


def test_a_filled_table_is_filled_again_without_training_and_with_the_same_numbers(
    toys: Toys,
) -> None:
    train = Counting()
    again = toy_record(toy_bench(toys.bench.folder, train), "paper-sei")
    assert train.trained == []
    assert again.rows == toys.records["paper-sei"].rows


def test_a_stopped_bench_goes_on_where_it_stopped(tmp_path: Path) -> None:
    table = of_rows(TABLES["paper-mcl"], "Baseline (w/o NT-Xent)", "SimCLR (CE fine-tuned)", "MCL")
    stopping = Counting(networks=2)
    with pytest.raises(Interrupted):
        toy_bench(tmp_path, stopping).fill(table)
    going_on = Counting()
    filled = toy_bench(tmp_path, going_on).fill(table)
    assert len(stopping.trained) == 3
    assert going_on.trained[0] == stopping.trained[-1]
    assert len(going_on.trained) == 2
    assert [model.steps for model in filled.models] == [2] * 4


def test_ctrl_c_after_the_last_step_of_a_network_stops_the_bench_and_keeps_it(
    tmp_path: Path,
) -> None:
    outcomes: list[Outcome] = []

    def train(
        source: ImageSet, settings: TrainSettings, run: RunDirectory, **given: Any
    ) -> Outcome:
        def at_the_last_step() -> bool:
            return len(list(run.history())) == settings.steps

        outcomes.append(train_network(source, settings, run, stop=at_the_last_step, **given))
        return outcomes[-1]

    table = of_rows(TABLES["paper-mcl"], "Baseline (w/o NT-Xent)", "MCL")
    bench = Bench(tmp_path, toy_sets(), toy_scale(), train)
    with pytest.raises(Interrupted):
        bench.fill(table)
    (outcome,) = outcomes
    assert outcome.finished
    assert outcome.stopped
    assert bench.run_of(plan(recipes.CROSS_ENTROPY, bench.scale, 0)).encoder_path.is_file()
    assert not bench.run_of(plan(recipes.MCL, bench.scale, 0)).path.exists()
    going_on = Counting()
    filled = toy_bench(tmp_path, going_on).fill(table)
    assert len(going_on.trained) == 1
    assert len(filled.rows) == 2


def test_a_folder_that_a_crash_left_half_made_is_made_anew(tmp_path: Path) -> None:
    table = of_rows(TABLES["paper-mcl"], "Baseline (w/o NT-Xent)")
    bench = toy_bench(tmp_path, Counting())
    run = bench.run_of(plan(recipes.CROSS_ENTROPY, bench.scale, 0))
    run.checkpoints.mkdir(parents=True)
    (run.path / INCOMPLETE).touch()
    (run.path / "provenance.json").write_text("{}")
    assert len(bench.fill(table).rows) == 1


def test_fine_tuning_begins_with_the_network_before(toys: Toys) -> None:
    """With a learning rate near zero, the encoder stays what it was."""
    bench = replace(toys.bench, train=Counting())
    scale = bench.scale
    still = replace(
        scale.after, optimiser=replace(scale.after.optimiser, learning_rate=1e-12, warm_up=0.0)
    )
    bench = replace(bench, scale=replace(scale, after=still))
    bench.fill(of_rows(TABLES["paper-mcl"], "SimCLR (CE fine-tuned)"))
    wanted = plan(recipes.SIMCLR_FINE_TUNED, bench.scale, 0)
    assert wanted.start is not None
    before, after = (
        load_network(bench.run_of(each).encoder_path).network.encoder
        for each in (wanted.start, wanted)
    )
    for (name, old), new in zip(before.named_parameters(), after.parameters(), strict=True):
        torch.testing.assert_close(old, new, msg=name)


def test_what_decides_what_a_network_learns_decides_its_name(toys: Toys) -> None:
    bench = toys.bench
    wanted = plan(recipes.SIMCLR_FINE_TUNED, bench.scale, 0)
    exposed = plan(recipes.OUTLIER_EXPOSURE, bench.scale, 0)
    other_data = replace(bench, sets=replace(bench.sets, training=known(60, seed=7)))
    other_outliers = replace(bench, sets=replace(bench.sets, outliers=odd(12, seed=98)))
    assert bench.key(wanted) != bench.key(plan(recipes.SIMCLR_FINE_TUNED, bench.scale, 1))
    assert bench.key(wanted) != bench.key(wanted._replace(start=None))
    assert bench.key(wanted) != other_data.key(wanted)
    assert bench.key(wanted) == other_outliers.key(wanted)
    assert bench.key(exposed) != other_outliers.key(exposed)
    assert bench.key(wanted) == bench.key(wanted._replace(name="by another name"))


def test_a_missing_ood_set_leaves_its_column_out_and_says_so(toys: Toys) -> None:
    record = toys.records["paper-main"]
    assert "lsun" not in {column.of for column in record.columns}
    assert record.left_out == (
        "LSUN(F): no such images were given",
        "ImageNet(F): no such images were given",
    )


def test_without_outliers_the_row_of_outlier_exposure_is_left_out(toys: Toys) -> None:
    bench = replace(toys.bench, sets=replace(toys.bench.sets, outliers=None))
    filled = bench.fill(of_rows(TABLES["openood"], "Outlier Exposure", "MSP"))
    assert [row.names for row in filled.rows] == [("MSP",)]
    assert filled.left_out == ("Outlier Exposure: no outliers to train on were given",)


def test_averages_are_means_over_the_members_that_are_given(toys: Toys) -> None:
    for row in toys.records["openood"].rows:
        (result,) = row.results
        assert result.averages["near"].members == ("cifar100",)
        assert result.averages["far"].members == ("svhn", "textures")
        mean = (result.oods["svhn"].auroc + result.oods["textures"].auroc) / 2
        assert result.averages["far"].auroc == pytest.approx(mean)


def test_an_average_without_members_leaves_its_columns_out(tmp_path: Path) -> None:
    bench = toy_bench(tmp_path, Counting(), toy_sets("svhn"))
    filled = bench.fill(of_rows(TABLES["openood"], "MSP"))
    assert list(filled.rows[0].results[0].averages) == ["far"]
    assert "near: no such images were given" in filled.left_out


def test_openood_has_its_own_file_for_each_row(toys: Toys) -> None:
    path = toys.bench.folder / "openood" / "mcl-sei-seed0.csv"
    with path.open() as file:
        names = [line["dataset"] for line in csv.DictReader(file)]
    assert names == ["cifar100", "nearood", "svhn", "texture", "farood"]


def test_seeds_train_networks_of_their_own(tmp_path: Path) -> None:
    train = Counting()
    filled = toy_bench(tmp_path, train).fill(of_rows(TABLES["openood"], "MSP", "Energy"), seeds=2)
    assert len(train.trained) == 2
    assert [model.settings["seed"] for model in filled.models] == [0, 1]
    first, second = filled.rows[1].results
    assert first != second


def test_a_bench_without_ood_sets_is_refused(tmp_path: Path) -> None:
    sets = BenchImages(known(60, seed=0), sample(known(20, seed=1), None), {})
    with pytest.raises(DataError, match="0 OOD sets .* --ood NAME=SOURCE"):
        Bench(tmp_path, sets, toy_scale()).fill(TABLES["paper-sei"])


def test_an_ood_set_called_like_an_average_is_refused(tmp_path: Path) -> None:
    bench = toy_bench(tmp_path, Counting(), toy_sets("near"))
    with pytest.raises(SettingsError, match="near=.*choose another name"):
        bench.fill(TABLES["openood"])
