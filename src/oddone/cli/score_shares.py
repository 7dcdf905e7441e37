"""Tables that are a share of a whole: what each says of itself, and how they are put together.

A share is a Parquet file. A note in it says which detector scored which sources, and which share of
how many it is; so tables that do not belong together are never mixed.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from oddone.cli.score_table import Row
from oddone.cli.score_tally import Tally
from oddone.errors import SettingsError

NOTE = "oddone"
ROWS_AT_ONCE = 10_000
NUMBERS_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class ShareNote:
    """What a share says of itself."""

    detector: str
    """The SHA-256 of its file."""
    source: str
    """A hash over all that is scored, also by the other shares."""
    number: int
    """Counted from 1."""
    shares: int
    neighbours: int
    images: int = 0
    anomalous: int = 0
    unreadable: int = 0
    enlarged: int = 0

    def with_counts(self, tally: Tally, enlarged: int) -> "ShareNote":
        """Return the note with what was counted."""
        return replace(
            self,
            images=tally.images,
            anomalous=tally.anomalous,
            unreadable=tally.unreadable,
            enlarged=enlarged,
        )

    def as_metadata(self) -> dict[str, str]:
        """Return the note as Parquet keeps it."""
        return {NOTE: json.dumps(asdict(self))}


def parse_shard(text: str) -> tuple[int, int]:
    """Return the numbers of `--shard 3/16`."""
    match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
    if match is None:
        raise SettingsError(f"--shard {text}: write which of how many, such as 3/16")
    number, shards = int(match[1]), int(match[2])
    if not 1 <= number <= shards:
        raise SettingsError(f"--shard {text}: choose one of 1/{shards} to {shards}/{shards}")
    return number, shards


def read_note(path: Path) -> ShareNote | None:
    """Return what a Parquet file says of itself; None if it is no share, or no Parquet file."""
    from pyarrow import ArrowException, parquet  # noqa: PLC0415  (an extra)

    try:
        content = json.loads(parquet.read_metadata(path).metadata[NOTE.encode()])
        note = ShareNote(**content)
    except (ArrowException, OSError, ValueError, KeyError, TypeError):
        return None
    numbers = (value for name, value in asdict(note).items() if name not in ("detector", "source"))
    return note if all(type(number) is int and number >= 0 for number in numbers) else None


def check_shares(files: Sequence[Path]) -> list[tuple[Path, ShareNote]]:
    """Return the files in the order of their numbers; they must be one whole, each share once."""
    shares: dict[int, tuple[Path, ShareNote]] = {}
    for file in files:
        note = read_note(file)
        if note is None:
            raise SettingsError(
                f"{file} is no share of a table; name .parquet files of --shard or of a folder "
                f"of parts"
            )
        first_file, first = next(iter(shares.values()), (file, note))
        for what, one, other in (
            ("by another detector", note.detector, first.detector),
            ("of other images, or of images that have changed", note.source, first.source),
            ("of another number of shards", note.shares, first.shares),
            ("with other columns", note.neighbours, first.neighbours),
        ):
            if one != other:
                raise SettingsError(
                    f"{file} was made {what} than {first_file}; merge what belongs together"
                )
        if note.number in shares:
            raise SettingsError(
                f"{file} and {shares[note.number][0]} are both share {note.number} of "
                f"{note.shares}; name one of them"
            )
        shares[note.number] = file, note
    _check_none_is_missing(shares)
    return [shares[number] for number in sorted(shares)]


def _check_none_is_missing(shares: dict[int, tuple[Path, ShareNote]]) -> None:
    total = next(iter(shares.values()))[1].shares
    missing = [number for number in range(1, total + 1) if number not in shares]
    if missing:
        shown = ", ".join(map(str, missing[:NUMBERS_SHOWN]))
        more = f" and {len(missing) - NUMBERS_SHOWN:,} more" if len(missing) > NUMBERS_SHOWN else ""
        are, them = ("is", "it") if len(missing) == 1 else ("are", "them")
        raise SettingsError(
            f"of {total:,} shares {len(missing):,} {are} missing: {shown}{more}; score {them} first"
        )


def rows_of(shares: Sequence[tuple[Path, ShareNote]]) -> Iterator[Row]:
    """Yield the rows of all shares; as many as each says it has."""
    from pyarrow import ArrowException, parquet  # noqa: PLC0415  (an extra)

    for path, note in shares:
        number = 0
        try:
            with parquet.ParquetFile(path, pre_buffer=False) as file:
                for batch in file.iter_batches(batch_size=ROWS_AT_ONCE):
                    rows: list[dict[str, Any]] = batch.to_pylist()
                    number += len(rows)
                    yield from rows
        except (ArrowException, OSError) as error:
            raise SettingsError(f"{path} is damaged ({error}); score that share again") from error
        if number != note.images:
            raise SettingsError(
                f"{path} has {number:,} rows and says {note.images:,}; score that share again"
            )
