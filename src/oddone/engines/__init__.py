"""Who does a long list of jobs: this process, or workers of Ray on one machine or many."""

from oddone.engines.job import JobFailedError, MakeWorker, Summary, Worker
from oddone.engines.local import run_here

__all__ = ["JobFailedError", "MakeWorker", "Summary", "Worker", "run_here"]
