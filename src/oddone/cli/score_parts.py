"""A folder of parts: the table of `oddone score` in many Parquet files, written by many workers.

The folder holds `pieces.jsonl`, what is to be scored, a line for each part; `manifest.json`, by
whom; and `part-000001.parquet` and so on. A part has its name when it is complete, so whatever ends
a run, the next one does the parts that are missing. Parts of another detector, or of other images,
are never added.
"""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from operator import index
from pathlib import Path
from typing import Any, NamedTuple

from oddone.cli.image_scorer import ImageScorer, open_scorer
from oddone.cli.out_file import os_errors_explained
from oddone.cli.score_shares import ShareNote, read_note
from oddone.cli.score_table import open_parquet, to_row
from oddone.cli.score_tally import Tally
from oddone.cli.terminal import note as tell
from oddone.data.pieces import Identity, PackedPiece, Piece, from_json, images_in, to_json
from oddone.data.stream import stream_pieces
from oddone.engines import JobFailedError, MakeWorker, Summary
from oddone.errors import DataError, SettingsError
from oddone.files import (
    LOCK_NAME,
    file_beside,
    is_leftover,
    lock_folder,
    remove_leftovers,
    sync_folder,
    write_json,
)
from oddone.progress import Progress

PIECES, MANIFEST = "pieces.jsonl", "manifest.json"
FORMAT = 2
IMAGES_PER_PART = 1024
"""About how many: a part has whole batches of the detector, or is a tar."""

Run = Callable[[MakeWorker, list[int]], Iterable[Summary]]
"""An engine: gives the summaries of jobs as they are done."""


class PartJob(NamedTuple):
    """What a process needs to know to score parts."""

    folder: Path
    detector: Path
    note: ShareNote
    """Of any part, but for the number."""


class PartsOutcome(NamedTuple):
    """What is known of all parts at the end."""

    tally: Tally
    kept: int
    """How many parts were there already."""
    parts: int
    enlarged: int


@dataclass(frozen=True)
class _PartsPlan:
    """Which parts there are."""

    digest: str
    offsets: list[int]
    """Where the line of each part begins in the file of pieces."""
    images: int
    """How many in all; 0 where that is not known."""


def part_path(folder: Path, number: int) -> Path:
    """Return where the part of that number is, counted from 1."""
    return folder / f"part-{number:06}.parquet"


def score_in_parts(
    job: PartJob,
    pieces: Iterable[Piece],
    *,
    batch_size: int,
    run: Run,
    progress: Progress | None,
) -> PartsOutcome:
    """Score all pieces whose parts are not in the folder yet."""
    with ExitStack() as stack:
        with os_errors_explained(job.folder):
            job.folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(lock_folder(job.folder))
            remove_leftovers(job.folder)
            plan = _make_plan(job, pieces, batch_size)
        job = job._replace(note=_note_for(job.note, plan))
        done = _complete_parts(job, plan)
        jobs = [offset for n, offset in enumerate(plan.offsets, 1) if n not in done]
        outcome = _Progress(plan, done.values(), progress)
        if done:
            tell(f"{len(done):,} of {len(plan.offsets):,} parts are there already")
        try:
            for summary in run(partial(PartScorer, job), jobs):
                outcome.add(summary)
        except JobFailedError as error:
            raise SettingsError(str(error)) from error
        sums = outcome.sums
        tally = Tally(sums["images"], sums["anomalous"], sums["unreadable"])
        return PartsOutcome(tally, len(done), len(plan.offsets), sums["enlarged"])


def score_share(
    detector: ImageScorer,
    pieces: Iterable[Piece],
    out: Path,
    share: ShareNote,
    progress: Progress | None = None,
) -> tuple[Tally, int]:
    """Score pieces into a Parquet file with a note; return what was counted, and enlarged."""
    tally = Tally()
    pictures = stream_pieces(pieces, size=detector.image_size, progress=progress)
    scored = detector.score(pictures, neighbours=share.neighbours)

    def about() -> dict[str, str]:
        return share.with_counts(tally, pictures.enlarged).as_metadata()

    with open_parquet(out, share.neighbours, about) as write:
        for each in scored:
            row = to_row(each, detector.classes, explain=share.neighbours > 0)
            tally.add(row)
            write(row)
    return tally, pictures.enlarged


class PartScorer:
    """Scores parts in a process of its own."""

    def __init__(self, job: PartJob) -> None:
        self._job = job
        self._detector = open_scorer(job.detector, job.note.detector)

    def __call__(self, offset: int) -> Summary:
        """Score the part whose pieces are at that place of the file of pieces."""
        job = self._job
        number, pieces = _read_part(job.folder, offset)
        path = part_path(job.folder, number)
        share = replace(job.note, number=number)
        known = read_note(path)
        if known is not None:  # who had this job before was killed after it was done
            return _summary(known)
        tally, enlarged = score_share(self._detector, pieces, path, share)
        return _summary(share.with_counts(tally, enlarged))


