"""The engine of Ray, on one Ray for all tests.

A command that starts a Ray of its own, and whose workers are killed, is in faults/test_ray.py.
"""

import logging
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from doubling import make_double, make_refuse

from oddone.cli import app
from oddone.cli.score_apart import EngineOptions
from oddone.engines import JobFailedError
from oddone.engines.ray_data import STORE_BYTES, run_on_ray
from oddone.errors import SettingsError
from packs import some_pictures
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
def test_the_command_joins_a_ray_and_writes_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray is that of all tests; only how it is joined and left is noted instead of done."""
    running, calls = ray.get_runtime_context().gcs_address, []
    first = iter([False])  # to the command; Ray itself asks, too
    monkeypatch.setattr("ray.is_initialized", lambda: next(first, True))
    monkeypatch.setattr("ray.init", lambda **how: calls.append(how))
    monkeypatch.setattr("ray.shutdown", lambda: calls.append("shut down"))
    detector, photos, out = (tmp_path / name for name in ("d.oddone", "photos", "scores"))
    fitted().save(detector)
    photos.mkdir()
    for number, picture in enumerate(some_pictures(5)):
        (photos / f"{number}.png").write_bytes(picture)
    words = ["--engine", "ray", "--workers", "1", "--address", running, "--out", str(out)]
    app.meta(["score", str(detector), str(photos), *words])
    begun, ended = calls
    assert (begun["address"], begun.get("num_cpus"), ended) == (running, None, "shut down")
    (part,) = out.glob("*.parquet")
    assert len({row["path"] for row in pq.read_table(part).to_pylist()}) == 5


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
