"""A run at the command line: where it comes from, how it is watched, and its detector."""

import hashlib
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from oddone.cli.terminal import bar, show_warnings
from oddone.data import ImageSet
from oddone.detector import Detector, detector_of_run
from oddone.device import keep_freed_memory
from oddone.provenance import machine, now, versions
from oddone.training import Outcome, Report, RunDirectory, TrainedNetwork, TrainSettings, train


def provenance_of(
    source: str, images: ImageSet, settings: TrainSettings, *, strict: bool
) -> dict[str, Any]:
    """Return what one would want to know to repeat a run."""
    return {
        "command": ["oddone", *sys.argv[1:]],
        "date": now(),
        "seed": settings.seed,
        "versions": versions("numpy", "pillow", "safetensors"),
        "machine": asdict(machine()),
        "data": described(source, images, size=settings.model.image_size, strict=strict),
    }


def described(source: str, images: ImageSet, *, size: int | None, strict: bool) -> dict[str, Any]:
    """Return what is needed to load images again, and to see whether they have changed."""
    return {
        "source": source,
        "size": size,
        "strict": strict,
        "images": len(images),
        "classes": list(images.classes),
        "fingerprint": images.fingerprint,
        "broken": [list(broken) for broken in images.broken],
    }


def identified(encoder: Path) -> dict[str, str]:
    """Return where an encoder's file is, and a hash by which to know it again."""
    with encoder.open("rb") as file:
        return {"encoder": str(encoder), "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def train_watched(
    images: ImageSet,
    settings: TrainSettings,
    run: RunDirectory,
    watch: Callable[[Report], None] | None = None,
    *,
    start: TrainedNetwork | None = None,
    outliers: ImageSet | None = None,
) -> Outcome:
    """Train, or go on, with a progress bar that `watch` is told of too; Ctrl-C stops."""
    columns = (
        BarColumn(bar_width=10),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[eta]} left"),
        TextColumn("{task.fields[status]}"),
    )
    keep_freed_memory()  # a step asks for the same buffers again
    console = Console(stderr=True)
    with (
        _interrupts() as interrupted,
        show_warnings(console),
        Progress(*columns, console=console) as shown,
    ):
        task = shown.add_task("training", total=1.0, status="", eta="?")
        rate = _Rate()

        def show(report: Report) -> None:
            speed, left = rate.after(report)
            terms = "".join(f" {name} {value:.2f}" for name, value in report.terms.items())
            unpaired = f" unpaired {report.unpaired:.0%}" if report.unpaired else ""
            status = (
                f"step {report.step} loss {report.loss:.2f}{terms} "
                f"lr {report.learning_rate:.1g} {speed:.0f} rows/s{unpaired}"
            )
            shown.update(task, completed=report.share, status=status, eta=left)
            if watch is not None:
                watch(report)

        return train(
            images,
            settings,
            run,
            start=start,
            outliers=outliers,
            watch=show,
            stop=interrupted,
        )


class _Rate:
    """How fast a run goes, smoothed, and how long it still takes."""

    def __init__(self) -> None:
        self.last: Report | None = None
        self.rows_per_second = 0.0
        self.share_per_second = 0.0

    def after(self, report: Report) -> tuple[float, str]:
        if self.last is not None and report.seconds > self.last.seconds:
            took = report.seconds - self.last.seconds
            self.rows_per_second = self._smooth(self.rows_per_second, report.rows / took)
            done = (report.share - self.last.share) / took
            self.share_per_second = self._smooth(self.share_per_second, done)
        self.last = report
        if self.share_per_second <= 0:
            return self.rows_per_second, "?"
        seconds = round((1 - report.share) / self.share_per_second)
        return self.rows_per_second, f"{seconds // 60}:{seconds % 60:02d}"

    @staticmethod
    def _smooth(old: float, new: float) -> float:
        return new if old == 0 else 0.95 * old + 0.05 * new


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Turn Ctrl-C and SIGTERM into a wish to stop after the step; a second Ctrl-C stops at once."""
    wished = False

    def wish(number: int, frame: object) -> None:  # noqa: ARG001
        nonlocal wished
        if wished:
            raise KeyboardInterrupt
        wished = True

    before = {number: signal.signal(number, wish) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: wished
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def finish_detector(run: RunDirectory, images: ImageSet) -> Detector:
    """Fit and calibrate the detector of a finished run, and save it there."""
    with (
        show_warnings(Console(stderr=True)),
        bar(MofNCompleteColumn(), TimeRemainingColumn()) as progress,
    ):
        detector = detector_of_run(run, images, progress=progress)
    detector.save(run.detector)
    return detector
