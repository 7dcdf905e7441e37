"""Many trials in one test: all are made, and all that failed are told at the end."""

import json
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

SHOWN = 5

Rounds = Callable[[int, int], int]
"""From the numbers of trials of the short and of the long form to how many are to be made."""


class Trials:
    """What was tried, and what of it failed."""

    def __init__(self) -> None:
        self.tried: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.failures: list[str] = []

    @contextmanager
    def trial(self, name: str, details: object = "") -> Iterator[None]:
        """Count one trial of a name such as "kill: train"; it fails where an error is raised.

        The error is kept for `check`, so the trials after it are made all the same. `details` say
        which trial it was, so that it can be made again.
        """
        self.tried[name] += 1
        try:
            yield
        except Exception:  # noqa: BLE001  (whatever goes wrong in a trial is its result)
            self.failed[name] += 1
            self.failures.append(f"{name} {details}\n{traceback.format_exc()}")

    def check(self) -> None:
        """Raise an AssertionError that shows the first trials that failed, if any has."""
        if self.failures:
            count = f"{len(self.failures)} of {self.tried.total()} trials failed"
            shown = "\n".join(self.failures[:SHOWN])
            raise AssertionError(f"{count}; the first of them:\n{shown}")

    def append_figures(self, path: Path) -> None:
        """Add a line of JSON for each name to a file: how many were tried, how many failed."""
        with path.open("a") as file:
            for name, tried in self.tried.items():
                figures = {"name": name, "tried": tried, "failed": self.failed[name]}
                file.write(json.dumps(figures) + "\n")
