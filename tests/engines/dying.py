"""Workers that are killed, once, in the middle of a job."""

import os
import signal
import threading
from functools import partial
from pathlib import Path

from oddone.engines import MakeWorker, Summary, Worker


class DyingWorker:
    """Does what another worker does, and is killed a moment after the first job has begun."""

    def __init__(self, make_worker: MakeWorker, marker: Path) -> None:
        self._work: Worker = make_worker()
        self._marker = marker

    def __call__(self, job: int) -> Summary:
        try:
            self._marker.touch(exist_ok=False)
        except FileExistsError:
            return self._work(job)
        threading.Timer(0.02, partial(os.kill, os.getpid(), signal.SIGKILL)).start()
        self._work(job)
        signal.pause()
        return {}


def double(job: int) -> Summary:
    return {"double": 2 * job, "process": os.getpid()}


def make_double() -> Worker:
    return double


def refuse(job: int) -> Summary:
    raise OSError(28, "No space left on device", f"part-{job}")


def make_refuse() -> Worker:
    return refuse
