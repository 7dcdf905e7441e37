"""What a report tells of a record of `oddone bench`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from oddone.bench import TABLES, Record
from oddone.bench.record import RowRecord
from oddone.bench.rendering import CLASSES, Cell, captions, cells_of
from oddone.bench.tables import ACCURACY, METRIC_NAMES, OOD_NAMES, Column
from oddone.cli.terminal import counted
from oddone.report.comparison import SEPARATOR, Comparison, Measure, Method, Number, Printed
from oddone.report.figures import illustrate_comparison, illustrate_losses
from oddone.report.record_page import Network, RecordChapter
from oddone.training import RunDirectory


def chapter_of(name: str, record: Record, folder: Path) -> RecordChapter:
    """Return the chapter on a record in a folder, in which its networks may lie too."""
    comparison = _comparison(record)
    illustrations = [illustrate_comparison(comparison)]
    histories = _histories(record, folder)
    if histories:
        illustrations.append(illustrate_losses(histories))
    return RecordChapter(
        name,
        _lead(record),
        comparison,
        captions(record),
        illustrations,
        _networks(record),
        _origin(record),
    )


def _lead(record: Record) -> str:
    """Return how large the table is, and its best row by the mean AUROC over OOD sets."""
    training, test = record.data.training, record.data.test
    words = (
        f"compares {counted(len(record.rows), 'method', 'methods')} at the scale {record.scale}, "
        f"trained on {training.images:,} images of {len(training.classes):,} classes."
    )
    columns = [Column("auroc", name) for name in record.data.oods]
    if not columns:
        return words
    best = max(record.rows, key=lambda row: fmean(_means(row, columns)))
    means = _means(best, columns)
    aurocs = [f"{_images(column)} {mean:.1f}%" for column, mean in zip(columns, means, strict=True)]
    name = SEPARATOR.join(best.names)
    words += f" Best by mean AUROC is {name} with {fmean(means):.1f}%: {', '.join(aurocs)}."
    accuracies = best.numbers(ACCURACY)
    if accuracies:
        words += f" It names {fmean(accuracies):.1f}% of {test.images:,} test images correctly."
    return words


def _means(row: RowRecord, columns: Sequence[Column]) -> list[float]:
    return [fmean(row.numbers(column)) for column in columns]


def _comparison(record: Record) -> Comparison:
    columns = record.columns
    return Comparison(
        TABLES[record.table].headings,
        [
            Measure(_images(column), METRIC_NAMES[column.metric], column.lower_is_better)
            for column in columns
        ],
        [
            Method(
                row.names,
                [
                    _number(record, row, column, cell)
                    for column, cell in zip(columns, cells_of(record, row), strict=True)
                ],
            )
            for row in record.rows
        ],
    )


def _number(record: Record, row: RowRecord, column: Column, cell: Cell) -> Number | None:
    numbers, paper = row.numbers(column), record.paper_number(row, column)
    if not numbers:
        return None
    return Number(
        fmean(numbers),
        cell.ours,
        stdev(numbers) if len(numbers) > 1 else None,
        None if paper is None else Printed(paper, f"{cell.mark} {cell.paper}", CLASSES[cell.mark]),
    )


def _images(column: Column) -> str:
    """Return what the images of a column are called."""
    return "test images" if column.of is None else OOD_NAMES.get(column.of, column.of)


def _histories(record: Record, folder: Path) -> dict[str, list[Sequence[Mapping[str, Any]]]]:
    """Return by name what the networks wrote down of each step, of those that are still there."""
    # What is there is listed, as a key may come from somebody else and lead elsewhere.
    runs = {path.name: RunDirectory(path) for path in folder.glob("models/*")}
    histories: dict[str, list[Sequence[Mapping[str, Any]]]] = {}
    for model in record.models:
        history = list(runs[model.key].history()) if model.key in runs else []
        if history:
            histories.setdefault(model.name, []).append(history)
    return histories


def _networks(record: Record) -> list[Network]:
    names = {model.key: model.name for model in record.models}
    return [
        Network(
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
    threads = counted(machine.threads, "thread", "threads")
    parts = [machine.gpu, f"{threads} of {machine.processor}", machine.system]
    return {
        "Command": record.command,
        "Date": record.date,
        "Machine": ", ".join(filter(None, parts)),
        "Versions": ", ".join(f"{name} {version}" for name, version in record.versions.items()),
    }
