"""Numbers of earlier records are taken over: the same networks, to the step, on the same images."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from benches import (
    SECONDS_PER_STEP,
    TOY_TABLES,
    TRAINING,
    Counting,
    known,
    odd,
    toy_bench,
    toy_sets,
)

from oddone.bench import Bench, BenchImages, Record, Table, read_record, sample, write_record
from oddone.bench.earlier import EarlierRecords
from oddone.bench.rendering import captions
from oddone.bench.tables import scaling
from oddone.errors import DataError, SettingsError
from oddone.provenance import Machine
from records import made_up_record

METHODS = ("cross-entropy", "MCL + SEI", "MCL, upright views")


def by_minutes(*minutes: float) -> Table:
    """Return the table of two networks, one of which two rows score by."""
    table = scaling(minutes)
    return replace(table, rows=tuple(row for row in table.rows if row.names[0] in METHODS))


ONE_MINUTE, TWO_MINUTES = by_minutes(1.0), by_minutes(1.0, 2.0)


def never_measured(*_: object) -> float:
    raise AssertionError("a step was measured whose cost an earlier record says")


def filled_by(bench: Bench, table: Table, seeds: int = 1) -> Record:
    filled = bench.fill(table, seeds)
    return Record.of(table, bench.scale, seeds, bench.sets, filled, command="oddone bench scaling")


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Record:
    """Return a record of one minute and one seed, of another machine."""
    folder = tmp_path_factory.mktemp("first")
    record = filled_by(toy_bench(folder, Counting()), ONE_MINUTE)
    record = replace(record, machine=Machine("Linux", "Abacus", threads=1, gpu=None))
    return read_record(write_record(folder, record))


def going_on(folder: Path, train: Counting, *records: Record) -> Bench:
    """Return a bench that takes over what records say, and may not measure a step."""
    bench = toy_bench(folder, train)
    return replace(bench, measure=never_measured, earlier=EarlierRecords(records))


def test_only_what_is_new_is_trained_and_all_is_as_if_one_had_done_it(
    first: Record, tmp_path: Path
) -> None:
    train = Counting()
    record = filled_by(going_on(tmp_path / "second", train, first), TWO_MINUTES, seeds=2)
    assert len(train.trained) == 6
    alone = filled_by(toy_bench(tmp_path / "alone", Counting()), TWO_MINUTES, seeds=2)
    assert record.rows == alone.rows
    assert {model.key for model in record.models} == {model.key for model in alone.models}
    assert {model.step_seconds for model in record.models} == {SECONDS_PER_STEP}
    assert all(len(row.keys) == 2 for row in record.rows)


def test_a_record_says_where_its_numbers_come_from_however_long_ago(
    first: Record, tmp_path: Path
) -> None:
    second = filled_by(going_on(tmp_path, Counting(), first), ONE_MINUTE)
    (origin,) = second.earlier
    assert (origin.date, origin.command, origin.machine) == (
        first.date,
        first.command,
        first.machine,
    )
    train = Counting()
    third = filled_by(going_on(tmp_path, train, second), ONE_MINUTE)
    assert train.trained == []
    assert third.rows == first.rows
    assert third.earlier[0] == origin
    assert len(third.earlier) == 2
    assert third.machines.endswith("; 1 thread of Abacus")
    assert f"With numbers of earlier records ({first.date[:10]})." in captions(second)
    assert read_record(write_record(tmp_path, third)) == third


def test_a_record_that_no_number_was_taken_from_is_not_named(first: Record, tmp_path: Path) -> None:
    strangers = tuple(replace(row, keys=("another network",)) for row in first.rows)
    bench = going_on(tmp_path, Counting(), replace(first, rows=strangers))
    record = filled_by(bench, ONE_MINUTE)
    assert record.earlier == ()
    assert "earlier records" not in captions(record)
    again = replace(first, date="2026-01-01T00:00:00+00:00")
    record = filled_by(going_on(tmp_path, Counting(), first, again), ONE_MINUTE)
    assert [origin.date for origin in record.earlier] == [first.date]


def test_networks_that_others_were_started_from_come_along(tmp_path: Path) -> None:
    whole = TOY_TABLES["paper-mcl"]
    table = replace(whole, rows=tuple(row for row in whole.rows if row.recipe.start is not None))
    before = filled_by(toy_bench(tmp_path / "first", Counting()), table)
    train = Counting()
    after = filled_by(going_on(tmp_path / "second", train, before), table)
    assert train.trained == []
    assert after.models == before.models


def test_what_was_taken_over_is_announced(first: Record, tmp_path: Path) -> None:
    said: list[str] = []
    bench = replace(going_on(tmp_path, Counting(), first), announce=said.append)
    bench.fill(TWO_MINUTES, train_missing=False)
    assert said == ["taken over from earlier records: 3 of 6 results"]


def other_training(sets: BenchImages) -> BenchImages:
    return replace(sets, training=known(TRAINING, seed=7))


def other_test(sets: BenchImages) -> BenchImages:
    return replace(sets, test=sample(sets.test.of, 8))


def other_odd(sets: BenchImages) -> BenchImages:
    return replace(sets, oods={**sets.oods, "svhn": sample(odd(13, 2), None)})


def another_set(sets: BenchImages) -> BenchImages:
    return replace(sets, oods={**sets.oods, "scenes": sample(odd(12, 7), None)})


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (other_training, "training images"),
        (other_test, "test images"),
        (other_odd, "svhn"),
        (another_set, "scenes"),
    ],
)
def test_numbers_of_other_images_are_refused(
    first: Record, tmp_path: Path, change: Callable[[BenchImages], BenchImages], named: str
) -> None:
    path = write_record(tmp_path, first)
    assert EarlierRecords.read([path], ONE_MINUTE, toy_sets()).records == (first,)
    with pytest.raises(DataError, match=rf"other images \({named}\); give the same"):
        EarlierRecords.read([path], ONE_MINUTE, change(toy_sets()))


def test_another_table_has_the_numbers_of_what_it_shares(tmp_path: Path) -> None:
    """MCL with SEI is a row of both, and what paper-aux calls MCL + Aux is the same network."""
    main, aux = (
        replace(table, rows=tuple(row for row in table.rows if row.recipe.name == "MCL"))
        for table in (TOY_TABLES["paper-main"], TOY_TABLES["paper-aux"])
    )
    before = filled_by(toy_bench(tmp_path, Counting()), main)
    bench = going_on(tmp_path, Counting(), before)
    said: list[str] = []
    after = filled_by(replace(bench, announce=said.append), aux)
    assert said[0] == "taken over from earlier records: 1 of 2 results"
    alone = filled_by(toy_bench(tmp_path, Counting()), aux)
    assert after.rows == alone.rows
    assert len(after.models) == 1


def test_records_with_other_averages_or_of_unknown_networks_are_refused(tmp_path: Path) -> None:
    path = write_record(tmp_path, made_up_record("paper-sei"))
    with pytest.raises(SettingsError, match="paper-sei has not the same averages .* as scaling"):
        EarlierRecords.read([path], ONE_MINUTE, toy_sets())
    path = write_record(tmp_path, made_up_record("scaling"))
    with pytest.raises(DataError, match="does not say which networks"):
        EarlierRecords.read([path], ONE_MINUTE, toy_sets())


def test_minutes_of_two_kinds_are_refused(first: Record, tmp_path: Path) -> None:
    slower = replace(first, models=tuple(replace(each, step_seconds=60.0) for each in first.models))
    with pytest.raises(SettingsError, match="measured 40 and 60 seconds for a step of"):
        going_on(tmp_path / "both", Counting(), first, slower).fill(ONE_MINUTE)
    toy_bench(tmp_path / "measured", Counting()).fill(ONE_MINUTE)
    with pytest.raises(SettingsError, match=r"costs 40 seconds, and the earlier record of .* 60"):
        going_on(tmp_path / "measured", Counting(), slower).fill(ONE_MINUTE)
