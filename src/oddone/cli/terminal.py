"""How the commands speak: sentences, progress bars, and what could not be read."""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TaskID, TextColumn
from rich.text import Text

from oddone.errors import DataWarning, SettingsWarning

if TYPE_CHECKING:
    from oddone.data.image_set import BrokenFile

SECONDS_BEFORE_BAR = 2.0
BROKEN_SHOWN = 20


def list_broken(broken: "Sequence[BrokenFile]") -> None:
    """Print the files that could not be read, the first twenty by name."""
    if broken:
        say(f"{counted(len(broken), 'file', 'files')} could not be read:")
    for file in broken[:BROKEN_SHOWN]:
        say(f"  {file.path}: {file.reason}")
    if len(broken) > BROKEN_SHOWN:
        say(f"  and {len(broken) - BROKEN_SHOWN:,} more")


def counted(number: int, one: str, many: str) -> str:
    """Return a number with the word for one or for many."""
    return f"{number:,} {one if number == 1 else many}"


def say(sentence: str) -> None:
    """Print a sentence as it is: a path may hold what would be markup."""
    sentence = printable(sentence)
    Console().print(sentence, highlight=False, markup=False, emoji=False, soft_wrap=True)


def note(sentence: str) -> None:
    """Print a sentence beside the results, which may be on their way into a file or a pipe."""
    Console(stderr=True).print(Text(printable(sentence)), highlight=False, soft_wrap=True)


def printable(text: str) -> str:
    """Return the text with what would steer a terminal, or is no Unicode, written out."""
    return "".join(
        mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in text
    )


@contextmanager
def show_warnings(console: Console) -> Iterator[None]:
    """Show our warnings as one line of advice each, above the progress bar of the console."""
    ours = (DataWarning, SettingsWarning)
    with warnings.catch_warnings():
        for category in ours:
            warnings.simplefilter("always", category)
        show = warnings.showwarning

        def advise(message: Warning | str, category: type[Warning], *place: Any) -> None:
            if not issubclass(category, ours):
                return show(message, category, *place)
            return console.print(Text(f"note: {message}", style="yellow"), soft_wrap=True)

        warnings.showwarning = advise  # type: ignore[assignment]
        yield


@contextmanager
def bar(
    *columns: ProgressColumn, after_seconds: float = SECONDS_BEFORE_BAR
) -> Iterator[Callable[[int, int, str], None]]:
    """Yield a function to tell progress to; a bar shows it once the work takes its time."""
    console = Console(stderr=True)
    name = TextColumn("{task.description}", markup=False)
    bar = Progress(
        name,
        BarColumn(),
        *columns,
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    started = time.monotonic()
    tasks: dict[str, TaskID] = {}

    def show(done: int, total: int, what: str) -> None:
        if time.monotonic() - started < after_seconds:
            return
        bar.start()
        if what not in tasks:
            tasks[what] = bar.add_task(what)
        bar.update(tasks[what], completed=done, total=total or None)

    try:
        yield show
    finally:
        bar.stop()
