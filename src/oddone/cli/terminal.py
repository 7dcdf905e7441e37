"""What the commands print: sentences, notes, progress bars, and files that were not used."""

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

from oddone.errors import DataWarning, SettingsWarning

if TYPE_CHECKING:
    from oddone.data.image_set import BrokenFile, ImageSet
    from oddone.detector import Calibration, Detector

SECONDS_BEFORE_BAR = 2.0
SECONDS_BETWEEN_LINES = 10.0
BROKEN_SHOWN = 20
ENDINGS_SHOWN = 5


def say(sentence: str) -> None:
    """Print a sentence. Rich markup in it, for example in a path, has no effect."""
    sentence = printable(sentence)
    Console().print(sentence, highlight=False, markup=False, emoji=False, soft_wrap=True)


def note(sentence: str) -> None:
    """Print a sentence to stderr, because the results on stdout may go into a file or a pipe."""
    Console(stderr=True).print(Text(printable(sentence)), highlight=False, soft_wrap=True)


def printable(text: str) -> str:
    """Return the text with control characters and broken Unicode written as escape sequences."""
    return "".join(
        mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in text
    )


def counted(number: int, one: str, many: str) -> str:
    """Return a number with its noun, such as "1 image" or "2,000 images"."""
    return f"{number:,} {one if number == 1 else many}"


def say_about_files(images: "ImageSet") -> None:
    """Print which files of a source could not be read, and what else a user may not expect."""
    list_broken(images.broken)
    if images.left_out:
        say(describe_left_out(images.left_out))
    if images.enlarged:
        height, width = images.images.shape[2:]
        say(
            f"enlarged: {images.enlarged:,} of {counted(len(images), 'image', 'images')}, "
            f"smaller than {height} x {width} pixels"
        )


def describe_left_out(left_out: Mapping[str, int]) -> str:
    """Return how many files were left out, such as "left out: 12 .txt, 3 .mov"."""
    by_number = sorted(left_out.items(), key=lambda item: (-item[1], item[0]))
    most = by_number[:ENDINGS_SHOWN]
    parts = [f"{files:,} {ending}" for ending, files in most]
    others = sum(left_out.values()) - sum(files for _, files in most)
    return f"left out: {', '.join([*parts, f'{others:,} others'] if others else parts)}"


def list_broken(broken: "Sequence[BrokenFile]") -> None:
    """Print how many files could not be read, and the first twenty with the reasons."""
    if broken:
        say(f"{counted(len(broken), 'file', 'files')} could not be read:")
    for file in broken[:BROKEN_SHOWN]:
        say(f"  {file.path}: {file.reason}")
    if len(broken) > BROKEN_SHOWN:
        say(f"  and {len(broken) - BROKEN_SHOWN:,} more")


def describe_threshold(detector: "Detector") -> str:
    """Return in words which scores the detector calls anomalous."""
    calibration = detector.calibration
    if calibration is None:
        return "it has no threshold yet"
    if calibration.own_classes:
        return _describe_thresholds(detector, calibration)
    low, high = calibration.interval
    images = len(calibration.scores)
    return (
        f"scores above {calibration.threshold:.3f} are anomalous, which for normal images happens "
        f"in {calibration.rank / (images + 1):.1%} of cases (95 % sure: {low:.1%} to {high:.1%}, "
        f"by {images:,} held-out images)"
    )


def _describe_thresholds(detector: "Detector", calibration: "Calibration") -> str:
    """Return in words what the thresholds of the classes are, and how many classes have their own.

    Each class that has one is promised the wanted share of false alarms.
    """
    own = {label: calibration.for_class(label).threshold for label in calibration.own_classes}
    lowest, highest = (
        f"{own[label]:.3f} ({detector.classes[label]})"
        for label in (min(own, key=own.__getitem__), max(own, key=own.__getitem__))
    )
    words = (
        f"scores above the threshold of the predicted class are anomalous, which for normal images "
        f"of each class happens in at most {calibration.false_alarms:.1%} of cases on average; "
        f"{counted(len(own), 'class has its', 'classes have their')} own threshold, "
        f"{lowest if len(own) == 1 else f'{lowest} to {highest}'}"
    )
    others = len(detector.classes) - len(own)
    if not others:
        return words
    return (
        f"{words}; {counted(others, 'class', 'classes')} with fewer than "
        f"{calibration.images_needed} held-out images {'has' if others == 1 else 'have'} that of "
        f"all images, {calibration.threshold:.3f}"
    )


