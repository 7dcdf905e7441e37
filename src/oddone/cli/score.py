"""`oddone score`: a verdict on every image, as a table or as a file."""

import shlex
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from oddone.cli.copy_folder import CopyFolder
from oddone.cli.image_scorer import ImageScorer, open_scorer
from oddone.cli.path_list import read_paths
from oddone.cli.score_apart import EngineOptions, merge_tables, options_apart, score_apart
from oddone.cli.score_table import (
    Row,
    most_anomalous_first,
    open_table,
    to_row,
)
from oddone.cli.score_tally import Tally
from oddone.cli.terminal import describe_left_out, note, progress_bar
from oddone.data import ImageStream, stream
from oddone.data.stream import has_within, stream_paths
from oddone.errors import SettingsError, did_you_mean
from oddone.export.onnx_file import ENDING
from oddone.progress import Progress

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
    shard: str | None = None,
    merge: Annotated[bool, Parameter(negative=())] = False,
    engine: Literal["local", "ray"] = "local",
    workers: int | None = None,
    address: str | None = None,
) -> None:
    """Name the class of images, and say which are none of the classes: a row for each, in order.

    Without --out, rows go to the terminal, or as CSV into a pipe. A file that cannot be read has
    a row with the reason; if that is all of them, the exit code is 2.

    Examples: `oddone score run photos/ more/one.jpg`, `oddone score run photos/ --out scores.csv`,
    `oddone score run photos/ --top 50 --copy-anomalous look-at-these`,
    `find photos -newer last -print0 | oddone score run -`,
    `oddone score run s3://bucket/photos/ --engine ray --out scores`,
    `oddone score run photos/ --shard 3/16 --out scores/3.parquet`, and when all are there
    `oddone score --merge scores/*.parquet --out all.parquet`.

    Parameters
    ----------
    detector
        The directory of a finished run, the file of a detector, or a .onnx file of oddone export.
    sources
        Pictures, folders of pictures, or what `oddone data list` lists; or - for paths from stdin,
        separated by null bytes or line ends.
    out
        A file for the rows, by its ending: .csv, .jsonl or .parquet. A name without ending is a
        folder for the rows in parts; if it is stopped, the same command does what is missing.
    explain
        Add the three training images that are most like the image.
    sort
        The most anomalous first: rows come when all images are scored.
    top
        Only so many rows, the most anomalous first.
    copy_anomalous
        A folder outside the sources to copy the files of all anomalous images into; nothing in it
        is overwritten.
    sha256
        The SHA-256 that the detector's file must have, as `sha256sum` prints it.
    shard
        Which share of the images, such as 3/16: for 16 jobs that know nothing of each other.
    merge
        Put the tables of all shards, or all parts of a folder, together: no detector is named.
    engine
        What scores: this process, or Ray (with --out FOLDER) in processes of its own.
    workers
        How many processes of Ray; by default one for each core.
    address
        A Ray cluster to use, such as HOST:6379; by default Ray is started on this machine.
    """
    if merge:
        merge_tables([detector, *map(Path, sources)], out, sort=sort is not None, top=top)
        return
    _check_sources(sources, top)
    from_stdin = STDIN if STDIN in sources else None
    in_one = {"--sort": sort, "--top": top, "--copy-anomalous": copy_anomalous, STDIN: from_stdin}
    engine_options = EngineOptions(engine, workers, address)
    apart = options_apart(out, shard=shard, engine=engine_options, in_one=in_one)
    opened = _open(detector, sha256, explain=explain)
    copies = _open_copies(copy_anomalous, sources, opened.threshold, detector)
    if opened.threshold is None:
        note(
            f"this detector has no threshold yet, so nothing is called anomalous; set one with: "
            f"{_calibrate(detector)}"
        )
    neighbours = NEIGHBOURS if explain else 0
    if apart is not None:
        score_apart(apart, detector, opened, sources, neighbours)
        return
    arranged = sort is not None or top is not None
    tally = Tally()
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


def _check_sources(sources: Sequence[str], top: int | None) -> None:
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


def _open(path: Path, sha256: str | None, *, explain: bool) -> ImageScorer:
    if explain and path.suffix.lower() == ENDING:
        raise SettingsError(
            f"--explain shows training images, and {path} has none; leave it out, or name the "
            f"detector that the file was made from"
        )
    return open_scorer(path, sha256)


def _open_copies(
    folder: Path | None, sources: Sequence[str], threshold: float | None, detector: Path
) -> CopyFolder | None:
    if folder is None:
        return None
    if threshold is None:
        raise SettingsError(
            f"--copy-anomalous needs a threshold, and this detector has none yet; set one with: "
            f"{_calibrate(detector)}"
        )
    for source in sources:
        if source != STDIN and has_within(source, folder):
            raise SettingsError(
                f"--copy-anomalous {folder} lies in {source}, so the next command would score the "
                f"copies too; name a folder outside"
            )
    return CopyFolder(folder)


def _calibrate(detector: Path) -> str:
    return f"oddone calibrate {shlex.quote(str(detector))} SOURCE"


def _pictures(sources: Sequence[str], size: int, progress: Progress | None) -> ImageStream:
    if sources[0] == STDIN:
        return stream_paths(read_paths(sys.stdin.buffer), size=size, progress=progress)
    return stream(sources, size=size, progress=progress)


def _watch(rows: Iterable[Row], tally: Tally, copies: CopyFolder | None) -> Iterator[Row]:
    """Yield the rows, and count and copy on the way."""
    for row in rows:
        tally.add(row)
        if copies is not None and row["anomalous"]:
            copies.add(row["path"])
        yield row
