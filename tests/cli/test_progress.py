"""Progress in a terminal and in a file."""

import io
import re
import warnings
from collections.abc import Iterator

import pytest
from rich.console import Console

from oddone.cli import terminal
from oddone.cli.terminal import describe_duration, progress_bar, show_warnings
from oddone.cli.training_progress import _training_bar, fit_into
from oddone.errors import DataWarning
from oddone.training import StepReport


def reports(steps: int = 50) -> Iterator[StepReport]:
    """Yield what a run of half a minute reports."""
    for step in range(1, steps + 1):
        terms = {"ccm": 2.0 / step, "spa": -1.5}
        yield StepReport(step, step / steps, 2 / step - 1.5, terms, 0.06, 0.25, 256, 0.6 * step)


def frames(console: Console) -> list[str]:
    """Return the lines that a terminal was shown, one after the other, without their colours."""
    assert isinstance(console.file, io.StringIO)
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", console.file.getvalue())
    return [line for line in re.split(r"[\r\n]+", plain) if line.strip()]


def a_terminal(width: int) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, force_interactive=True, width=width)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_training_shows_bar_percent_time_and_loss_in_one_line_of_the_terminal(width: int) -> None:
    console = a_terminal(width)
    with _training_bar(console) as show:
        for report in reports():
            show(report)
    lines = frames(console)
    assert all(len(line) <= width for line in lines)
    assert re.fullmatch(r"━{16} 100%  0:00 left loss -1.46  step 50.*", lines[-1].rstrip())
    assert ("rows/s" in lines[-1]) == (width >= 120)
    assert "…" not in "".join(lines)


def test_a_note_does_not_land_on_the_bar() -> None:
    console = a_terminal(80)
    with warnings.catch_warnings(), show_warnings(console), _training_bar(console) as show:
        for report in reports(4):
            show(report)
            if report.step == 2:
                warnings.warn("few images", DataWarning, stacklevel=1)
    notes = [line for line in frames(console) if "few images" in line]
    assert [line.rstrip() for line in notes] == ["note: few images"]


def test_a_bar_that_never_gets_a_report_prints_nothing() -> None:
    console = a_terminal(80)
    with _training_bar(console), progress_bar(console=console):
        pass
    assert frames(console) == []


def test_in_a_file_training_is_a_line_every_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 1000, 4))  # each look at it is four seconds later
    monkeypatch.setattr(terminal.time, "monotonic", lambda: next(clock))
    console = Console(file=io.StringIO())
    with _training_bar(console) as show:
        for report in reports(8):
            show(report)
    beginnings = [line.partition(", unpaired 25%, ccm ")[0] for line in frames(console)]
    assert beginnings == [
        "training: 38%, 0:03 left, loss -0.83, step 3",
        "training: 75%, 0:01 left, loss -1.17, step 6",
    ]


def test_in_a_file_other_progress_is_a_line_every_ten_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    console = Console(file=io.StringIO())
    now = 0.0
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now)
    with progress_bar(console=console) as show:
        for now in range(31):
            show(100 * now, 6000, "fitting")
        now = 41
        show(5, 0, "pictures\n")
    assert frames(console) == [
        "fitting: 1,000 of 6,000 (17%), 0:50 left",
        "fitting: 2,000 of 6,000 (33%), 0:40 left",
        "fitting: 3,000 of 6,000 (50%), 0:30 left",
        "pictures\\n: 5",
    ]


def test_in_a_file_work_that_is_done_once_more_has_a_time_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    console = Console(file=io.StringIO())
    now = 0.0
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now)
    with progress_bar(console=console) as show:
        for now in range(1000, 1011):
            show(100 * (now - 1000), 1000, "fitting")
        for now in range(2000, 2011):
            show(100 * (now - 2000), 2000, "fitting")
    assert frames(console)[-1] == "fitting: 1,000 of 2,000 (50%), 0:10 left"


def test_in_a_terminal_work_that_is_done_once_more_has_a_time_of_its_own() -> None:
    console = a_terminal(80)
    with progress_bar(after_seconds=0.0, console=console) as show:
        for done in (0, 1000, 10, 20):
            show(done, 1000, "fitting")
    # Seconds are rounded up, so that none are left only where a bar has ended.
    assert re.search(r" 2% +20/1000 (?!00:00)", frames(console)[-1])


@pytest.mark.parametrize("width", [60, 80])
def test_other_progress_fits_the_terminal(width: int) -> None:
    console = a_terminal(width)
    with progress_bar(after_seconds=0.0, console=console) as show:
        for done in range(0, 6001, 1000):
            show(done, 6000, "calibrating")
    lines = frames(console)
    assert all(len(line) <= width for line in lines)
    assert any(re.search(r"calibrating ━+ +100% 6000/6000", line) for line in lines)


def test_details_that_do_not_fit_are_left_out() -> None:
    parts = ["loss 2.34", "step 120", "ccm 1.10"]
    assert fit_into(parts, 29) == "loss 2.34  step 120  ccm 1.10"
    assert fit_into(parts, 28) == "loss 2.34  step 120"
    assert fit_into(parts, 5) == ""


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0:00"), (67.0, "1:07"), (3599.6, "1:00:00"), (3723.0, "1:02:03")]
)
def test_a_duration_reads_like_a_clock(seconds: float, text: str) -> None:
    assert describe_duration(seconds) == text
