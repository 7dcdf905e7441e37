"""A command in several processes: they are started, and speak with one voice."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

from oddone import distributed

PROCESSES = "--processes"


def start_processes(number: int) -> int:
    """Run the command line of this process in so many others, and return their exit code."""
    return distributed.start(number, without_processes(sys.argv[1:]))


def without_processes(words: Sequence[str]) -> list[str]:
    """Return a command line without the number of processes.

    >>> without_processes(["train", "fashion", "--processes", "2", "--out", "run"])
    ['train', 'fashion', '--out', 'run']
    """
    before = ["", *words[:-1]]
    return [
        word
        for word, last in zip(words, before, strict=True)
        if PROCESSES not in {word, last} and not word.startswith(f"{PROCESSES}=")
    ]


@contextmanager
def as_one_process() -> Iterator[None]:
    """Join the processes that `torchrun` or `--processes` has started; all but one are silent."""
    with distributed.joined():
        if distributed.is_first():
            yield
            return
        with (
            Path(os.devnull).open("w") as nowhere,
            redirect_stdout(nowhere),
            redirect_stderr(nowhere),
        ):
            yield
