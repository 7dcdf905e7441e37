"""`oddone score`: a verdict on every image, as a table or as a file."""

import shlex
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from oddone.cli.copy_folder import CopyFolder
from oddone.cli.out_file import check_out_file
from oddone.cli.path_list import read_paths
from oddone.cli.score_table import (
    FORMATS,
    Row,
    check_parquet,
    most_anomalous_first,
    open_table,
    to_row,
)
from oddone.cli.terminal import counted, describe_left_out, note, progress_bar
from oddone.data import ImageStream, stream
from oddone.data.stream import stream_paths
from oddone.errors import DataError, SettingsError, did_you_mean
from oddone.export.onnx_detector import OnnxDetector
from oddone.export.onnx_file import ENDING
from oddone.progress import Progress

if TYPE_CHECKING:
    from oddone.detector import Detector

NEIGHBOURS = 3
STDIN = "-"

app = App(name="score")


@app.default
def score(
    detector: Path,
    /,
    *sources: Annotated[str, Parameter(allow_leading_hyphen=True)],  # for -
    out: Path | None = None,
    explain: Annotated[bool, Parameter(negative=())] = False,
    sort: Literal["score"] | None = None,
    top: int | None = None,
    copy_anomalous: Path | None = None,
    sha256: str | None = None,
) -> None:
    """Name the class of images, and say which are none of the classes: a row for each, in order.

    Without --out, rows go to the terminal, or as CSV into a pipe. A file that cannot be read has
    a row with the reason; if that is all of them, the exit code is 2.

    Examples: `oddone score run photos/ more/one.jpg`, `oddone score run photos/ --out scores.csv`,
    `oddone score run photos/ --top 50 --copy-anomalous look-at-these`,
    `find photos -newer last -print0 | oddone score run -`.

    Parameters
    ----------
    detector
        The directory of a finished run, the file of a detector, or a .onnx file of oddone export.
    sources
        Pictures, folders of pictures, or what `oddone data list` lists; or - for paths from stdin,
        separated by null bytes or line ends.
    out
        A file for the rows, by its ending: .csv, .jsonl or .parquet.
    explain
        Add the three training images that are most like the image.
    sort
        The most anomalous first: rows come when all images are scored.
    top
        Only so many rows, the most anomalous first.
    copy_anomalous
        A folder to copy the files of all anomalous images into; nothing in it is overwritten.
    sha256
        The SHA-256 that the detector's file must have, as `sha256sum` prints it.
    """
    _check_options(sources, out, top)
    opened = _open(detector, sha256, explain=explain)
    copies = _open_copies(copy_anomalous, opened.threshold, detector)
    if opened.threshold is None:
        note(
            f"this detector has no threshold yet, so nothing is called anomalous; set one with: "
            f"{_calibrate(detector)}"
        )
    neighbours = NEIGHBOURS if explain else 0
    arranged = sort is not None or top is not None
    tally = _Tally()
    began = time.monotonic()
    with progress_bar() as progress:
        rows_are_seen = out is None and sys.stdout.isatty() and not arranged  # as the progress
        pictures = _pictures(sources, opened.image_size, None if rows_are_seen else progress)
        verdicts = opened.score(pictures, neighbours=neighbours)
        rows: Iterable[Row] = (
            to_row(verdict, opened.classes, explain=explain) for verdict in verdicts
        )
        rows = _watch(rows, tally, copies)
        with open_table(out, opened.classes, neighbours) as write:
            for row in most_anomalous_first(rows, top) if arranged else rows:
                write(row)
    summary = tally.describe(time.monotonic() - began, opened.threshold, opened.thresholds)
    if pictures.enlarged:
        summary = f"{summary}, {pictures.enlarged:,} enlarged"
    note(summary if out is None else f"{summary}; the rows are in {out}")
    if copies is not None:
        note(copies.describe())
    if pictures.left_out:
        note(describe_left_out(pictures.left_out))
    tally.check()


def _check_options(sources: Sequence[str], out: Path | None, top: int | None) -> None:
    if not sources:
        raise SettingsError("say what to score: oddone score DETECTOR SOURCE, such as a folder")
    for source in sources:
        if source.startswith("-") and source != STDIN:
            options = [argument.name for argument in app.assemble_argument_collection()]
            hint = did_you_mean(source, options, otherwise=f"a file of that name is ./{source}")
            raise SettingsError(f"unknown option {source}; {hint}")
    if STDIN in sources and len(sources) > 1:
        raise SettingsError("- takes all paths from stdin; leave the other sources out")
    if top is not None and top < 1:
        raise SettingsError(f"--top {top}: choose 1 or more rows")
    if out is not None:
        check_out_file(out, tuple(FORMATS))
        check_parquet(out)


def _open(path: Path, sha256: str | None, *, explain: bool) -> "Detector | OnnxDetector":
    """Return what scores the images; torch is imported only where it is needed for that."""
    if path.suffix.lower() == ENDING:
        if explain:
            raise SettingsError(
                f"--explain shows training images, and {path} has none; leave it out, or name the "
                f"detector that the file was made from"
            )
        return OnnxDetector.load(path, sha256=sha256)
    from oddone.cli.loading import open_detector  # noqa: PLC0415

    return open_detector(path, sha256)


def _open_copies(folder: Path | None, threshold: float | None, detector: Path) -> CopyFolder | None:
    if folder is None:
        return None
    if threshold is None:
        raise SettingsError(
            f"--copy-anomalous needs a threshold, and this detector has none yet; set one with: "
            f"{_calibrate(detector)}"
        )
    return CopyFolder(folder)


def _calibrate(detector: Path) -> str:
    return f"oddone calibrate {shlex.quote(str(detector))} SOURCE"


def _pictures(sources: Sequence[str], size: int, progress: Progress | None) -> ImageStream:
    if sources[0] == STDIN:
        return stream_paths(read_paths(sys.stdin.buffer), size=size, progress=progress)
    return stream(sources, size=size, progress=progress)


def _watch(rows: Iterable[Row], tally: "_Tally", copies: CopyFolder | None) -> Iterator[Row]:
    """Yield the rows, and count and copy on the way."""
    for row in rows:
        tally.add(row)
        if copies is not None and row["anomalous"]:
            copies.add(row["path"])
        yield row


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

    def describe(
        self, seconds: float, threshold: float | None, thresholds: Sequence[float] | None
    ) -> str:
        """Return a summary of all rows."""
        found = [f"{self.unreadable:,} unreadable"]
        if threshold is not None:
            by_class = any(each != threshold for each in thresholds or ())
            limit = "the threshold of the class" if by_class else f"{threshold:.4g}"
            found = [f"{self.anomalous:,} anomalous (score above {limit})", *found]
        return (
            f"{counted(self.images, 'image', 'images')} in {seconds:.1f} s "
            f"({self.images / max(seconds, 1e-9):,.0f} images/s): {', '.join(found)}"
        )

    def check(self) -> None:
        """Raise a DataError if not a single image could be read."""
        if self.images == 0:
            raise DataError("there is nothing to score; let stdin name pictures, or their folders")
        row = self.first_unreadable
        if row is not None and self.unreadable == self.images:
            raise DataError(
                f"none of the {counted(self.images, 'file', 'files')} can be read "
                f"({row['path']}: {row['reason']}); the rows say why"
            )
