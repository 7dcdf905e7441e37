"""The engine of Ray Data: jobs in actors, on the cores of this machine or on a cluster.

This is the only file that imports Ray. An actor is a process with one core, one worker and one
thread of torch. What an actor was at when it was killed is done again by another, as Ray restarts
actors and gives them their tasks again.

Nothing but the numbers of jobs and their summaries goes through Ray's object store: workers read
their images and write their results themselves.
"""

import logging
import os
import socket
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from oddone.engines.job import JobFailedError, MakeWorker, Summary, Worker
from oddone.errors import OddOneError, SettingsError

STORE_BYTES = 80 * 2**20  # the least that Ray takes is 75 MiB
MOST_BLOCKS = 10_000  # tasks that Ray keeps in mind; with more jobs, a task is several jobs
CONNECT_SECONDS = 5.0
_JOB, _FAILED = "job", "failed"


def run_on_ray(
    make_worker: MakeWorker,
    jobs: Sequence[int],
    *,
    workers: int | None = None,
    address: str | None = None,
) -> Iterator[Summary]:
    """Yield the summary of each job, in the order in which they end.

    Without an address, Ray is started on this machine and shut down at the end. A cluster that is
    joined is left as it was.
    """
    if not jobs:
        return
    ray = _import_ray()
    with _running(ray, workers, address):
        if workers is None:
            workers = max(1, int(ray.cluster_resources().get("CPU", 1)))
        workers = min(workers, len(jobs))
        numbers = ray.data.from_items(
            [{_JOB: job} for job in jobs], override_num_blocks=min(len(jobs), MOST_BLOCKS)
        )
        summaries = numbers.map_batches(
            _Actor,
            fn_constructor_args=(make_worker,),
            batch_size=1,
            num_cpus=1,
            compute=ray.data.ActorPoolStrategy(size=workers),
        )
        yield from _read(summaries.iter_rows(), ray.exceptions.RayError)


def _read(rows: Iterable[dict[str, Any]], of_ray: type[Exception]) -> Iterator[Summary]:
    try:
        for row in rows:
            failed = row.pop(_FAILED)
            if failed:
                raise JobFailedError(failed)
            yield row
    except of_ray as error:
        raise JobFailedError(
            f"Ray cannot go on ({_first_line(error)}); what is done is kept: run the same command "
            f"again, with fewer --workers if memory is short"
        ) from error


class _Actor:
    """What Ray calls with numbers of jobs."""

    def __init__(self, make_worker: MakeWorker) -> None:
        self._make_worker = make_worker
        self._work: Worker | None = None

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        (job,) = batch[_JOB].tolist()
        try:
            if self._work is None:
                self._work = self._make_worker()
            summary = self._work(job)
        except (OddOneError, OSError) as error:  # as a row, because Ray would wrap it into its own
            return {_FAILED: [str(error) or type(error).__name__]}
        return {_FAILED: [""], **{name: [count] for name, count in summary.items()}}


def _import_ray() -> Any:
    """Return Ray, which is told before it is imported to keep to itself."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray  # noqa: PLC0415  (an extra)
        import ray.data  # noqa: PLC0415
    except ImportError as error:
        raise SettingsError(
            "--engine ray needs a package that is not here: pip install 'oddone[ray]'"
        ) from error
    return ray


@contextmanager
def _running(ray: Any, workers: int | None, address: str | None) -> Iterator[None]:
    """Start Ray, or join a cluster, unless this process has done so already."""
    ours = not ray.is_initialized()
    if ours and address is not None:
        _join(ray, address)
    elif ours:
        _start(ray, workers)
    _silence(ray)
    try:
        yield
    finally:
        if ours:
            ray.shutdown()


def _start(ray: Any, workers: int | None) -> None:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    try:
        with _stderr_off():
            ray.init(
                address="local",
                num_cpus=workers or cores or 1,
                object_store_memory=STORE_BYTES,
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
    except (OSError, RuntimeError, ValueError) as error:
        raise SettingsError(
            f"Ray cannot be started here ({_first_line(error)}); make room in "
            f"{tempfile.gettempdir()} and in memory, or leave out --engine ray"
        ) from error


def _join(ray: Any, address: str) -> None:
    _check_answers(address)
    try:
        with _stderr_off():
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError, ValueError) as error:
        raise _unreachable(address, _first_line(error)) from error


def _check_answers(address: str) -> None:
    """Raise a SettingsError if nobody listens at an address: Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon:
        if address == "auto":
            return
        raise SettingsError(f"--address {address}: write HOST:PORT, ray://HOST:PORT or auto")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS):
            pass
    except ValueError as error:
        raise SettingsError(f"--address {address}: the port must be a number") from error
    except OSError as error:
        raise _unreachable(address, (error.strerror or str(error)).lower()) from error


def _unreachable(address: str, why: str) -> SettingsError:
    return SettingsError(
        f"--address {address}: no Ray cluster answers there ({why}); start one with "
        f"`ray start --head`, set RAY_AUTH_MODE=token if it asks for Ray's token, or leave out "
        f"--address to use this machine"
    )


@contextmanager
def _stderr_off() -> Iterator[None]:
    """Drop what C++ writes to stderr: Ray tells there that it was told to tell nothing."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as nothing:  # noqa: PTH123
            os.dup2(nothing.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _silence(ray: Any) -> None:
    """Let Ray tell neither what it plans nor how far it is: whoever runs jobs tells the user."""
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
