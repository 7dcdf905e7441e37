"""`oddone score`: a verdict on every image, as a table or as a file."""

import csv
import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, cast

from cyclopts import App, Parameter
from rich.cells import cell_len
from rich.console import Console
from rich.progress import MofNCompleteColumn, TimeRemainingColumn
from rich.text import Text

from oddone.cli.detectors import open_detector
from oddone.cli.terminal import bar, counted, note, printable
from oddone.detector import Detector, ScoredImage
from oddone.errors import SettingsError

NEIGHBOURS = 3
ROWS_PER_GROUP = 10_000  # of Parquet, which are written together
RARE = 0.1  # a p-value below this reads better as "1 in N"
WIDEST_LABEL = 24

Row = dict[str, Any]
Write = Callable[[Row], None]
Columns = dict[str, type]

app = App(name="score")


@app.default
def score(
    detector: Path,
    /,
    *sources: str,
    out: Path | None = None,
    explain: Annotated[bool, Parameter(negative=())] = False,
) -> None:
    """Label images, and say which are none of the classes: a row for each, in order.

    Without --out, rows go to the terminal, or as CSV into a pipe. A file that cannot be read has
    a row with the reason.

    Examples: `oddone score run photos/ more/one.jpg`, `oddone score run photos/ --out scores.csv`,
    `oddone score run fashion:unseen#test --explain`.

    Parameters
    ----------
    detector
        The directory of a finished run, or the file of a detector.
    sources
        Pictures, folders of pictures, or what `oddone data list` lists.
    out
        A file for the rows, by its ending: .csv, .jsonl or .parquet.
    explain
        Add the three training images that are most like the image.
    """
    if not sources:
        raise SettingsError("say what to score: oddone score DETECTOR SOURCE, such as a folder")
    if out is not None:
        _check_out(out)
    opened = open_detector(detector)
    if opened.calibration is None:
        note(
            f"this detector has no threshold yet, so nothing is called anomalous; set one with: "
            f"oddone calibrate {shlex.quote(str(detector))} SOURCE"
        )
    with bar(MofNCompleteColumn(), TimeRemainingColumn()) as progress:
        watched = out is None and sys.stdout.isatty()  # the rows themselves show how it goes on
        verdicts = opened.score(
            sources,
            neighbours=NEIGHBOURS if explain else 0,
            progress=None if watched else progress,
        )
        rows = (_row(scored, opened.classes, explain=explain) for scored in verdicts)
        with _writer(out, opened.classes, explain=explain) as write:
            summary = _write_all(rows, opened, write)
    note(summary if out is None else f"{summary}; the rows are in {out}")


def _check_out(out: Path) -> None:
    """Say before the long work that its result could not be written."""
    if out.suffix.lower() not in FILES:
        raise SettingsError(f"--out {out}: let the name end in {', '.join(FILES)}")
    if out.is_dir() or not out.parent.is_dir():
        raise SettingsError(f"--out {out}: name a file in a folder that exists")
    if out.suffix.lower() == ".parquet":
        try:
            import pyarrow.parquet  # noqa: F401, PLC0415  (an extra)
        except ImportError as error:
            raise SettingsError(
                f"--out {out} needs a package that is not here: pip install 'oddone[parquet]'"
            ) from error


def _row(scored: ScoredImage, classes: Sequence[str], *, explain: bool) -> Row:
    verdict = scored.verdict
    row: Row = {
        "path": scored.path,
        "label": scored.class_name,
        "score": None if verdict is None else verdict.score,
        "p_value": None if verdict is None else verdict.p_value,
        "anomalous": None if verdict is None else verdict.anomalous,
        "reason": scored.reason,
    }
    if explain:
        row["neighbours"] = [
            {"path": near.path, "label": classes[near.label], "similarity": near.similarity}
            for near in scored.neighbours
        ]
    return row


def _write_all(rows: Iterator[Row], detector: Detector, write: Write) -> str:
    """Write the rows as they come, and return what they come to."""
    images = anomalous = unreadable = 0
    began = time.monotonic()
    for row in rows:
        write(row)
        images += 1
        anomalous += row["anomalous"] is True
        unreadable += row["reason"] is not None
    seconds = time.monotonic() - began
    found = [f"{unreadable:,} unreadable"]
    if detector.calibration is not None:
        found = [f"{anomalous:,} anomalous (score above {detector.threshold:.4g})", *found]
    return (
        f"{counted(images, 'image', 'images')} in {seconds:.1f} s "
        f"({images / max(seconds, 1e-9):,.0f} images/s): {', '.join(found)}"
    )


@contextmanager
def _writer(out: Path | None, classes: Sequence[str], *, explain: bool) -> Iterator[Write]:
    """Yield a function that writes a row to where rows are wanted."""
    columns = _columns(NEIGHBOURS if explain else 0)
    if out is not None:
        with _whole(out) as part, FILES[out.suffix.lower()](part, columns) as write:
            yield write
    elif sys.stdout.isatty():
        yield _terminal_rows(Console(), classes)
    else:
        with _pipe(columns) as write:
            yield write


