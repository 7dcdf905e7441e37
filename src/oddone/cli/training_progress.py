"""Train with a progress bar, stop when the user presses Ctrl-C, and fit the run's detector."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from oddone.api import fit_run
from oddone.cli.terminal import progress_with_warnings, show_warnings
from oddone.data import ImageSet
from oddone.detector import Detector
from oddone.device import keep_freed_memory
from oddone.encoders import TrainedNetwork
from oddone.training import (
    Outcome,
    RunDirectory,
    StepReport,
    TrainSettings,
    train_network,
)

EXIT_INTERRUPTED = 130  # the exit code of a program that SIGINT, which is Ctrl-C, has ended


def train_with_progress(
    images: ImageSet,
    settings: TrainSettings,
    run: RunDirectory,
    watch: Callable[[StepReport], None] | None = None,
    *,
    start: TrainedNetwork | None = None,
    outliers: ImageSet | None = None,
) -> Outcome:
    """Train or resume a run as `oddone.training.train_network` does, with a progress bar.

    Ctrl-C ends it after the step it is at. `watch` gets every report, too.
    """
    keep_freed_memory()  # every step needs buffers of the same sizes again
    console = Console(stderr=True)
    with (
        _stop_requests() as stop_requested,
        show_warnings(console),
        _training_bar(console) as show,
    ):

        def report_to_both(report: StepReport) -> None:
            show(report)
            if watch is not None:
                watch(report)

        return train_network(
            images,
            settings,
            run,
            start=start,
            outliers=outliers,
            watch=report_to_both,
            stop=stop_requested,
        )


def fit_and_save_detector(run: RunDirectory, images: ImageSet) -> Detector:
    """Fit and calibrate the detector of a finished run, and save it there."""
    with progress_with_warnings() as progress:
        detector = fit_run(run, images, progress=progress)
    detector.save(run.detector_path)
    return detector


@contextmanager
def _training_bar(console: Console) -> Iterator[Callable[[StepReport], None]]:
    """Yield a function that shows a report in a progress bar: step, loss, speed, time left."""
    columns = (
        BarColumn(bar_width=10),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[left]} left"),
        TextColumn("{task.fields[status]}"),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("training", total=1.0, status="", left="?")
        speed = _Speed()

        def show(report: StepReport) -> None:
            speed.update(report)
            terms = "".join(f" {name} {value:.2f}" for name, value in report.terms.items())
            unpaired = f" unpaired {report.unpaired:.0%}" if report.unpaired else ""
            status = (
                f"step {report.step} loss {report.loss:.2f}{terms} "
                f"lr {report.learning_rate:.1g} {speed.rows_per_second:.0f} rows/s{unpaired}"
            )
            bar.update(task, completed=report.share, status=status, left=speed.time_left())

        yield show


class _Speed:
    """The speed of a run, smoothed over its reports, and how long it still takes."""

    def __init__(self) -> None:
        self.last: StepReport | None = None
        self.rows_per_second = 0.0
        self.share_per_second = 0.0

    def update(self, report: StepReport) -> None:
        if self.last is not None and report.seconds > self.last.seconds:
            seconds = report.seconds - self.last.seconds
            self.rows_per_second = self._smooth(self.rows_per_second, report.rows / seconds)
            share = (report.share - self.last.share) / seconds
            self.share_per_second = self._smooth(self.share_per_second, share)
        self.last = report

    def time_left(self) -> str:
        """Return minutes and seconds, or "?" where nothing is known yet."""
        if self.last is None or self.share_per_second <= 0:
            return "?"
        seconds = round((1 - self.last.share) / self.share_per_second)
        return f"{seconds // 60}:{seconds % 60:02d}"

    @staticmethod
    def _smooth(old: float, new: float) -> float:
        return new if old == 0 else 0.95 * old + 0.05 * new


@contextmanager
def _stop_requests() -> Iterator[Callable[[], bool]]:
    """Yield a function that says whether Ctrl-C was pressed, or SIGTERM received.

    So training can stop after a whole step. A second Ctrl-C is a KeyboardInterrupt at once.
    """
    requested = False

    def request(number: int, frame: object) -> None:  # noqa: ARG001
        nonlocal requested
        if requested:
            raise KeyboardInterrupt
        requested = True

    before = {number: signal.signal(number, request) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: requested
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
