r"""The table of `oddone score`: its columns, and how its rows are written.

The name of a file need not be Unicode. What is not is written as \udcXX, where XX is the byte, in
every format: so a table is valid UTF-8.

To add a column, add it to `to_row` and `table_columns`. To add a format, write a function such as
`_write_csv` and add it to `FORMATS`.
"""

import csv
import heapq
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from typing import Any, cast

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from oddone.cli.out_file import os_errors_explained, out_file_in_parts, written_whole
from oddone.cli.terminal import printable
from oddone.errors import SettingsError
from oddone.files import os_errors_named
from oddone.scored_images import ScoredImage
from oddone.wording import describe_neighbour

ROWS_PER_GROUP = 10_000  # rows of a Parquet file that are written together
RARE = 0.1  # a p-value below this is shown as "1 in N"
WIDEST_CLASS_NAME = 24  # in cells of a terminal
STDOUT = Path("standard output")  # as errors call it

Row = dict[str, Any]
Write = Callable[[Row], None]
Columns = dict[str, type]
About = Callable[[], dict[str, str]]


def to_row(scored: ScoredImage, classes: Sequence[str], *, explain: bool) -> Row:
    """Return the row of one image; to explain it, its nearest training images are a list in it."""
    verdict = scored.verdict
    row: Row = {
        "path": scored.path,
        "class_name": scored.class_name,
        "score": None if verdict is None else verdict.score,
        "p_value": None if verdict is None else verdict.p_value,
        "anomalous": None if verdict is None else verdict.anomalous,
        "reason": scored.reason,
    }
    if explain:
        row["neighbours"] = [
            {"path": near.path, "class_name": classes[near.label], "similarity": near.similarity}
            for near in scored.neighbours
        ]
    return row


def table_columns(neighbours: int) -> Columns:
    """Return the columns of CSV and Parquet with their types; each neighbour has three of them."""
    columns: Columns = {
        "path": str,
        "class_name": str,
        "score": float,
        "p_value": float,
        "anomalous": bool,
        "reason": str,
    }
    for number in range(1, neighbours + 1):
        near = f"neighbour_{number}"
        columns |= {f"{near}_path": str, f"{near}_class_name": str, f"{near}_similarity": float}
    return columns


def most_anomalous_first(rows: Iterable[Row], top: int | None) -> list[Row]:
    """Return all rows, or the `top` first, by their scores; unreadable files come last.

    With `top`, no more rows than that are kept in memory.
    """
    if top is None:
        return sorted(rows, key=_anomaly, reverse=True)
    return heapq.nlargest(top, rows, key=_anomaly)


def _anomaly(row: Row) -> float:
    return -math.inf if row["score"] is None else cast("float", row["score"])


@contextmanager
def open_table(out: Path | None, classes: Sequence[str], neighbours: int) -> Iterator[Write]:
    """Yield a function that writes one row: to a file, to the terminal, or as CSV into a pipe."""
    columns = table_columns(neighbours)
    if out is not None:
        with out_file_in_parts(out) as part:
            table = FORMATS[out.suffix.lower()](part, columns)
            with _write_to_file(out, table) as write:
                yield write
    elif sys.stdout.isatty():
        yield _write_to_terminal(Console(), classes)
    else:
        with _write_to_pipe(columns) as write:
            yield write


@contextmanager
def open_parquet(out: Path, neighbours: int, about: About) -> Iterator[Write]:
    """Yield a function that writes one row to a Parquet file with a note on what it is.

    `about` is asked for the note when all rows are there.
    """
    with written_whole(out) as part:
        table = _write_parquet(part, table_columns(neighbours), about)
        with _write_to_file(out, table) as write:
            yield write


def check_parquet(out: Path) -> None:
    """Raise a SettingsError if a Parquet file is wanted and its package is not installed."""
    if out.suffix.lower() != ".parquet":
        return
    try:
        import pyarrow.parquet  # noqa: F401, PLC0415  (an extra)
    except ImportError as error:
        raise SettingsError(
            f"--out {out} needs a package that is not here: pip install 'oddone[parquet]'"
        ) from error


# --- The terminal -----------------------------------------------------------------------------


def _write_to_terminal(console: Console, classes: Sequence[str]) -> Write:
    """Print the headings, and return a function that prints a row below them.

    Rows are printed one by one, so the width of each column is fixed beforehand.
    """
    headings = ("verdict", "class name", "score", "p-value", "image")
    widest = max(cell_len(text) for text in (headings[1], *map(printable, classes)))
    class_width = min(WIDEST_CLASS_NAME, widest)

    def show(verdict: Text, class_name: Text, score: Text, p_value: Text, image: Text) -> None:
        class_name.truncate(class_width, overflow="ellipsis")
        verdict.align("left", 10)
        class_name.align("left", class_width)
        score.align("right", 8)
        p_value.align("right", 9)
        console.print(Text("  ").join((verdict, class_name, score, p_value, image)), soft_wrap=True)

    show(*(Text(heading, "bold") for heading in headings))
    return lambda row: show(*_cells(row))


