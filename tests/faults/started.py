"""Commands of oddone in processes of their own, and what they have started in their turn."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

SECONDS = 300
"""How long anything may take."""

Started: TypeAlias = "subprocess.Popen[str]"


def start(*words: str, **variables: str) -> Started:
    """Start Python with these words, such as a command of oddone."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(  # noqa: S603
        [sys.executable, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment | variables,
        start_new_session=True,
    )


def end(process: Started) -> tuple[int, str, str]:
    """Return the exit code of a process, what it printed, and its lines of error."""
    printed, complained = output_of(process)
    told = [line for line in complained.splitlines() if line.startswith("oddone: ")]
    assert "Traceback" not in complained, complained
    return process.returncode, printed, "\n".join(told)


def output_of(process: Started) -> tuple[str, str]:
    """Wait until a process ends, and return what it printed and what it complained of."""
    try:
        return process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise


def started_by(process: int) -> dict[int, str]:
    """Return the processes that a process has started, and they in their turn, and their names."""
    parents, found = _parents(), {process}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return {number: _name(number) for number in found - {process}}


def children_of(process: int) -> list[int]:
    """Return the processes that a process has started itself."""
    return [child for child, parent in _parents().items() if parent == process]


def _parents() -> dict[int, int]:
    """Return the parent of each process that runs."""
    parents = {}
    for folder in Path("/proc").iterdir():
        try:
            state, parent, *_ = (folder / "stat").read_text().rpartition(")")[2].split()
            if state != "Z":  # it has ended, and nobody has asked how
                parents[int(folder.name)] = int(parent)
        except (OSError, ValueError):
            continue  # no process, or one that has just ended
    return parents


def _name(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ")
    except OSError:  # it has just ended
        return ""


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def wait_until_gone(*processes: int) -> None:
    """Wait until processes have ended, as they do by themselves when their starter is killed."""
    wait_until(lambda: not _parents().keys() & set(processes))
