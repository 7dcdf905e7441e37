"""Records as tables: for the terminal, as Markdown and as CSV. `oddone.report` makes HTML."""

import csv
import html
import io
import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.console import Group, JustifyMethod, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from oddone.bench.record import Record, RowRecord
from oddone.bench.scaling import findings
from oddone.bench.sets import TEST
from oddone.bench.tables import OOD_NAMES, TABLES, Column

BETTER, WORSE, SAME = "▲", "▼", "="
LEGEND = f"{BETTER} better, {WORSE} worse, {SAME} the same as the paper's number, which follows."
OTHER_SCALE = (
    "The paper trained larger networks for longer: compare the order of rows, not numbers."
)
STYLES = {BETTER: "green", WORSE: "dark_orange", SAME: "dim"}

CSV_HEADINGS = (
    *("table", "scale", "date", "row", "model", "scoring", "set", "metric"),
    *("mean", "spread", "seeds", "paper", "compared"),
)

COMPARED = {BETTER: "better", WORSE: "worse", SAME: "same"}
"""What a mark says of our number beside the paper's."""


class Cell(NamedTuple):
    """Our number and the paper's, as they are shown."""

    ours: str
    mark: str = ""
    """How ours compares, where the paper has one."""
    paper: str = ""


def captions(record: Record) -> list[str]:
    """Return what a reader has to know of the numbers, a sentence each."""
    table = TABLES[record.table]
    partly = any(len(row.results) < record.seeds for row in record.rows)
    seeds = f"mean ± standard deviation of {'up to ' * partly}{record.seeds} seeds"
    seeds = "one seed" if record.seeds == 1 else seeds
    lines = [
        f"{table.title}, in percent.",
        f"Scale {record.scale}: {record.scale_words}; {seeds}; on {record.machines}.",
        f"Images: {_counts(record)}.",
    ]
    averages = record.rows[0].results[0].averages
    lines += [f"{name}: the mean of {_listed(averages[name].members)}." for name in averages]
    if any(cell.mark for row in record.rows for cell in cells_of(record, row)):
        lines.append(LEGEND if record.scale == "paper" else f"{LEGEND} {OTHER_SCALE}")
    lines += [table.note] if table.note else []
    if record.earlier:
        dates = ", ".join(dict.fromkeys(each.date[:10] for each in record.earlier))
        lines.append(f"With numbers of earlier records ({dates}).")
    return lines + [f"Left out: {reason}." for reason in record.left_out]


def _counts(record: Record) -> str:
    training = record.data.training
    sets = {TEST: record.data.test} | record.data.oods
    counts = [f"{training.images:,} of {len(training.classes)} classes to train on"]
    for name, about in sets.items():
        some = f" of {about.of:,}" if about.images < about.of else ""
        counts.append(f"{OOD_NAMES.get(name, name)} {about.images:,}{some}")
    return ", ".join(counts)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(OOD_NAMES.get(name, name) for name in names)


def for_terminal(records: Sequence[Record]) -> RenderableType:
    """Return the records as tables for a terminal."""
    return Group(*(part for record in records for part in _terminal_parts(record)))


def as_markdown(records: Sequence[Record]) -> str:
    """Return the records as Markdown."""
    return "\n".join(_markdown(record) for record in records)


def as_csv(records: Sequence[Record]) -> str:
    """Return the records as one CSV: a line for each number."""
    file = io.StringIO()
    lines = csv.writer(file)
    lines.writerow(CSV_HEADINGS)
    for record in records:
        for row in record.rows:
            for column in record.columns:
                numbers = row.numbers(column)
                if numbers:
                    lines.writerow(_csv_line(record, row, column, numbers))
    return file.getvalue()


def cells_of(record: Record, row: RowRecord) -> list[Cell]:
    """Return the numbers of a row, one for each of the record's columns."""
    return [_cell(record, row, column) for column in record.columns]


def _cell(record: Record, row: RowRecord, column: Column) -> Cell:
    table = TABLES[record.table]
    numbers = row.numbers(column)
    if not numbers:
        return Cell("")
    mean, paper = statistics.fmean(numbers), record.paper_number(row, column)
    ours = f"{mean:.{table.decimals}f}"
    if len(numbers) > 1:
        ours += f" ± {statistics.stdev(numbers):.{table.decimals}f}"
    if paper is None:
        return Cell(ours)
    mark = _compared(mean, paper, column, table.decimals)
    return Cell(ours, mark, f"{paper:.{table.decimals}f}")


def _compared(ours: float, paper: float, column: Column, decimals: int) -> str:
    """Return whether our number is better, at the precision of the paper."""
    above = round(ours, decimals) - paper
    if abs(above) < 10**-decimals / 2:
        return SAME
    return BETTER if (above > 0) != column.lower_is_better else WORSE


def _headings(record: Record) -> list[str]:
    return [*TABLES[record.table].headings, *(column.title for column in record.columns)]


def _terminal_parts(record: Record) -> Iterable[RenderableType]:
    shown = RichTable(title=f"oddone bench {record.table}", title_justify="left")
    for number, heading in enumerate(_headings(record)):
        is_name = number < len(TABLES[record.table].headings)
        justify: JustifyMethod = "left" if is_name else "right"
        shown.add_column(heading, justify=justify, overflow="fold")  # cut nothing off
    for row in record.rows:
        cells = [
            Text.assemble(
                cell.ours,
                (f"\n{cell.mark} {cell.paper}" if cell.mark else "", STYLES.get(cell.mark, "")),
            )
            for cell in cells_of(record, row)
        ]
        shown.add_row(*map(Text, row.names), *cells)
    yield shown
    yield from map(Text, [*captions(record), *findings(record)])


def _markdown(record: Record) -> str:
    headings = _headings(record)
    names = len(TABLES[record.table].headings)
    rule = ["---"] * names + ["---:"] * (len(headings) - names)
    lines = [
        [*row.names, *(_in_one_line(cell) for cell in cells_of(record, row))] for row in record.rows
    ]
    table = [f"| {' | '.join(map(_for_markdown, line))} |" for line in (headings, rule, *lines)]
    text = "\n".join(captions(record))
    found = [f"- {_for_markdown(sentence)}" for sentence in findings(record)]
    below = ["", *found] if found else []
    heading = f"### oddone bench {record.table}"
    return "\n".join([heading, "", _for_markdown(text), "", *table, *below, ""])


def _in_one_line(cell: Cell) -> str:
    return f"{cell.ours} {cell.mark} ({cell.paper})" if cell.mark else cell.ours


def _for_markdown(text: str) -> str:
    return html.escape(text, quote=False).replace("|", "\\|")


def _csv_line(
    record: Record, row: RowRecord, column: Column, numbers: list[float]
) -> list[str | int]:
    paper = record.paper_number(row, column)
    mark = _cell(record, row, column).mark
    return [
        record.table,
        record.scale,
        record.date,
        " ".join(row.names),
        row.model,
        row.scoring,
        column.of or "",
        column.metric,
        f"{statistics.fmean(numbers):.4f}",
        f"{statistics.stdev(numbers):.4f}" if len(numbers) > 1 else "",
        len(numbers),
        "" if paper is None else f"{paper}",
        COMPARED.get(mark, ""),
    ]
