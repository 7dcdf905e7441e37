"""What a detector is, in a few facts: what it was trained on or fitted to, how long, and when."""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeGuard

from oddone.detector import Detector
from oddone.evaluation import Evaluation


def detector_facts(
    detector: Detector, history: Sequence[Mapping[str, Any]], evaluation: Evaluation
) -> list[str]:
    """Return what is known of a detector and of what it is shown; the rest is left out.

    The history of a run says how long it was trained, and else the provenance how long it should.
    """
    provenance = detector.provenance
    size = detector.image_size
    facts = [
        _trained_on(detector),
        f"images of {size} x {size} pixels",
        _minutes(provenance, history),
        _date(provenance),
        _tested_on(evaluation),
    ]
    return [fact for fact in facts if fact is not None]


def look_up(content: object, *keys: str) -> object:
    """Return what stands below these keys, one in the other; None where there is no such thing."""
    for key in keys:
        content = content.get(key) if isinstance(content, Mapping) else None
    return content


def _trained_on(detector: Detector) -> str:
    done = "Trained on" if _fit_seconds(detector.provenance) is None else "Fitted to"
    classes = _counted(len(detector.classes), "class", "classes")
    images = look_up(detector.provenance, "data", "images")
    if not _is_number(images):
        return f"{done} {classes}"
    return f"{done} {_counted(int(images), 'image', 'images')} of {classes}"


def _fit_seconds(provenance: Mapping[str, Any]) -> float | None:
    """Return how long `oddone fit` took; None for a detector that was trained."""
    seconds = look_up(provenance, "seconds")
    return seconds if _is_number(seconds) else None


def _tested_on(evaluation: Evaluation) -> str:
    tested = f"tested on {_counted(evaluation.images, 'image', 'images')}"
    if evaluation.oods:
        ood = sum(result.images for result in evaluation.oods.values())
        tested += f" of the classes and {ood:,} OOD"
    return tested


def _minutes(provenance: Mapping[str, Any], history: Sequence[Mapping[str, Any]]) -> str | None:
    last = history[-1] if history else {}
    seconds, steps = last.get("seconds"), last.get("step")
    if _is_number(seconds) and _is_number(steps):
        return f"{_counted(int(steps), 'step', 'steps')} in {seconds / 60:.1f} minutes"
    fit_seconds = _fit_seconds(provenance)
    if fit_seconds is not None:
        return f"in {_duration(fit_seconds)}"
    minutes = look_up(provenance, "settings", "minutes")
    return f"{minutes:g} minutes of training" if _is_number(minutes) else None


def _duration(seconds: float) -> str:
    """Return a time as people say it: seconds, or minutes where they are many."""
    if seconds < 100:
        return _counted(round(seconds), "second", "seconds")
    return f"{seconds / 60:.1f} minutes"


def _date(provenance: Mapping[str, Any]) -> str | None:
    date = look_up(provenance, "date")
    if not isinstance(date, str):
        return None
    try:
        day = datetime.fromisoformat(date)
    except ValueError:
        return None
    return f"{day.day} {day:%B %Y}"


def _is_number(value: object) -> TypeGuard[float]:
    """Return whether it is a number of something: True and NaN are none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _counted(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
