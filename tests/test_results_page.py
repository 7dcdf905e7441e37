"""The page docs/results.md: what it says of records, and that it is what the records say."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

import results_page
from oddone.bench import TABLES, Record, write_record
from oddone.bench.record import NetworkRecord, RowRecord
from oddone.bench.tables import Column
from records import made_up_record, with_classes
from results_page import ORDERINGS, Compared, Ordering, compare, compared, page, summary, verdict

Aurocs = Mapping[tuple[str, ...], tuple[float, ...]]
"""Of a row, one for each OOD set."""

TASK = next(each for each in ORDERINGS if each.name == "rotation task above none (one view)")
SEI = next(each for each in ORDERINGS if each.name == "SEI above one view (MCL)")
OODS = ("svhn", "cifar100", "textures")


def made_up(table: str, aurocs: Aurocs | None = None, oods: tuple[str, ...] = OODS) -> Record:
    """Return a record in which a row has these AUROCs, and 0.5 unless said."""

    record = made_up_record(table, *oods)

    def measured(row: RowRecord) -> RowRecord:
        shares = (aurocs or {}).get(row.names, (0.5,) * len(oods))
        (result,) = row.results
        changed = {
            name: replace(result.oods[name], auroc=share)
            for name, share in zip(oods, shares, strict=True)
        }
        return replace(row, results=(replace(result, accuracy=0.5, oods=changed),))

    return replace(
        record,
        models=(NetworkRecord("key of MCL", "MCL", None, {"seed": 0}, 4_321, 7.01),),
        rows=tuple(map(measured, record.rows)),
    )


def found(ordering: Ordering, *better: float, oods: tuple[str, ...] = OODS) -> Compared:
    """Return an ordering whose worse row has 0.5 everywhere."""
    return compare(ordering, made_up(ordering.table, {ordering.better: better}, oods))


def test_the_page_says_what_the_records_say() -> None:
    records = results_page.newest_records(results_page.RESULTS)
    if not records:
        assert not results_page.PAGE.exists(), "docs/results.md has no record of oddone bench"
        return
    assert results_page.PAGE.is_file(), f"run {results_page.COMMAND}"
    same = results_page.PAGE.read_text() == page(records)
    assert same, f"docs/results.md is not what the records say; run {results_page.COMMAND}"


@pytest.mark.parametrize("ordering", ORDERINGS, ids=lambda ordering: ordering.name)
def test_every_ordering_is_one_of_the_papers(ordering: Ordering) -> None:
    table, column = TABLES[ordering.table], Column("auroc", "cifar100")
    better, worse = (table.paper_number(row, column) for row in (ordering.better, ordering.worse))
    assert better is not None
    assert worse is not None
    assert better > worse
    assert ordering.claim in results_page.CLAIMS


def test_an_ordering_holds_where_all_sets_say_so() -> None:
    assert verdict(found(TASK, 0.6, 0.53, 0.52)) == "holds on all 3 OOD sets"


def test_further_ood_sets_count_too() -> None:
    oods = (*OODS, "scenes")
    assert verdict(found(TASK, 0.6, 0.6, 0.6, 0.6, oods=oods)) == "holds on all 4 OOD sets"
    assert verdict(found(TASK, 0.6, 0.6, 0.6, 0.4, oods=oods)) == "holds on 3 of 4, reversed on 1"


def test_an_ordering_does_not_hold_where_no_set_says_so_and_one_the_opposite() -> None:
    assert verdict(found(TASK, 0.5, 0.51, 0.48)) == "does not hold, reversed on 1 of 3"


def test_an_ordering_holds_in_part_where_sets_disagree_or_are_too_close() -> None:
    assert verdict(found(TASK, 0.6, 0.6, 0.4)) == "holds on 2 of 3, reversed on 1"
    assert verdict(found(TASK, 0.6, 0.5, 0.5)) == "holds on 1 of 3, reversed on none"


def test_differences_of_two_networks_under_two_points_are_too_close_to_tell() -> None:
    assert verdict(found(TASK, 0.519, 0.481, 0.5)) == "too close to tell"


def test_half_a_point_counts_where_one_network_judges_in_two_ways() -> None:
    assert verdict(found(SEI, 0.505, 0.505, 0.505)) == "holds on all 3 OOD sets"
    assert verdict(found(SEI, 0.504, 0.496, 0.5)) == "too close to tell"


def test_the_table_has_the_papers_differences_beside_ours() -> None:
    row = next(
        line
        for line in results_page.differences([found(TASK, 0.6, 0.519, 0.4996)]).splitlines()
        if line.startswith(f"| {TASK.name} ")
    )
    numbers = "-0.32 | +0.63 | +0.0 ≈ | +10.0 | +1.9 ≈ | +0.0 ≈"
    assert row == f"| {TASK.name} | {numbers} | holds on 1 of 3, reversed on none |"


def test_numbers_of_several_seeds_are_compared_by_their_means() -> None:
    low, high = (made_up("paper-mcl", {("MCL",): (share,) * 3}) for share in (0.5, 0.6))
    rows = tuple(
        replace(one, results=one.results + other.results)
        for one, other in zip(low.rows, high.rows, strict=True)
    )
    record = replace(low, seeds=2, rows=rows)
    assert compare(TASK, record).aurocs == dict.fromkeys(OODS, 5.0)
    assert "mean of 2 seeds" in page({"record.json": record})


def test_test_images_without_labels_leave_accuracy_empty() -> None:
    record = made_up("paper-mcl")
    rows = tuple(
        replace(row, results=(replace(row.results[0], accuracy=None),)) for row in record.rows
    )
    assert "| +0.63 |  | +0.0 ≈ |" in page({"record.json": replace(record, rows=rows)})


def test_other_classes_than_the_papers_are_not_compared_with_it() -> None:
    record = with_classes(made_up("paper-mcl"), "boot", "shirt")
    assert compare(TASK, record).paper == ("", "")
    assert "50,000 images of 2 classes" in page({"record.json": record})


def test_the_summary_names_each_ordering_once_under_what_became_of_it() -> None:
    text = summary([found(TASK, 0.6, 0.6, 0.6), found(SEI, 0.4, 0.4, 0.4)])
    assert text == (
        f"**1 of 2 hold on all OOD sets:** {TASK.name}.\n\n**1 of 2 do not hold:** {SEI.name}."
    )


def test_a_table_without_a_record_is_left_out() -> None:
    records = [made_up("paper-mcl"), made_up("openood")]
    assert {each.ordering.table for each in compared(records)} == {"paper-mcl"}
    text = page({"record.json": records[0]})
    assert "SPA above none" in text
    assert "MCL above SupCLR" not in text.split("## The tables")[0]
    assert "oddone bench paper-sei" not in text


def test_ood_sets_that_one_table_lacks_are_empty_there() -> None:
    fewer = made_up("paper-sei", oods=("svhn",))
    text = page({"one.json": made_up("paper-mcl"), "other.json": fewer})
    assert "| SEI above one view (MCL) | +2.40 | +2.94 | +0.0 ≈ | +0.0 ≈ |  |  |" in text


def test_the_page_tells_how_it_was_measured() -> None:
    record = made_up("paper-mcl")
    text = page({"record.json": record, "other.json": made_up("paper-mcl-metrics")})
    for fact in (
        "50,000 images of CIFAR-10",
        "SVHN (1,000 of 10,000 images), CIFAR-100 (1,000 of 10,000 images), textures (1,000",
        "**Networks:** a small network\n",
        "**Seeds:** one seed\n",
        "**Machine:** 2 threads of Abacus\n",
        "**Dates:** 2026-11-16\n",
        "[record.json](../results/record.json)",
        f"```sh\n{record.command}\n{record.command.replace('mcl', 'mcl-metrics')}\n```",
    ):
        assert fact in text
    assert text.count("| MCL |  | 0 | 7.0 |  | 4,321 |") == 1


def test_a_table_that_was_filled_without_training_is_made_again_with_it() -> None:
    record = made_up("paper-mcl")
    filled = replace(record, command=f"{record.command} --no-train")
    text = page({"record.json": filled})
    assert f"Command: `{filled.command}`" in text
    assert f"```sh\n{record.command}\n```" in text


def test_a_fine_tuned_network_names_what_it_started_from() -> None:
    record = made_up("paper-mcl")
    tuned = NetworkRecord("other key", "MCL, fine-tuned", "key of MCL", {"seed": 0}, 99, 3.5, 6.9)
    text = results_page.networks([replace(record, models=(*record.models, tuned))])
    assert text.endswith("| MCL, fine-tuned | MCL | 0 | 3.5 | 6.9 | 99 |")


def test_the_newest_record_of_each_table_is_shown_in_the_order_of_tables(tmp_path: Path) -> None:
    later = replace(made_up("paper-mcl"), date="2026-12-01T00:00:00+00:00")
    for record in (later, made_up("paper-mcl"), made_up("paper-main"), made_up("openood")):
        write_record(tmp_path, record)
    write_record(tmp_path, replace(made_up("paper-sei"), scale="paper"))
    assert list(results_page.newest_records(tmp_path).items()) == [
        ("2026-11-16-010203-bench-paper-main-cpu.json", made_up("paper-main")),
        ("2026-12-01-000000-bench-paper-mcl-cpu.json", later),
        ("2026-11-16-010203-bench-openood-cpu.json", made_up("openood")),
    ]


def test_a_page_is_written_only_where_there_are_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results_page, "RESULTS", tmp_path)
    monkeypatch.setattr(results_page, "PAGE", tmp_path / "results.md")
    with pytest.raises(SystemExit, match="has no record of oddone bench"):
        results_page.main()
    write_record(tmp_path, made_up("paper-mcl"))
    results_page.main()
    assert results_page.PAGE.read_text() == page(results_page.newest_records(tmp_path))


def test_methods_by_minutes_have_a_section_and_a_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results_page, "RESULTS", tmp_path)
    monkeypatch.setattr(results_page, "PAGE", tmp_path / "results.md")
    monkeypatch.setattr(results_page, "PICTURE", tmp_path / "images" / "scaling.svg")
    write_record(tmp_path, replace(made_up_record("scaling", seeds=3), models=()))
    write_record(tmp_path, made_up("paper-mcl"))
    results_page.main()
    text = results_page.PAGE.read_text()
    assert "## What another minute buys\n\n![Curves over minutes" in text
    assert "\n\n![Curves over minutes. The highest" in text
    assert "](images/scaling.svg)" in text
    assert "- What a doubling of the minutes buys, points of accuracy: cross-entropy +1.0" in text
    assert "- By accuracy, no curves cross." in text
    assert "### oddone bench scaling" in text
    assert b"prefers-color-scheme" in results_page.PICTURE.read_bytes()


def test_without_methods_by_minutes_there_is_no_section_on_them() -> None:
    assert "another minute" not in page({"record.json": made_up("paper-mcl")})


def test_tables_that_are_older_than_the_recipes_are_named() -> None:
    today = replace(made_up("paper-aux"), scale_words="poolnet-wide and 5 minutes")
    assert "Older than the recipes" not in page({"a": today})
    both = page({"a": today, "b": made_up("paper-sei"), "c": made_up("paper-mcl")})
    assert "**Older than the recipes:** paper-sei, paper-mcl. There every method" in both


def test_a_newer_record_stands_for_its_table_unless_it_has_fewer_rows(tmp_path: Path) -> None:
    whole = made_up("paper-aux")
    part = replace(whole, rows=whole.rows[:2])
    for day, record in ((16, whole), (17, whole), (18, part)):
        name = f"2026-11-{day}-010203-bench-paper-aux-cpu.json"
        write_record(tmp_path, record).rename(tmp_path / name)
    (chosen,) = results_page.newest_records(tmp_path)
    assert chosen.startswith("2026-11-17")
