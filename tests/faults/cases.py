"""Cases that are tried in processes apart, and what must not come of any of them."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
MOST_SECONDS = 5.0
"""Of processor time, which others on the same machine do not change."""
MOST_BYTES = 2**30
"""What one case may take, beside what the process has taken before."""


@dataclass(frozen=True)
class Outcome:
    """What became of one case."""

    name: str
    read: Any = None
    """What the reader returned."""
    refused: str | None = None
    """The message of the error that a reader may raise."""
    raised: str | None = None
    """The traceback of any other error, or how the process ended."""
    seconds: float = 0.0
    bytes: int = 0
    ran: list[str] = field(default_factory=list)
    """What it ran, or tried to."""

    def check(self) -> None:
        """Raise an AssertionError unless it was read or refused, quickly and in little memory."""
        assert self.raised is None, self.raised
        assert not self.ran, f"it ran {self.ran}"
        # Memory first: a busy machine may take seconds to hand it out.
        assert self.bytes < MOST_BYTES, f"it took {self.bytes / 2**20:,.0f} MB"
        assert self.seconds < MOST_SECONDS, f"it took {self.seconds:.1f} s"
        if self.refused is not None:
            assert self.refused, "the reason is empty"
            assert "\n" not in self.refused, f"the reason has several lines: {self.refused!r}"
            assert len(self.refused) < 2000, f"the reason has {len(self.refused)} characters"


def try_cases(reader: str, folder: Path, journal: Path, *faults: str) -> list[Outcome]:
    """Return what became of each case: an entry of the folder, given to a reader.

    The reader is named as `case_runner.py` takes it.

    A case that ends the process is an outcome too, and those after it are tried in a new one.
    """
    journal.touch()
    runner = [sys.executable, "-W", "error", str(HERE / "case_runner.py")]
    command = [*runner, reader, str(folder), str(journal), *faults]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "ODDONE_CACHE": f"{journal}-cache"}
    environment["PYTHONPATH"] = os.pathsep.join([str(HERE.parent), *sys.path])
    while True:
        ended = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, env=environment, check=False
        )
        outcomes = _read(journal)
        last = list(outcomes.values())[-1] if outcomes else None
        if ended.returncode == 0:
            return [Outcome(**outcome) for outcome in outcomes.values()]
        if last is None or len(last) > 1:  # not while a case was tried
            raise AssertionError(f"the process ended with {ended.returncode}: {ended.stderr}")
        with journal.open("a") as file:
            how = f"the process ended with {ended.returncode}: {ended.stderr[-2000:]}"
            file.write(json.dumps({**last, "raised": how}) + "\n")


def _read(journal: Path) -> dict[str, dict[str, Any]]:
    """Return the last line on each case, in order."""
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    outcomes: dict[str, dict[str, Any]] = {}
    for line in lines:
        outcomes.pop(line["name"], None)
        outcomes[line["name"]] = line
    return outcomes
