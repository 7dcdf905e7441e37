"""The engine of this process: one job after the other."""

from collections.abc import Iterable, Iterator

from oddone.engines.job import MakeWorker, Summary


def run_here(make_worker: MakeWorker, jobs: Iterable[int]) -> Iterator[Summary]:
    """Yield the summary of each job, in order."""
    work = make_worker()
    for job in jobs:
        yield work(job)
