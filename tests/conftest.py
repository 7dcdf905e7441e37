"""Settings for all tests."""

import subprocess
import sys
import textwrap
from collections.abc import Callable

import jaxtyping
import pytest
from hypothesis import settings

settings.register_profile("oddone", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("oddone")


@pytest.fixture(autouse=True)
def _forget_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every test see the warnings that are given once a process."""
    monkeypatch.setattr("oddone.losses.mcl._warned", set())


@pytest.fixture
def as_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check no shapes and types, as for users, whose mistakes reach our own checks."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.fixture
def run_python() -> Callable[[str], str]:
    """Return a function that runs a script in a fresh interpreter and returns what it prints."""

    def run(script: str) -> str:
        command = [sys.executable, "-c", textwrap.dedent(script)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
        return done.stdout.strip()

    return run
