"""`oddone score` in several processes: as one shard of many, in parts of a folder, and merged."""

import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from oddone.cli.image_scorer import ImageScorer
from oddone.cli.out_file import check_out_file
from oddone.cli.score_parts import PartJob, score_in_parts, score_share
from oddone.cli.score_shares import ShareNote, check_shares, parse_shard, rows_of
from oddone.cli.score_table import (
    FORMATS,
    Row,
    check_parquet,
    most_anomalous_first,
    open_table,
)
from oddone.cli.score_tally import Tally
from oddone.cli.terminal import counted, describe_left_out, note, progress_bar
from oddone.data.pieces import Identity, share_of
from oddone.data.stream import list_pieces
from oddone.engines import MakeWorker, Summary, run_here
from oddone.errors import SettingsError
from oddone.files import DETECTOR_NAME, file_or_in_run

PARQUET = ".parquet"


@dataclass(frozen=True)
class EngineOptions:
    """What does the work."""

    name: Literal["local", "ray"]
    workers: int | None = None
    address: str | None = None

    def __post_init__(self) -> None:
        if self.name == "local" and (self.workers is not None or self.address is not None):
            given = "--workers" if self.address is None else "--address"
            raise SettingsError(f"{given} is for Ray; add --engine ray, or leave it out")
        if self.workers is not None and self.workers < 1:
            raise SettingsError(f"--workers {self.workers}: choose 1 or more processes")

    def run(self, make_worker: MakeWorker, jobs: Sequence[int]) -> Iterable[Summary]:
        """Do jobs, and yield the summary of each when it is done."""
        if self.name == "local":
            return run_here(make_worker, jobs)
        from oddone.engines.ray_data import run_on_ray  # noqa: PLC0415  (an extra)

        return run_on_ray(make_worker, jobs, workers=self.workers, address=self.address)


@dataclass(frozen=True)
class ApartOptions:
    """How the images are shared out: as a shard, or in parts that an engine makes."""

    out: Path
    engine: EngineOptions
    shard: tuple[int, int] | None = None


def options_apart(
    out: Path | None,
    *,
    shard: str | None,
    engine: EngineOptions,
    in_one: Mapping[str, object],
) -> ApartOptions | None:
    """Return the options of images that are shared out; None if all rows go into one table.

    `in_one` are the options that need all rows at once.
    """
    if shard is not None:
        options = _shard_options(out, shard, engine)
    elif out is not None and _is_folder(out, engine):
        options = ApartOptions(out, engine)
    elif engine.name == "ray":
        raise SettingsError(
            "--engine ray writes the rows in parts: name a folder for them with --out FOLDER"
        )
    else:
        if out is not None:
            check_out_file(out, tuple(FORMATS))
            check_parquet(out)
        return None
    for option, value in in_one.items():
        if value is not None:
            what = f"--out {out}, a folder of parts" if shard is None else "--shard"
            raise SettingsError(
                f"{option} does not go with {what}; use it with oddone score --merge, or without"
            )
    return options


def _shard_options(out: Path | None, shard: str, engine: EngineOptions) -> ApartOptions:
    chosen = parse_shard(shard)
    if engine.name == "ray":
        raise SettingsError("--shard and --engine ray both share images out; choose one of them")
    if out is None or out.suffix.lower() != PARQUET:
        raise SettingsError(
            f"--shard {shard} needs --out NAME.parquet, in which --merge finds whose share it is"
        )
    check_out_file(out)
    check_parquet(out)
    return ApartOptions(out, engine, chosen)


def _is_folder(out: Path, engine: EngineOptions) -> bool:
    """Return whether rows go into a folder; that it can be one is checked."""
    if out.suffix.lower() in FORMATS or (out.suffix and engine.name == "local"):
        return False
    if out.exists() and not out.is_dir():
        raise SettingsError(f"--out {out} is a file; name a folder, or let it end in .csv")
    if not out.parent.is_dir():
        raise SettingsError(f"--out {out}: name a folder in one that exists")
    check_parquet(out / f"part{PARQUET}")
    return True


def score_apart(
    options: ApartOptions,
    path: Path,
    opened: ImageScorer,
    sources: Sequence[str],
    neighbours: int,
) -> None:
    """Score a share of the images, or all of them in parts, and say what came of it."""
    began = time.monotonic()
    file = file_or_in_run(path, DETECTOR_NAME)
    with file.open("rb") as content:
        sha256 = hashlib.file_digest(content, "sha256").hexdigest()
    about = ShareNote(detector=sha256, source="", number=1, shares=1, neighbours=neighbours)
    pieces, left_out = list_pieces(sources)
    with progress_bar() as progress:
        if options.shard is None:
            outcome = score_in_parts(
                PartJob(options.out, file.resolve(), about),
                pieces,
                batch_size=opened.batch_size,
                run=options.engine.run,
                progress=progress,
            )
            tally, enlarged = outcome.tally, outcome.enlarged
            where = f"{counted(outcome.parts, 'part', 'parts')} of {options.out}"
        else:
            number, shares = options.shard
            listed, identity = [], Identity()
            for piece in pieces:
                identity.add(piece)
                listed.append(piece)
            share = ShareNote(
                detector=sha256,
                source=identity.hexdigest(),
                number=number,
                shares=shares,
                neighbours=neighbours,
            )
            chosen = share_of(listed, number, shares)
            tally, enlarged = score_share(opened, chosen, options.out, share, progress)
            where = str(options.out)
    summary = tally.describe(time.monotonic() - began, opened.threshold, opened.thresholds)
    if enlarged:
        summary = f"{summary}, {enlarged:,} enlarged"
    note(f"{summary}; the rows are in {where}")
    if left_out:
        note(describe_left_out(left_out))
    tally.check()


def merge_tables(files: Sequence[Path], out: Path | None, *, sort: bool, top: int | None) -> None:
    """Put shares of a table together, in order, and write them like any table."""
    if out is not None:
        check_out_file(out, tuple(FORMATS))
    check_parquet(files[0].with_suffix(PARQUET))
    shares = check_shares(files)
    neighbours = shares[0][1].neighbours
    tally = Tally()

    def watched() -> Iterable[Row]:
        for row in rows_of(shares):
            tally.add(row)
            yield row

    arranged = sort or top is not None
    with open_table(out, (), neighbours) as write:
        for row in most_anomalous_first(watched(), top) if arranged else watched():
            write(row)
    images = counted(tally.images, "image", "images")
    where = "" if out is None else f"; the rows are in {out}"
    note(
        f"{images} of {counted(len(shares), 'share', 'shares')}: {tally.anomalous:,} anomalous, "
        f"{tally.unreadable:,} unreadable{where}"
    )