# --- The terminal -----------------------------------------------------------------------------


def _terminal_rows(console: Console, classes: Sequence[str]) -> Write:
    """Return a function that prints a row of a table whose widths are known beforehand."""
    label_width = min(WIDEST_LABEL, max(5, *(cell_len(printable(name)) for name in classes)))

    def show(verdict: Text, label: Text, score: Text, p_value: Text, image: Text) -> None:
        label.truncate(label_width, overflow="ellipsis")
        verdict.align("left", 10)
        label.align("left", label_width)
        score.align("right", 8)
        p_value.align("right", 9)
        console.print(Text("  ").join((verdict, label, score, p_value, image)), soft_wrap=True)

    show(*(Text(name, "bold") for name in ("verdict", "label", "score", "p-value", "image")))
    return lambda row: show(*_cells(row))


def _cells(row: Row) -> tuple[Text, Text, Text, Text, Text]:
    image = Text(printable(row["path"]))
    if row["reason"] is not None:
        image.append(f"  {printable(row['reason'])}", "yellow")
        return Text("unreadable", "yellow"), Text(), Text(), Text(), image
    for near in row.get("neighbours", ()):
        like = printable(f"{near['similarity']:.2f} like {near['label']}: {near['path']}")
        image.append(f"\n            {like}", "dim")
    verdicts = {True: Text("anomalous", "bold red"), False: Text("normal"), None: Text("-")}
    return (
        verdicts[row["anomalous"]],
        Text(printable(row["label"])),
        Text(f"{row['score']:.4g}"),
        Text(_share(row["p_value"])),
        image,
    )


def _share(p_value: float | None) -> str:
    if p_value is None:
        return "-"
    return f"1 in {1 / p_value:,.0f}" if p_value < RARE else f"{p_value:.2f}"


# --- Files and pipes --------------------------------------------------------------------------


def _columns(neighbours: int) -> Columns:
    """Return the columns of a flat table, and what they hold."""
    columns: Columns = {
        "path": str,
        "label": str,
        "score": float,
        "p_value": float,
        "anomalous": bool,
        "reason": str,
    }
    for number in range(1, neighbours + 1):
        near = f"neighbour_{number}"
        columns |= {f"{near}_path": str, f"{near}_label": str, f"{near}_similarity": float}
    return columns


def _flat(row: Row) -> Row:
    """Return the row of a table: neighbours side by side."""
    flat = {name: value for name, value in row.items() if name != "neighbours"}
    for number, near in enumerate(row.get("neighbours", ()), start=1):
        flat |= {f"neighbour_{number}_{name}": value for name, value in near.items()}
    return flat


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """Yield another name to write to; what is complete takes the path's."""
    part = path.with_name(f"{path.name}.part")
    try:
        yield part
        part.replace(path)
    except OSError as error:
        raise SettingsError(
            f"--out {path} cannot be written: {error.strerror or error}; choose another place"
        ) from error
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def _pipe(columns: Columns) -> Iterator[Write]:
    """Yield a function that prints CSV; when the reader has had enough, so have we."""
    stdout = cast("TextIOWrapper", sys.stdout)
    stdout.reconfigure(encoding="utf-8", errors="surrogateescape")  # names of files as they are
    try:
        yield _csv_rows(stdout, columns)
        stdout.flush()
    except BrokenPipeError:  # `| head` for one
        os.dup2(os.open(os.devnull, os.O_WRONLY), stdout.fileno())  # or Python complains at exit
        sys.exit(0)


@contextmanager
def _csv(path: Path, columns: Columns) -> Iterator[Write]:
    with path.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        yield _csv_rows(file, columns)


def _csv_rows(file: TextIOWrapper, columns: Columns) -> Write:
    table = csv.DictWriter(file, list(columns), lineterminator="\n")
    table.writeheader()

    def write(row: Row) -> None:
        table.writerow(_flat(row))

    return write


@contextmanager
def _jsonl(path: Path, _: Columns) -> Iterator[Write]:
    """Yield a function that writes a line of JSON, with neighbours as a list in it."""
    with path.open("w", encoding="ascii") as file:

        def write(row: Row) -> None:
            file.write(json.dumps(row) + "\n")

        yield write


@contextmanager
def _parquet(path: Path, columns: Columns) -> Iterator[Write]:
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
            waiting.append({name: _unicode(value) for name, value in _flat(row).items()})
            if len(waiting) == ROWS_PER_GROUP:
                write_waiting()

        yield write
        if waiting:
            write_waiting()


def _unicode(value: object) -> object:
    """Return text as Parquet takes it; a file's name need not be Unicode."""
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value


FILES: dict[str, Callable[[Path, Columns], AbstractContextManager[Write]]] = {
    ".csv": _csv,
    ".jsonl": _jsonl,
    ".parquet": _parquet,
}