def _cells(row: Row) -> tuple[Text, Text, Text, Text, Text]:
    image = Text(printable(row["path"]))
    if row["reason"] is not None:
        image.append(f"  {printable(row['reason'])}", "yellow")
        return Text("unreadable", "yellow"), Text(), Text(), Text(), image
    for near in row.get("neighbours", ()):
        distance = describe_neighbour(near["similarity"])
        like = printable(f"{distance}, {near['class_name']}: {near['path']}")
        image.append(f"\n            {like}", "dim")
    verdicts = {True: Text("anomalous", "bold red"), False: Text("normal"), None: Text("-")}
    return (
        verdicts[row["anomalous"]],
        Text(printable(row["class_name"])),
        Text(f"{row['score']:.4g}"),
        Text(_p_value_in_words(row["p_value"])),
        image,
    )


def _p_value_in_words(p_value: float | None) -> str:
    if p_value is None:
        return "-"
    return f"1 in {1 / p_value:,.0f}" if p_value < RARE else f"{p_value:.2f}"


# --- Files and pipes --------------------------------------------------------------------------


@contextmanager
def _write_to_pipe(columns: Columns) -> Iterator[Write]:
    """Yield a function that prints a row as CSV, and end quietly if the reader has closed."""
    stdout = cast("TextIOWrapper", sys.stdout)
    stdout.reconfigure(encoding="utf-8", errors="backslashreplace")  # as in files
    try:
        with os_errors_named(STDOUT):
            write = _csv_rows(stdout, columns)

        def write_or_name(row: Row) -> None:
            with os_errors_named(STDOUT):
                write(row)

        yield write_or_name
        with os_errors_named(STDOUT):
            stdout.flush()
    except BrokenPipeError:  # such as `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), stdout.fileno())  # or Python complains at exit
        sys.exit(0)


@contextmanager
def _write_to_file(out: Path, table: AbstractContextManager[Write]) -> Iterator[Write]:
    """Yield a function that writes a row to a table; where it cannot, the error names `out`."""
    with ExitStack() as stack:
        with os_errors_explained(out):
            write = stack.enter_context(table)

        def write_or_explain(row: Row) -> None:
            with os_errors_explained(out):
                write(row)

        try:
            yield write_or_explain
        except BaseException:
            with suppress(OSError):  # the file is given up; what matters is the error before
                stack.close()
            raise
        with os_errors_explained(out):
            stack.close()  # the last rows have waited until here


@contextmanager
def _write_csv(path: Path, columns: Columns) -> Iterator[Write]:
    with path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        yield _csv_rows(file, columns)


class _RowsAsLines:
    """A file that ends the rows of `csv` with a line feed alone.

    Without a carriage return at the end of its rows, `csv` would not quote one in a file name.
    """

    def __init__(self, file: TextIOWrapper) -> None:
        self.file = file

    def write(self, row: str) -> int:
        return self.file.write(row.removesuffix("\r\n") + "\n")


def _csv_rows(file: TextIOWrapper, columns: Columns) -> Write:
    table = csv.DictWriter(_RowsAsLines(file), list(columns))
    table.writeheader()

    def write(row: Row) -> None:
        table.writerow(_flatten(row))

    return write


@contextmanager
def _write_jsonl(path: Path, _: Columns) -> Iterator[Write]:
    """Yield a function that writes a row as a line of JSON; neighbours are a list in it."""
    with path.open("w", encoding="ascii") as file:

        def write(row: Row) -> None:
            file.write(json.dumps(row) + "\n")

        yield write


@contextmanager
def _write_parquet(path: Path, columns: Columns, about: About | None = None) -> Iterator[Write]:
    import pyarrow as pa  # noqa: PLC0415  (an extra)
    from pyarrow import parquet  # noqa: PLC0415

    types = {str: pa.string(), float: pa.float64(), bool: pa.bool_()}
    schema = pa.schema([(name, types[kind]) for name, kind in columns.items()])
    waiting: list[Row] = []
    with parquet.ParquetWriter(path, schema) as file:

        def write_waiting() -> None:
            file.write_table(pa.Table.from_pylist(waiting, schema))
            waiting.clear()

        def write(row: Row) -> None:
            waiting.append({name: _as_unicode(value) for name, value in _flatten(row).items()})
            if len(waiting) == ROWS_PER_GROUP:
                write_waiting()

        yield write
        if waiting:
            write_waiting()
        if about is not None:
            file.add_key_value_metadata(about())


def _flatten(row: Row) -> Row:
    """Return the row of a flat table: neighbours have columns instead of a list."""
    flat = {name: value for name, value in row.items() if name != "neighbours"}
    for number, near in enumerate(row.get("neighbours", ()), start=1):
        flat |= {f"neighbour_{number}_{name}": value for name, value in near.items()}
    return flat


def _as_unicode(value: object) -> object:
    """Return text that Parquet accepts; the name of a file need not be Unicode."""
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value


FORMATS: dict[str, Callable[[Path, Columns], AbstractContextManager[Write]]] = {
    ".csv": _write_csv,
    ".jsonl": _write_jsonl,
    ".parquet": _write_parquet,
}
