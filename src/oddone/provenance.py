"""When, with what and on which machine something was made: what a run and a record say of it."""

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict

import msgspec

LIMIT_OF_ESTIMATE = (
    "It speaks of things that differ from your classes as these differ from each other: of what is "
    "closer to a class, fewer are told apart."
)
"""What an estimate by leaving classes out cannot know, wherever it is told."""

_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class StatedEstimate(TypedDict):
    """How good a detector should be on what it has never seen: its provenance's `estimate`.

    Each class was left out in turn, and its images were told from those of the others.
    """

    auroc: _Share
    classes: Annotated[dict[str, _Share], msgspec.Meta(min_length=1)]
    """The AUROC of each class that was left out, by its name."""
    accuracy: NotRequired[_Share | None]
    false_alarms: NotRequired[_Share | None]
    images: NotRequired[int | None]
    """How many images that was measured on."""
    method: NotRequired[str | None]
    limit: NotRequired[str | None]
    """What the estimate cannot know, in a sentence."""


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


def stated_estimate(provenance: Mapping[str, Any]) -> StatedEstimate | None:
    """Return the estimate that a provenance states; None where it has none, or an odd one."""
    try:
        return msgspec.convert(provenance.get("estimate"), StatedEstimate)
    except msgspec.ValidationError:
        return None


def machine() -> Machine:
    """Return this machine; `threads` are those that torch computes with."""
    import torch  # noqa: PLC0415  (exported files are scored without it)

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
