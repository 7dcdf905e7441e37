"""A command in several processes: they are started, and speak with one voice."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

from oddone import distributed
from oddone.data import ImageSet
from oddone.training import RunDirectory
from oddone.training.checkpoint import newest_checkpoint

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


def check_same_images(images: ImageSet, outliers: ImageSet | None = None) -> None:
    """Raise a SettingsError unless all processes have loaded the same images."""
    distributed.check_same(
        {
            "the number of images": len(images),
            "the fingerprint of the images": images.fingerprint,
            "the fingerprint of the outliers": None if outliers is None else outliers.fingerprint,
        }
    )


def is_restarted(out: Path) -> bool:
    """Return whether `torchrun` has started this command anew, after it had begun this run.

    A run that has not come to a checkpoint is removed, and begun anew.
    """
    launch = distributed.restart_of()

    def look() -> bool:
        if launch is None or not RunDirectory.exists(out):
            return False
        run = RunDirectory.open(out)
        if run.provenance.get("launch") != launch:
            return False
        begun = newest_checkpoint(run.checkpoints) is not None
        if not begun:
            run.remove()
        return begun

    restarted: bool = distributed.from_first(look)
    return restarted
