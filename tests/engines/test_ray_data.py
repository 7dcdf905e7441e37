"""The engine of Ray, on one Ray for all tests."""

import hashlib
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from dying import DyingWorker, make_double, make_refuse

from oddone.cli import app, score_parts
from oddone.cli.score_apart import EngineOptions
from oddone.cli.score_parts import PartJob, part_path, score_in_parts
from oddone.cli.score_shares import ShareNote
from oddone.data.stream import list_pieces
from oddone.engines import JobFailedError, run_here
from oddone.engines.ray_data import STORE_BYTES, run_on_ray
from oddone.errors import SettingsError
from packs import some_pictures, tar_of, write_parquet
from small_detector import fitted

ray = pytest.importorskip("ray", reason="needs the extra oddone[ray]")


@pytest.fixture(scope="session")
def _ray() -> Iterator[None]:
    """Start Ray once: that takes seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Ray's own files and sockets
        ray.init(
            address="local",
            num_cpus=2,
            object_store_memory=STORE_BYTES,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(sys.path)}},
        )
        yield
        ray.shutdown()


pytestmark = pytest.mark.filterwarnings("ignore::Warning:ray")


@pytest.mark.usefixtures("_ray")
def test_every_job_is_done_once_in_other_processes() -> None:
    summaries = list(run_on_ray(make_double, range(6), workers=2))
    assert sorted(row["double"] for row in summaries) == [0, 2, 4, 6, 8, 10]
    assert os.getpid() not in {row["process"] for row in summaries}
    assert list(run_on_ray(make_double, [])) == []
    with pytest.raises(JobFailedError, match="No space left on device: 'part-3'"):
        list(run_on_ray(make_refuse, [3], workers=1))


@pytest.mark.usefixtures("_ray")
def test_a_killed_worker_does_its_part_again_and_all_rows_are_those_of_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(score_parts, "_images_per_part", lambda _: 16)
    detector, sources = tmp_path / "d.oddone", write_sources(tmp_path)
    fitted().save(detector)
    killed = tmp_path / "killed"

    def run_and_kill(make_worker: object, jobs: list[int]) -> object:
        return run_on_ray(partial(DyingWorker, make_worker, killed), jobs, workers=2)

    about = ShareNote(detector=sha256_of(detector), source="", number=1, shares=1, neighbours=0)
    tables = []
    for name, run in (("here", run_here), ("ray", run_and_kill)):
        job = PartJob(tmp_path / name, detector, about)
        pieces, _ = list_pieces(sources)
        outcome = score_in_parts(job, pieces, batch_size=16, run=run, progress=None)
        numbers = range(1, outcome.parts + 1)
        tables.append([row for n in numbers for row in rows_of(part_path(job.folder, n))])
    assert killed.exists()
    here, there = tables
    assert [row["path"] for row in there] == [row["path"] for row in here]
    assert len({row["path"] for row in there}) == len(there) == 40 + 1 + 5 + 6
    assert [row["reason"] for row in there] == [row["reason"] for row in here]
    assert sum(row["reason"] is not None for row in there) == 1
    scores = [[row["score"] or 0.0 for row in table] for table in tables]
    np.testing.assert_allclose(*scores, rtol=1e-5)


@pytest.mark.usefixtures("_ray")
@pytest.mark.parametrize("joins", [False, True])
def test_the_command_starts_a_ray_or_joins_one_and_writes_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, joins: bool
) -> None:
    """Ray is that of all tests; only its start and its end are noted instead of made."""
    running, calls = ray.get_runtime_context().gcs_address, []
    first = iter([False])  # to the command; Ray itself asks, too
    monkeypatch.setattr("ray.is_initialized", lambda: next(first, True))
    monkeypatch.setattr("ray.init", lambda **how: calls.append(how))
    monkeypatch.setattr("ray.shutdown", lambda: calls.append("shut down"))
    detector, out = tmp_path / "d.oddone", tmp_path / "scores"
    fitted().save(detector)
    where = ["--address", running] if joins else []
    words = ["--engine", "ray", "--workers", "1", *where, "--out", str(out)]
    app.meta(["score", str(detector), *write_sources(tmp_path), *words])
    begun, ended = calls
    assert ended == "shut down"
    assert begun["address"] == (running if joins else "local")
    assert begun.get("num_cpus") == (None if joins else 1)
    rows = [row for path in sorted(out.glob("*.parquet")) for row in rows_of(path)]
    assert len({row["path"] for row in rows}) == len(rows) == 40 + 1 + 5 + 6


def write_sources(folder: Path) -> list[str]:
    """Return a folder with a broken file, a tar and a Parquet file of pictures."""
    photos = folder / "photos"
    photos.mkdir()
    for number, picture in enumerate(some_pictures(40)):
        (photos / f"{number}.png").write_bytes(picture)
    (photos / "broken.png").write_text("no picture")
    contents = {f"{number}.png": each for number, each in enumerate(some_pictures(5, seed=50))}
    (folder / "a.tar").write_bytes(tar_of(contents))
    write_parquet(folder / "a.parquet", {"image": some_pictures(6, seed=60)})
    return [str(photos), str(folder / "a.tar"), str(folder / "a.parquet")]


def rows_of(path: Path) -> list[dict[str, object]]:
    return pq.read_table(path).to_pylist()


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:9", "no Ray cluster answers there (connection refused)"),
        ("somewhere", "write HOST:PORT, ray://HOST:PORT or auto"),
        ("somewhere:else", "the port must be a number"),
    ],
)
def test_an_address_where_nobody_answers_is_one_line(
    address: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    with pytest.raises(SettingsError) as caught:
        list(EngineOptions("ray", address=address).run(make_double, [1]))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_ray_the_engine_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SettingsError, match="pip install 'oddone.ray.'"):
        list(run_on_ray(make_double, [1]))
