"""Train with a progress bar, stop when the user presses Ctrl-C, and fit the run's detector."""

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Column

from oddone.api import fit_run, keep_detector
from oddone.cli.terminal import (
    describe_duration,
    line_every_ten_seconds,
    progress_bar,
    progress_with_warnings,
    show_warnings,
)
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

BAR_WIDTH = 16
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
        ExitStack() as before_first_step,
    ):
        progress = before_first_step.enter_context(progress_bar(console=console))

        def report_to_both(report: StepReport) -> None:
            before_first_step.close()  # there can be only one bar at a time
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
            progress=progress,
        )


def fit_and_save_detector(run: RunDirectory, images: ImageSet) -> Detector:
    """Fit and calibrate the detector of a finished run, and save it there."""
    with progress_with_warnings() as progress:
        detector = fit_run(run, images, progress=progress)
    keep_detector(run, detector)
    return detector


@contextmanager
def _training_bar(console: Console) -> Iterator[Callable[[StepReport], None]]:
    """Yield a function that shows a report in a progress bar: time left, loss, and details.

    Details that are too many for the terminal are left out. Where stderr is a file, a line appears
    every ten seconds.
    """
    speed = _Speed()
    if not console.is_interactive:
        print_line = line_every_ten_seconds(console)

        def show_line(report: StepReport) -> None:
            speed.update(report)
            details = ", ".join(_details(report, speed))
            print_line(f"training: {report.share:.0%}, {speed.time_left()} left, {details}")

        yield show_line
        return

    bar = Progress(
        BarColumn(bar_width=BAR_WIDTH),
        *(
            TextColumn(f"{{task.fields[{field}]}}", markup=False, table_column=Column(no_wrap=True))
            for field in ("numbers", "details")
        ),
        console=console,
    )
    task = bar.add_task("training", total=1.0, numbers="", details="")

    def show(report: StepReport) -> None:
        speed.update(report)
        numbers = f"{min(report.share, 1):4.0%} {speed.time_left():>5} left"
        width = console.width - BAR_WIDTH - len(numbers) - len("  ")
        details = fit_into(_details(report, speed), width)
        bar.update(task, completed=report.share, numbers=numbers, details=details)
        bar.start()

    try:
        yield show
    finally:
        bar.stop()


def fit_into(parts: Iterable[str], width: int) -> str:
    """Return the first of the parts, as many as a line of that many characters holds.

    >>> fit_into(["loss 2.34", "step 120", "ccm 1.10"], 20)
    'loss 2.34  step 120'
    """
    line = ""
    for part in parts:
        longer = f"{line}  {part}" if line else part
        if len(longer) > width:
            break
        line = longer
    return line


def _details(report: StepReport, speed: "_Speed") -> Iterator[str]:
    """Yield what a person may want to know of a step, the most important first."""
    yield f"loss {report.loss:.2f}"
    yield f"step {report.step}"
    if report.unpaired:
        yield f"unpaired {report.unpaired:.0%}"
    for name, value in report.terms.items():
        yield f"{name} {value:.2f}"
    yield f"{speed.rows_per_second:.0f} rows/s"
    yield f"lr {report.learning_rate:.1g}"


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
        """Return how long the rest takes, or "?" where nothing is known yet."""
        if self.last is None or self.share_per_second <= 0:
            return "?"
        return describe_duration(max(0, 1 - self.last.share) / self.share_per_second)

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
