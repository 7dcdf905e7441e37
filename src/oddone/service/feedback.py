"""What users say of verdicts, in an SQLite file: what was acknowledged is on the disk."""

import math
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Literal, NamedTuple

from oddone.errors import ArtifactError, DataError
from oddone.provenance import now

Said = Literal["normal", "anomalous"]
APPLICATION_ID = 0x0DD0E
FORMAT = 1
SECONDS_TO_WAIT = 10.0
"""For another process that writes to the same file."""
SECONDS_BETWEEN_TRIES = 0.02
PRIMARY_CODE = 0xFF
"""The bits of SQLite's error codes that say what kind of error it is."""

_TABLES = f"""
begin immediate;
create table if not exists about (store text not null);
insert into about select lower(hex(randomblob(16))) where not exists (select * from about);
create table if not exists feedback (
    id integer primary key,
    date text not null,
    detector text not null,
    detector_sha256 text not null,
    scoring_digest text not null,
    image_sha256 text not null,
    score real not null,
    p_value real,
    label integer not null,
    class_name text not null,
    anomalous integer,
    said text not null check (said in ('normal', 'anomalous')),
    said_class text
);
pragma application_id = {APPLICATION_ID};
pragma user_version = {FORMAT};
commit;
"""  # noqa: S608  (numbers of our own)
"""It changes nothing where another service has just made them."""


@dataclass(frozen=True, kw_only=True)
class Feedback:
    """A verdict that the service gave, and what a user says of it."""

    detector: str
    detector_sha256: str
    scoring_digest: str
    """Tells which detectors would give the same score; see `Detector.scoring_digest`."""
    image_sha256: str
    score: float
    p_value: float | None
    label: int
    class_name: str
    anomalous: bool | None
    said: Said
    said_class: str | None = None
    """The class that it is, by the user."""


class ConfirmedScores(NamedTuple):
    """The scores of images that users call normal, the last word on each image."""

    scores: list[float]
    labels: list[int]
    store: str
    """Which file of feedback it was."""
    last: int
    """The number of the last entry."""


class FeedbackStore:
    """The file that a service writes feedback to, from any thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = Lock()
        with _errors_explained(path):
            # Each statement is a transaction, which is on the disk when it returns.
            self._connection = sqlite3.connect(
                path, timeout=SECONDS_TO_WAIT, isolation_level=None, check_same_thread=False
            )
            use_write_ahead_log(self._connection)
            self._connection.execute("pragma synchronous = full")
            _make_tables(self._connection, path)

    def add(self, feedback: Feedback) -> int:
        """Store what a user says, and return its number once the disk has it.

        An sqlite3.Error means that it is not stored, and that all before it still is.
        """
        values = {"date": now(), **vars(feedback)}
        names = ", ".join(values)
        places = ", ".join(f":{name}" for name in values)
        with self._lock:
            cursor = self._connection.execute(
                f"insert into feedback ({names}) values ({places})",  # noqa: S608  (our own names)
                values,
            )
            return cursor.lastrowid or 0

    def count(self) -> int:
        """Return how many entries there are."""
        with self._lock:
            (count,) = self._connection.execute("select count(*) from feedback").fetchone()
        return int(count)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()


def read_confirmed(
    path: Path, scoring_digest: str, seen: Mapping[str, int] | None = None
) -> ConfirmedScores:
    """Return the scores, by this way of scoring, of the images that users call normal.

    What users said of an image last counts. `seen` has for each store the number of the last entry
    that was used before; entries up to it are left out.
    """
    if not path.is_file():
        raise ArtifactError(f"{path} is no file; name that of oddone serve --feedback")
    with (
        _errors_explained(path),
        closing(sqlite3.connect(path, timeout=SECONDS_TO_WAIT)) as connection,
    ):
        _check_kind(connection, path)
        (store,) = connection.execute("select store from about").fetchone()
        (last,) = connection.execute("select coalesce(max(id), 0) from feedback").fetchone()
        rows = connection.execute(
            "select score, label from feedback where id in (select max(id) from feedback "
            "where scoring_digest = ? and id > ? group by image_sha256) and said = 'normal' "
            "order by id",
            (scoring_digest, (seen or {}).get(store, 0)),
        ).fetchall()
    if not all(isinstance(score, float) and math.isfinite(score) for score, _ in rows):
        raise DataError(f"{path} has scores that are no numbers; keep feedback in another file")
    scores, labels = [score for score, _ in rows], [label for _, label in rows]
    return ConfirmedScores(scores, labels, store, last)


def use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Let readers and a writer of a file not wait for each other.

    Where several services switch a new file at the same moment, SQLite tells some of them at once
    that it is busy, however long the connection would wait.
    """
    deadline = time.monotonic() + SECONDS_TO_WAIT
    while True:
        try:
            connection.execute("pragma journal_mode = wal")
        except sqlite3.OperationalError as error:
            is_busy = error.sqlite_errorcode & PRIMARY_CODE == sqlite3.SQLITE_BUSY
            if not is_busy or time.monotonic() > deadline:
                raise
            time.sleep(SECONDS_BETWEEN_TRIES)
        else:
            return


def _make_tables(connection: sqlite3.Connection, path: Path) -> None:
    (tables,) = connection.execute("select count(*) from sqlite_master").fetchone()
    if tables:
        _check_kind(connection, path)
        return
    connection.executescript(_TABLES)


def _check_kind(connection: sqlite3.Connection, path: Path) -> None:
    (application,) = connection.execute("pragma application_id").fetchone()
    (version,) = connection.execute("pragma user_version").fetchone()
    if (application, version) != (APPLICATION_ID, FORMAT):
        raise ArtifactError(f"{path} is no file of feedback of this version; name another one")


@contextmanager
def _errors_explained(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise ArtifactError(
            f"{path} cannot be used for feedback: {error}; name a file in a folder that exists, "
            f"with room on its disk"
        ) from error