class _Progress:
    """Adds up what is done, and tells how far it is."""

    def __init__(
        self, plan: _PartsPlan, done: Iterable[ShareNote], progress: Progress | None
    ) -> None:
        self.sums: Counter[str] = Counter()
        self._plan, self._progress = plan, progress
        for share in done:
            self.sums.update(_summary(share))

    def add(self, summary: Summary) -> None:
        self.sums.update(summary)
        if self._progress is not None:
            self._progress(self.sums["images"], self._plan.images, "images")


def _summary(share: ShareNote) -> Summary:
    return {
        "images": share.images,
        "anomalous": share.anomalous,
        "unreadable": share.unreadable,
        "enlarged": share.enlarged,
    }


# --- What is in the folder --------------------------------------------------------------------


def _make_plan(job: PartJob, pieces: Iterable[Piece], batch_size: int) -> _PartsPlan:
    """Return the plan; one that is there must be the same, and nothing else may be there.

    The list of pieces is written anew in any case, so workers read what was checked here.
    """
    folder = job.folder
    with file_beside(folder / PIECES) as listed:
        plan = _write_pieces(listed, pieces, batch_size)
        if not plan.offsets:
            raise SettingsError("there is nothing to score; name a folder that holds pictures")
        manifest = {
            "format": FORMAT,
            "detector": job.note.detector,
            "source": plan.digest,
            "parts": len(plan.offsets),
            "neighbours": job.note.neighbours,
        }
        is_new = not (folder / MANIFEST).exists()
        if is_new:
            _check_is_free(folder)
        else:
            _check_manifest(folder, manifest)
        listed.replace(folder / PIECES)  # also an equal one: who knows what became of it since
        sync_folder(folder)
        if is_new:
            write_json(folder / MANIFEST, manifest)
    return plan


def _write_pieces(path: Path, pieces: Iterable[Piece], batch_size: int) -> _PartsPlan:
    identity, offsets, known, place = Identity(), [], 0, 0
    all_known = True
    with path.open("wb") as file:
        for number, some in enumerate(_parts_of(pieces, batch_size), 1):
            line = json.dumps({"part": number, "pieces": [to_json(each) for each in some]})
            offsets.append(place)
            place += file.write(line.encode() + b"\n")
            for piece in some:
                identity.add(piece, number)
            counts = [images_in(piece) for piece in some]
            known += sum(counts)
            all_known = all_known and 0 not in counts
        file.flush()
        os.fsync(file.fileno())
    return _PartsPlan(identity.hexdigest(), offsets, known if all_known else 0)


def _parts_of(pieces: Iterable[Piece], batch_size: int) -> Iterator[list[Piece]]:
    """Yield the pieces of each part: a tar, or about so many images in whole batches."""
    most = _images_per_part(batch_size)
    some: list[Piece] = []
    images = 0
    for piece in pieces:
        is_tar = isinstance(piece, PackedPiece) and piece.scheme == "tar"
        if some and (is_tar or images >= most):
            yield some
            some, images = [], 0
        some.append(piece)
        images += most if is_tar else images_in(piece)
    if some:
        yield some


def _images_per_part(batch_size: int) -> int:
    return batch_size * max(1, round(IMAGES_PER_PART / batch_size))


def _read_part(folder: Path, offset: int) -> tuple[int, list[Piece]]:
    path = folder / PIECES
    try:
        with path.open("rb") as file:
            file.seek(offset)
            content = json.loads(file.readline())
        return index(content["part"]), [from_json(piece) for piece in content["pieces"]]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise DataError(f"{path} is damaged; the same command writes it again") from error


def _check_manifest(folder: Path, wanted: dict[str, Any]) -> None:
    """Raise a SettingsError if the parts in the folder were made otherwise, or of others."""
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        there = {name: found.get(name) for name in wanted}
    except (ValueError, AttributeError, RecursionError) as error:
        raise SettingsError(f"{folder / MANIFEST} is damaged; choose another folder") from error
    for name, what in (
        ("format", "by another version of oddone"),
        ("detector", "by another detector"),
        ("neighbours", "with other columns (--explain)"),
        ("source", "of other images, or of images that have changed since"),
        ("parts", "in another number of parts"),
    ):
        if there[name] != wanted[name]:
            raise SettingsError(
                f"{folder} holds parts that were made {what}; choose another folder with --out"
            )


def _check_is_free(folder: Path) -> None:
    """Raise a SettingsError if there is anything in the folder that is not ours."""
    for path in folder.iterdir():
        if path.name not in (PIECES, LOCK_NAME) and not is_leftover(path.name):
            raise SettingsError(
                f"--out {folder} holds {path.name}, and no parts; name a new folder for them"
            )


def _note_for(share: ShareNote, plan: _PartsPlan) -> ShareNote:
    return replace(share, source=plan.digest, shares=len(plan.offsets))


def _complete_parts(job: PartJob, plan: _PartsPlan) -> dict[int, ShareNote]:
    """Return what the parts that are there say of themselves, by their numbers."""
    done: dict[int, ShareNote] = {}
    for number in range(1, len(plan.offsets) + 1):
        path = part_path(job.folder, number)
        if not path.exists():
            continue
        share = read_note(path)
        wanted = (job.note.detector, plan.digest, number)
        if share is None or (share.detector, share.source, share.number) != wanted:
            raise SettingsError(
                f"{path} is damaged, or of another run; remove it, and it is made again"
            )
        done[number] = share
    return done