@contextmanager
def show_warnings(console: Console) -> Iterator[None]:
    """Show oddone's warnings as one line each, above the progress bar of the console."""
    ours = (DataWarning, SettingsWarning)
    with warnings.catch_warnings():
        for category in ours:
            warnings.simplefilter("always", category)
        show_others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any) -> None:
            if not issubclass(category, ours):
                return show_others(message, category, *place)
            return console.print(
                Text(printable(f"note: {message}"), style="yellow"), soft_wrap=True
            )

        warnings.showwarning = show  # type: ignore[assignment]
        yield


@contextmanager
def progress_bar(
    *columns: ProgressColumn,
    after_seconds: float = SECONDS_BEFORE_BAR,
    console: Console | None = None,
) -> Iterator[Callable[[int, int, str], None]]:
    """Yield a function to report progress to: how many are done, of how many, and of what.

    A bar appears if the work takes longer than a moment. By default its columns say how many are
    done and how long the rest will take. Where stderr is a file, a line appears every ten seconds.
    """
    console = Console(stderr=True) if console is None else console
    if not console.is_interactive:
        yield _progress_lines(console)
        return
    bar = Progress(
        TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True)),
        BarColumn(bar_width=20),
        TaskProgressColumn(),
        *(columns or (MofNCompleteColumn(), TimeRemainingColumn(compact=True))),
        console=console,
        transient=True,
    )
    started = time.monotonic()
    tasks: dict[str, TaskID] = {}
    rounds = _Rounds()

    def show(done: int, total: int, what: str) -> None:
        if time.monotonic() - started < after_seconds:
            return
        bar.start()
        if what not in tasks:
            tasks[what] = bar.add_task(printable(what))  # it may name a folder
        if rounds.begins_anew(done, total, what):
            bar.reset(tasks[what])
        bar.update(tasks[what], completed=done, total=total or None)

    try:
        yield show
    finally:
        bar.stop()


class _Rounds:
    """Notices where work is done once more, as the fit of a second detector is: its time is new."""

    def __init__(self) -> None:
        self._ended: set[str] = set()

    def begins_anew(self, done: int, total: int, what: str) -> bool:
        """Return whether this work had come to its end, and is reported on again."""
        anew = what in self._ended and done < total
        if 0 < total <= done:
            self._ended.add(what)
        elif anew:
            self._ended.discard(what)
        return anew


@contextmanager
def progress_with_warnings() -> Iterator[Callable[[int, int, str], None]]:
    """Yield as `progress_bar` does, and show oddone's warnings as one line each."""
    console = Console(stderr=True)
    with show_warnings(console), progress_bar(console=console) as progress:
        yield progress


def line_every_ten_seconds(console: Console) -> Callable[[str], None]:
    """Return a function that prints a line, unless it has printed one in the last ten seconds."""
    last = time.monotonic()

    def show(line: str) -> None:
        nonlocal last
        if time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            console.print(Text(printable(line)), soft_wrap=True)

    return show


def describe_duration(seconds: float) -> str:
    """Return seconds as a clock shows them: 0:07, 12:34 or 1:02:03."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def _progress_lines(console: Console) -> Callable[[int, int, str], None]:
    """Return a function that reports progress as a line every ten seconds."""
    show = line_every_ten_seconds(console)
    began: dict[str, tuple[float, int]] = {}
    rounds = _Rounds()

    def report(done: int, total: int, what: str) -> None:
        if rounds.begins_anew(done, total, what):
            began.pop(what, None)
        start, already = began.setdefault(what, (time.monotonic(), done))
        line = f"{what}: {done:,}"
        if total:
            line = f"{line} of {total:,} ({done / total:.0%})"
            if done > already:
                left = (time.monotonic() - start) * (total - done) / (done - already)
                line = f"{line}, {describe_duration(left)} left"
        show(line)

    return report
