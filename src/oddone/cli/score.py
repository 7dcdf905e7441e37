"""`oddone score`: a verdict on every image, as a table or as a file."""

import shlex
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from oddone.cli.loading import open_detector
from oddone.cli.out_file import check_out_file
from oddone.cli.score_table import FORMATS, Row, Write, check_parquet, open_table, to_row
from oddone.cli.terminal import counted, describe_left_out, note, progress_bar
from oddone.data import stream
from oddone.errors import DataError, SettingsError

NEIGHBOURS = 3

app = App(name="score")


@app.default
def score(
    detector: Path,
    /,
    *sources: str,
    out: Path | None = None,
    explain: Annotated[bool, Parameter(negative=())] = False,
) -> None:
    """Name the class of images, and say which are none of the classes: a row for each, in order.

    Without --out, rows go to the terminal, or as CSV into a pipe. A file that cannot be read has
    a row with the reason; if that is all of them, the exit code is 2.

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
        check_out_file(out, tuple(FORMATS))
        check_parquet(out)
    opened = open_detector(detector)
    if opened.calibration is None:
        note(
            f"this detector has no threshold yet, so nothing is called anomalous; set one with: "
            f"oddone calibrate {shlex.quote(str(detector))} SOURCE"
        )
    neighbours = NEIGHBOURS if explain else 0
    with progress_bar() as progress:
        rows_are_seen = out is None and sys.stdout.isatty()  # then they show the progress
        pictures = stream(
            sources, size=opened.image_size, progress=None if rows_are_seen else progress
        )
        verdicts = opened.score(pictures, neighbours=neighbours)
        rows = (to_row(verdict, opened.classes, explain=explain) for verdict in verdicts)
        with open_table(out, opened.classes, neighbours) as write:
            began = time.monotonic()
            tally = _write_all(rows, write)
    summary = tally.describe(time.monotonic() - began, opened.threshold)
    if pictures.enlarged:
        summary = f"{summary}, {pictures.enlarged:,} enlarged"
    note(summary if out is None else f"{summary}; the rows are in {out}")
    if pictures.left_out:
        note(describe_left_out(pictures.left_out))
    tally.check()


@dataclass
class _Tally:
    """What is counted of the rows as they pass."""

    images: int = 0
    anomalous: int = 0
    unreadable: int = 0
    first_unreadable: Row | None = None

    def add(self, row: Row) -> None:
        self.images += 1
        self.anomalous += row["anomalous"] is True
        if row["reason"] is not None:
            self.unreadable += 1
            self.first_unreadable = self.first_unreadable or row

    def describe(self, seconds: float, threshold: float | None) -> str:
        """Return a summary of all rows."""
        found = [f"{self.unreadable:,} unreadable"]
        if threshold is not None:
            found = [f"{self.anomalous:,} anomalous (score above {threshold:.4g})", *found]
        return (
            f"{counted(self.images, 'image', 'images')} in {seconds:.1f} s "
            f"({self.images / max(seconds, 1e-9):,.0f} images/s): {', '.join(found)}"
        )

    def check(self) -> None:
        """Raise a DataError if not a single image could be read."""
        row = self.first_unreadable
        if row is not None and self.unreadable == self.images:
            raise DataError(
                f"none of the {counted(self.images, 'file', 'files')} can be read "
                f"({row['path']}: {row['reason']}); the rows say why"
            )


def _write_all(rows: Iterable[Row], write: Write) -> _Tally:
    """Write each row as soon as it is known, and return what was counted."""
    tally = _Tally()
    for row in rows:
        tally.add(row)
        write(row)
    return tally
