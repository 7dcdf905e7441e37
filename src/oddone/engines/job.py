"""What all engines run: jobs by their numbers, each done by a worker, whole or not at all.

A job may be begun twice, when the process that had it is killed. So whoever does it leaves nothing
before it is done, and the same thing each time.
"""

from collections.abc import Callable
from typing import TypeAlias

Summary: TypeAlias = dict[str, int]
"""What is counted of a job, by name."""
Worker: TypeAlias = Callable[[int], Summary]
"""Does the job with that number."""
MakeWorker: TypeAlias = Callable[[], Worker]
"""Makes what does jobs, once in each process; it must be possible to send it to another."""


class JobFailedError(Exception):
    """A worker could not do a job; the message is that of the error that the user can fix."""
