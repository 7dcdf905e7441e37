"""The command line, run in this process."""

import sys
from collections.abc import Callable

import pytest

from oddone.cli import main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run_oddone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs the command line and returns its exit code and what it prints."""
    monkeypatch.setenv("COLUMNS", "100")

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["oddone", *words])
        with pytest.raises(SystemExit) as caught:
            main()
        printed, complained = capsys.readouterr()
        code = caught.value.code
        assert isinstance(code, int)
        return code, printed, complained

    return run
