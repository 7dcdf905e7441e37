"""Workers that take no time."""

import os

from oddone.engines import Summary, Worker


def double(job: int) -> Summary:
    return {"double": 2 * job, "process": os.getpid()}


def make_double() -> Worker:
    return double


def refuse(job: int) -> Summary:
    raise OSError(28, "No space left on device", f"part-{job}")


def make_refuse() -> Worker:
    return refuse
