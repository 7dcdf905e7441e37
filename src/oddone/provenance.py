"""When, with what and on which machine something was made: what a run and a record say of it."""

import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import torch


@dataclass(frozen=True)
class Machine:
    """What computes in this process."""

    system: str
    processor: str
    threads: int
    gpu: str | None
    """None where torch finds no CUDA."""


def now() -> str:
    """Return the date and time in UTC, to the second, in the notation of ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def versions(*packages: str) -> dict[str, str]:
    """Return the installed versions of Python, oddone, torch and these packages."""
    names = dict.fromkeys(("oddone", "torch", *packages))
    return {"python": platform.python_version()} | {name: version(name) for name in names}


def machine() -> Machine:
    """Return this machine; `threads` are those that torch computes with."""
    return Machine(
        system=platform.system(),
        processor=_processor(),
        threads=torch.get_num_threads(),
        gpu=torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        return platform.processor()
    return next((line.split(": ")[1] for line in lines if line.startswith("model name")), "")
