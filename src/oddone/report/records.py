"""The chapters of a report on records of `oddone bench`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from oddone.bench import TABLES, Record, read_record
from oddone.bench.record import RowRecord
from oddone.bench.rendering import COMPARED, Cell, captions, cells_of
from oddone.bench.scaling import findings
from oddone.bench.tables import ACCURACY, METRIC_NAMES, OOD_NAMES, Column
from oddone.report.comparison import (
    SEPARATOR,
    Comparison,
    Measure,
    MeasuredNumber,
    MethodRow,
    PaperNumber,
)
from oddone.report.figures import illustrate_comparison, illustrate_losses, illustrate_scaling
from oddone.report.record_page import NetworkRow, RecordChapter
from oddone.training import RunDirectory
from oddone.wording import distinct_names


def record_chapters(paths: Sequence[Path]) -> list[RecordChapter]:
    """Return a chapter on each record, called by its table, or by its path if two have the same.

    How the networks were trained is shown if they still lie beside the record.
    """
    records = [read_record(path) for path in paths]
    names = distinct_names([record.table for record in records], paths)
    return list(map(_chapter, names, paths, records))


def _chapter(name: str, path: Path, record: Record) -> RecordChapter:
    comparison = _comparison(record)
    by_minutes = TABLES[record.table].rows[0].minutes is not None
    illustrations = [
        illustrate_scaling(record) if by_minutes else illustrate_comparison(comparison)
    ]
    histories = _training_histories(record, path.parent)
    if histories:
        illustrations.append(illustrate_losses(histories))
    return RecordChapter(
        name,
        path.name,
        _lead(record),
        comparison,
        [*captions(record), *findings(record)],
        illustrations,
        _network_rows(record),
        _origin(record),
    )


def _lead(record: Record) -> str:
    """Return how large the table is, and its best row by the mean AUROC over OOD sets."""
    training, test = record.data.training, record.data.test
    methods = {row.names if row.minutes is None else row.names[0] for row in record.rows}
    words = (
        f"compares {_count(len(methods), 'method')} at the scale {record.scale}, "
        f"trained on {training.images:,} images of {len(training.classes):,} classes."
    )
    columns = [Column("auroc", name) for name in record.data.oods]
    if not columns:
        return words
    best = max(record.rows, key=lambda row: fmean(_means(row, columns)))
    means = _means(best, columns)
    aurocs = [
        f"{_set_name(column)} {mean:.1f}%" for column, mean in zip(columns, means, strict=True)
    ]
    name = _name_in_words(best)
    words += f" Best by mean AUROC is {name} with {fmean(means):.1f}%: {', '.join(aurocs)}."
    accuracies = best.numbers(ACCURACY)
    if accuracies:
        words += f" It names {fmean(accuracies):.1f}% of {test.images:,} test images correctly."
    return words


def _name_in_words(row: RowRecord) -> str:
    """Return what a row is called in a sentence: without the dashes and numbers of a table."""
    if row.minutes is not None:
        plural = "" if row.minutes == 1 else "s"
        return f"{row.names[0]} after {row.minutes:g} minute{plural}"
    return SEPARATOR.join(name for name in row.names if name != "-")


def _means(row: RowRecord, columns: Sequence[Column]) -> list[float]:
    return [fmean(row.numbers(column)) for column in columns]


def _comparison(record: Record) -> Comparison:
    columns = record.columns
    return Comparison(
        TABLES[record.table].headings,
        [
            Measure(_set_name(column), METRIC_NAMES[column.metric], column.lower_is_better)
            for column in columns
        ],
        [
            MethodRow(
                row.names,
                [
                    _number(record, row, column, cell)
                    for column, cell in zip(columns, cells_of(record, row), strict=True)
                ],
            )
            for row in record.rows
        ],
    )


def _number(record: Record, row: RowRecord, column: Column, cell: Cell) -> MeasuredNumber | None:
    numbers, paper = row.numbers(column), record.paper_number(row, column)
    if not numbers:
        return None
    return MeasuredNumber(
        fmean(numbers),
        cell.ours,
        stdev(numbers) if len(numbers) > 1 else None,
        None
        if paper is None
        else PaperNumber(paper, f"{cell.mark} {cell.paper}", COMPARED[cell.mark]),
    )


def _set_name(column: Column) -> str:
    """Return what the images of a column are called: the test images, or an OOD set."""
    return "test images" if column.of is None else OOD_NAMES.get(column.of, column.of)


def _training_histories(
    record: Record, folder: Path
) -> dict[str, list[Sequence[Mapping[str, Any]]]]:
    """Return the histories of the networks that are still there, by name."""
    # Only folders that are there are opened: a key may be a path that leads elsewhere.
    runs = {path.name: RunDirectory(path) for path in folder.glob("models/*")}
    histories: dict[str, list[Sequence[Mapping[str, Any]]]] = {}
    for model in record.models:
        history = list(runs[model.key].history()) if model.key in runs else []
        if history:
            histories.setdefault(model.name, []).append(history)
    return histories


def _network_rows(record: Record) -> list[NetworkRow]:
    names = {model.key: model.name for model in record.models}
    return [
        NetworkRow(
            model.name,
            names.get(model.start, model.start) if model.start else "",
            model.steps,
            model.minutes,
            f"models/{model.key}",
        )
        for model in record.models
    ]


def _origin(record: Record) -> dict[str, str]:
    machine = record.machine
    threads = _count(machine.threads, "thread")
    parts = [machine.gpu, f"{threads} of {machine.processor}", machine.system]
    return {
        "Command": record.command,
        "Date": record.date,
        "Machine": ", ".join(filter(None, parts)),
        "Versions": ", ".join(f"{name} {version}" for name, version in record.versions.items()),
    }


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"
