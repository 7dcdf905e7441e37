"""`oddone score --engine ray`, with a Ray of its own: workers and the whole command are killed.

Among the pictures are those that are made to break a reader. In the end each has one row, which is
the row that this process gives it without Ray.
"""

import os
import random
import signal
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from corpus_images import hostile_pictures, mutated_pictures, valid_pictures
from started import end, start, started_by, wait_until, wait_until_gone
from trials import Rounds, Trials

from oddone.cli import app
from packs import tar_of, write_parquet
from small_detector import fitted

pytest.importorskip("ray", reason="needs the extra oddone[ray]")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it looks for processes in /proc")
TARS = 30
"""How many parts there are, as each tar is one, beside one of a folder and a Parquet file."""
WORKER = "ray::MapWorker"
Row = dict[str, object]


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory, rounds: Rounds) -> list[str]:
    """Return the words of a command that scores odd pictures in tars, a folder and a table."""
    folder = tmp_path_factory.mktemp("inputs")
    fitted().save(folder / "d.oddone")
    mutants = dict(mutated_pictures(rounds(100, 2_000), seed=3))
    pictures = list((valid_pictures() | hostile_pictures() | mutants).items())
    (folder / "photos").mkdir()
    for name, content in pictures[:20]:
        (folder / "photos" / name).write_bytes(content)
    write_parquet(folder / "photos.parquet", {"image": [content for _, content in pictures[20:40]]})
    for number in range(TARS):
        content = tar_of(dict(pictures[40 + number :: TARS]))
        (folder / f"{number:02}.tar").write_bytes(content)
    sources = [folder / "photos", folder / "photos.parquet", *sorted(folder.glob("*.tar"))]
    return ["score", str(folder / "d.oddone"), *map(str, sources)]


@pytest.fixture(scope="module")
def alone(words: list[str], tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    """Return the rows that this process makes without Ray."""
    out = tmp_path_factory.mktemp("alone") / "scores"
    assert app.meta([*words, "--out", str(out)]) == 0
    return rows_of(out)


def test_whoever_is_killed_every_picture_has_its_row_once(
    words: list[str], alone: list[Row], tmp_path: Path, trials: Trials, rounds: Rounds
) -> None:
    chosen = random.Random(0)  # noqa: S311
    for number in range(rounds(1, 20)):
        out = tmp_path / str(number)
        command = ["-m", "oddone", *words, "--engine", "ray", "--out", str(out)]
        first, second = sorted(chosen.sample(range(1, TARS // 2), 2))
        with trials.trial("kill: score on Ray, the command", f"after {first} parts"):
            kill_command(command, out, after=first)
        with trials.trial("kill: score on Ray, a worker", f"after {second} parts"):
            kill_worker(command, out, after=second)
            check_rows(rows_of(out), alone, trials)


def kill_command(words: list[str], out: Path, *, after: int) -> None:
    """Kill a command when some parts are done; Ray's workers may outlive it by seconds."""
    command = start(*words, "--workers", "1")
    wait_until(lambda: count_parts(out) >= after or command.poll() is not None)
    command.kill()
    assert end(command)[0] in {-signal.SIGKILL, 0}  # 0: it was over before
    assert count_parts(out) >= after


def kill_worker(words: list[str], out: Path, *, after: int) -> None:
    """Go on with a command at once, and kill one of its workers, whose part another one does."""
    kept = count_parts(out)
    command = start(*words, "--workers", "2")
    wait_until(lambda: count_parts(out) > max(kept, after) or command.poll() is not None)
    names = started_by(command.pid)
    workers = [number for number, name in names.items() if name.startswith(WORKER)]
    for worker in workers[:1]:
        os.kill(worker, signal.SIGKILL)
    code, _, told = end(command)
    assert (code, told) == (0, "")
    wait_until_gone(*workers)


def count_parts(out: Path) -> int:
    return len(list(out.glob("part-*.parquet")))


def rows_of(out: Path) -> list[Row]:
    tables = [pq.read_table(part) for part in sorted(out.glob("*.parquet"))]
    return [row for table in tables for row in table.to_pylist()]


def check_rows(rows: list[Row], wanted: list[Row], trials: Trials) -> None:
    assert [row["path"] for row in rows] == [row["path"] for row in wanted]
    for row, other in zip(rows, wanted, strict=True):
        with trials.trial("fuzz: picture through Ray", row["path"]):
            assert row["reason"] == other["reason"]
            assert row["class_name"] == other["class_name"]
            assert row["anomalous"] == other["anomalous"]
            assert (row["score"] or 0) == pytest.approx(other["score"] or 0, rel=1e-5)
