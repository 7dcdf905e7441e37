"""What another minute buys, and where curves cross."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from benches import Counting, Toys, toy_bench

from oddone.bench import Record, as_markdown, read_record, write_record
from oddone.bench.rendering import captions
from oddone.bench.scaling import Curve, CurvePoint, crossings, curves, findings, gain_per_doubling
from oddone.bench.tables import ACCURACY, MEAN_AUROC, scaling
from oddone.errors import ArtifactError, DataError
from oddone.files import lock_folder
from records import made_up_record


def curve(name: str, *points: tuple[float, float], spread: float | None = None) -> Curve:
    return Curve(
        name, tuple(CurvePoint(float(minutes), float(mean), spread) for minutes, mean in points)
    )


def found(one: Curve, other: Curve) -> list[tuple[str, str, float]]:
    return [(each.ahead, each.behind, each.minutes) for each in crossings(one, other)]


def test_a_record_gives_each_method_a_curve_with_mean_and_spread() -> None:
    record = made_up_record("scaling", "svhn", "textures", seeds=3)
    first, *_ = all_curves = curves(record, ACCURACY)
    assert [each.name for each in all_curves] == [
        "cross-entropy",
        "cross-entropy, rotation task",
        "SupCLR",
        "MCL + SEI",
        "MCL, upright views",
        "preset cpu",
    ]
    assert [point.minutes for point in first.points] == [1, 2, 5, 10, 20]
    assert first.points[0].mean == pytest.approx(65)  # of 60, 65 and 70
    assert first.points[0].spread == pytest.approx(5)
    assert curves(made_up_record("scaling"), ACCURACY)[0].points[0].spread is None


def test_the_mean_auroc_is_that_of_all_sets(toys: Toys) -> None:
    for row in toys.records["scaling"].rows:
        (result,) = row.results
        aurocs = [ood.auroc for ood in result.oods.values()]
        assert row.numbers(MEAN_AUROC) == [pytest.approx(100 * sum(aurocs) / len(aurocs))]


def test_a_doubling_is_a_doubling_wherever_it_begins() -> None:
    assert gain_per_doubling(CurvePoint(1, 60, None), CurvePoint(4, 70, None)) == 5
    assert gain_per_doubling(CurvePoint(10, 60, None), CurvePoint(20, 57, None)) == -3


def test_curves_cross_where_the_straight_lines_over_log_minutes_do() -> None:
    """Against a slow search along both lines."""
    one = curve("one", (1, 50), (5, 73), (20, 74))
    other = curve("other", (1, 60), (5, 66), (20, 80))

    def height(of: Curve, minutes: float) -> float:
        before, after = next(
            pair
            for pair in zip(of.points, of.points[1:], strict=False)
            if minutes <= pair[1].minutes
        )
        share = math.log(minutes / before.minutes) / math.log(after.minutes / before.minutes)
        return before.mean + share * (after.mean - before.mean)

    grid = [1.001**power for power in range(2990)]
    ahead = [height(one, minutes) > height(other, minutes) for minutes in grid]
    changes = [grid[place] for place in range(1, len(grid)) if ahead[place] != ahead[place - 1]]
    assert found(one, other) == [
        ("one", "other", pytest.approx(changes[0], rel=2e-3)),
        ("other", "one", pytest.approx(changes[1], rel=2e-3)),
    ]
    assert found(other, one) == found(one, other)


def test_curves_that_touch_do_not_cross_and_level_ones_cross_where_that_begins() -> None:
    flat = curve("flat", (1, 5), (2, 5), (4, 5), (8, 5))
    assert found(flat, curve("touching", (1, 3), (2, 5), (4, 4), (8, 3))) == []
    assert found(flat, flat._replace(name="same")) == []
    level = curve("level", (1, 3), (2, 5), (4, 5), (8, 6))
    assert found(flat, level) == [("level", "flat", 2)]


def test_only_minutes_that_both_have_are_compared() -> None:
    one = curve("one", (1, 3), (4, 7))
    assert found(one, curve("other", (1, 5), (2, 9), (4, 5))) == [("one", "other", 2)]
    assert found(one, curve("other", (2, 9))) == []


def test_a_crossing_is_clear_where_both_sides_are_further_apart_than_seeds() -> None:
    points = ((1, 50.0), (2, 60.0)), ((1, 52.0), (2, 58.0))
    for spread, clear in ((1.0, True), (1.5, False), (None, None)):
        one, other = (
            curve(name, *each, spread=spread)
            for name, each in zip(("one", "other"), points, strict=True)
        )
        (crossing,) = crossings(one, other)
        assert crossing.clear is clear


def with_accuracies(record: Record, shares: dict[str, tuple[float, ...]]) -> Record:
    """Return the record with these accuracies of methods, from the fewest minutes to the most."""
    given = {name: iter(each) for name, each in shares.items()}
    rows = tuple(
        replace(row, results=tuple(replace(each, accuracy=share) for each in row.results))
        for row in record.rows
        if row.names[0] in given
        for share in [next(given[row.names[0]])]
    )
    return replace(record, rows=rows)


def test_the_findings_are_sentences_below_the_table() -> None:
    record = with_accuracies(
        made_up_record("scaling"),
        {"SupCLR": (0.5, 0.6, 0.6, 0.62, 0.63), "MCL + SEI": (0.4, 0.5, 0.7, 0.71, 0.74)},
    )
    gains, crossed, _, crossed_by_auroc = findings(record)
    assert crossed_by_auroc == "By mean AUROC, no curves cross."
    assert gains == (
        "What a doubling of the minutes buys, points of accuracy: SupCLR +10.0 from 1 to 2 and "
        "+1.0 from 10 to 20 minutes (+0.10 a minute); MCL + SEI +10.0 from 1 to 2 and +3.0 from "
        "10 to 20 minutes (+0.30 a minute)."
    )
    assert crossed == ("By accuracy, MCL + SEI passes SupCLR at about 3.2 minutes (of one seed).")
    assert f"\n- {gains}\n" in as_markdown([record])
    assert "| MCL + SEI | 20 | 74.00 |" in as_markdown([record])


def test_one_length_has_nothing_to_tell_and_other_tables_neither() -> None:
    record = made_up_record("scaling")
    short = replace(record, rows=tuple(row for row in record.rows if row.minutes == 1))
    assert findings(short) == []
    assert findings(made_up_record("paper-sei")) == []


def test_budgets_are_steps_that_the_record_states(toys: Toys) -> None:
    record = toys.records["scaling"]
    assert {row.minutes for row in record.rows} == {1, 2}
    assert sorted({model.steps for model in record.models}) == [3, 6]
    for model in record.models:
        assert model.settings["steps"] == model.steps
        assert model.processor_minutes is not None


def test_more_minutes_and_seeds_train_only_what_is_new(tmp_path: Path) -> None:
    first, more = Counting(), Counting()
    small = scaling((1.0,))
    toy_bench(tmp_path, first).fill(small)
    filled = toy_bench(tmp_path, more).fill(scaling((1.0, 2.0)), seeds=2)
    assert len(first.trained) == 5
    assert len(more.trained) == 15
    assert not set(first.trained) & set(more.trained)
    assert all(len(row.results) == 2 for row in filled.rows)


def test_a_part_of_the_table_is_shown_with_what_is_there(tmp_path: Path) -> None:
    bench = toy_bench(tmp_path, Counting())
    with pytest.raises(DataError, match="none of the networks of scaling is trained yet"):
        bench.fill(scaling((1.0,)), train_missing=False)
    bench.fill(scaling((1.0,)))
    table = scaling((1.0, 2.0))
    train = Counting()
    filled = toy_bench(tmp_path, train).fill(table, seeds=2, train_missing=False)
    assert train.trained == []
    assert {row.names[1] for row in filled.rows} == {"1"}
    assert "MCL + SEI 1: seed 1 not trained yet" in filled.left_out
    assert "MCL + SEI 2: seeds 0, 1 not trained yet" in filled.left_out
    record = Record.of(table, bench.scale, 2, bench.sets, filled, command="oddone bench scaling")
    path = write_record(tmp_path, record)
    assert read_record(path) == record
    assert any("of up to 2 seeds" in line for line in captions(record))
    silent = write_record(tmp_path, replace(record, left_out=()))
    with pytest.raises(ArtifactError, match="has 1 results for 2 seeds"):
        read_record(silent)


def test_a_record_with_the_same_minutes_twice_or_none_is_refused(tmp_path: Path) -> None:
    record = made_up_record("scaling")
    first, second, *others = record.rows
    for changed, message in (
        (replace(second, minutes=first.minutes), "two of its rows are the same"),
        (replace(second, minutes=None), "does not say its minutes"),
    ):
        path = write_record(tmp_path, replace(record, rows=(first, changed, *others)))
        with pytest.raises(ArtifactError, match=message):
            read_record(path)


def test_a_network_that_another_process_trains_is_left_out_for_now(tmp_path: Path) -> None:
    bench = toy_bench(tmp_path, Counting())
    table = scaling((1.0,))
    bench.fill(scaling((2.0,)))  # what a step costs is known
    row = next(row for row in table.rows if row.names[0] == "SupCLR")
    wanted = bench.in_steps(bench.planned(row, 0))
    assert wanted is not None
    run = bench.run_of(wanted)
    run.path.mkdir(parents=True)
    with lock_folder(run.path):
        filled = bench.fill(table)
    assert len(filled.rows) == 5
    assert filled.left_out[-1] == "SupCLR 1: seed 0 not trained yet"
    assert len(bench.fill(table).rows) == 6


def test_minutes_of_fitting_a_detector_are_not_silent(tmp_path: Path) -> None:
    table = scaling((1.0,))
    upright = replace(
        table, rows=tuple(row for row in table.rows if row.names[0] == "MCL, upright views")
    )
    told: set[str] = set()
    bench = toy_bench(tmp_path, Counting())
    replace(bench, progress=lambda _done, _total, what: told.add(what)).fill(upright)
    assert "fitting" in told
