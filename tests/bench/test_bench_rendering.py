"""Records as tables in three formats, beside the paper."""

import csv
import io
from dataclasses import replace
from typing import Any

from benches import Toys
from rich.console import Console

from oddone.bench import Record, as_csv, as_markdown, for_terminal
from oddone.bench.rendering import captions


def with_numbers(record: Record, *accuracies: float, **metrics: float) -> Record:
    """Return a record whose rows all have these accuracies, one a seed, and metrics of svhn."""

    def result(old: dict[str, Any], accuracy: float) -> dict[str, Any]:
        oods = {name: {**ood, **metrics} for name, ood in old["oods"].items()}
        return {**old, "accuracy": accuracy, "oods": oods}

    rows = tuple(
        row._replace(results=tuple(result(row.results[0], share) for share in accuracies))
        for row in record.rows
    )
    return replace(record, rows=rows, seeds=len(accuracies))


def in_terminal(record: Record, width: int = 250) -> str:
    console = Console(width=width, color_system=None, file=io.StringIO())
    with console.capture() as captured:
        console.print(for_terminal([record]))
    return captured.get()


def lines_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_ours_and_the_papers_number_stand_side_by_side(toys: Toys) -> None:
    record = with_numbers(toys.records["paper-mcl"], 0.5, auroc=0.99)
    row = next(line for line in as_markdown([record]).splitlines() if line.startswith("| MCL |"))
    assert row == "| MCL | 50.00 ▼ (94.03) | 99.00 ▲ (91.12) | 99.00 | 99.00 |"


def test_a_low_false_positive_rate_is_the_better_one(toys: Toys) -> None:
    record = with_numbers(toys.records["paper-mcl-metrics"], 0.5, fpr_at_95_ind=0.1)
    lines = [line for line in lines_of(as_csv([record])) if line["metric"] == "fpr_at_95_ind"]
    assert {line["compared"] for line in lines} == {"better"}


def test_equal_at_the_papers_precision_is_the_same(toys: Toys) -> None:
    record = with_numbers(toys.records["paper-mcl"], 0.940_349)
    lines = [line for line in lines_of(as_csv([record])) if line["row"] == "MCL"]
    assert lines[0] | {"compared": "same", "paper": "94.03", "mean": "94.0349"} == lines[0]


def test_several_seeds_have_mean_and_spread(toys: Toys) -> None:
    record = with_numbers(toys.records["paper-main"], 0.90, 0.92, 0.94)
    assert "| Energy | 92.0 ± 2.0 |" in as_markdown([record])
    assert "92.0 ± 2.0" in in_terminal(record)
    assert lines_of(as_csv([record]))[0]["spread"] == "2.0000"
    assert any("mean ± standard deviation of 3 seeds" in line for line in captions(record))


def test_the_caption_states_the_scale_the_images_and_what_is_missing(toys: Toys) -> None:
    record = toys.records["paper-main"]
    record = replace(record, data={**record.data, "test": {**record.data["test"], "of": 10_000}})
    text = " ".join(captions(record))
    assert "Scale toy: a toy; one seed; on " in text
    assert "60 of 10 classes to train on, test images 20 of 10,000, SVHN 12" in text
    assert "compare the order of rows, not numbers" in text
    assert "Left out: LSUN(F): no such images were given." in text


def test_at_the_scale_of_the_paper_numbers_may_be_compared(toys: Toys) -> None:
    record = replace(toys.records["paper-main"], scale="paper")
    assert not any("compare the order of rows" in line for line in captions(record))


def test_a_table_without_numbers_of_the_paper_has_no_legend(toys: Toys) -> None:
    text = " ".join(captions(toys.records["openood"]))
    assert "paper" not in text
    assert "far: the mean of SVHN, textures." in text


def test_csv_has_a_line_for_every_number_of_all_records(toys: Toys) -> None:
    records = list(toys.records.values())
    lines = lines_of(as_csv(records))
    assert len(lines) == sum(len(record.rows) * len(record.columns) for record in records)
    assert {line["table"] for line in lines} == set(toys.records)


def test_test_images_without_labels_leave_accuracy_empty(toys: Toys) -> None:
    record = with_numbers(toys.records["openood"], None)  # type: ignore[arg-type]
    assert "| MSP |  |" in as_markdown([record])
    assert "accuracy" not in {line["metric"] for line in lines_of(as_csv([record]))}


def test_the_terminal_shows_every_row(toys: Toys) -> None:
    for record in toys.records.values():
        shown = in_terminal(record)
        for row in record.rows:
            assert row.names[0] in shown


def test_a_narrow_terminal_cuts_nothing_off(toys: Toys) -> None:
    assert "…" not in in_terminal(toys.records["paper-sei-metrics"], width=60)


def test_names_in_a_record_are_no_markup(toys: Toys) -> None:
    record = toys.records["paper-mcl"]
    row = record.rows[0]._replace(names=("<script>|",))
    text = as_markdown([replace(record, rows=(row,))])
    assert "<script>" not in text
    assert "&lt;script&gt;\\|" in text
