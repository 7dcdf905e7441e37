"""A new threshold from what users say: images that they call normal join the calibration images."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from oddone.detector import Calibration, Detector
from oddone.errors import DataError, SettingsError
from oddone.service.feedback import read_confirmed

PROVENANCE = "feedback"
"""The entry of a detector's provenance with the last feedback that was used, of each store."""


def calibrate_by_feedback(
    detector: Detector, path: Path, *, false_alarms: float = 0.05, per_class: bool = False
) -> Detector:
    """Return a detector calibrated with its calibration images and those that users call normal.

    Scores of other detectors in the same file are left out, and each entry is used once, so this
    may be done again when there is more feedback.

    Parameters
    ----------
    detector
        One that has a calibration, and gave these verdicts, or gives the same scores.
    path
        The file of `oddone serve --feedback`.
    false_alarms
        The share of normal images that may be called anomalous.
    per_class
        Whether each predicted class has a threshold of its own; it must have one already.

    """
    before = detector.calibration
    if before is None:
        raise SettingsError(
            "this detector has no calibration that feedback could be added to; calibrate it with "
            "images first: oddone calibrate DETECTOR SOURCE"
        )
    if per_class and before.labels is None:
        raise SettingsError(
            "--per-class needs the labels of the calibration images, which this detector does not "
            "have; calibrate it with images and --per-class first"
        )
    seen = _seen(detector.provenance)
    confirmed = read_confirmed(path, detector.scoring_digest(), seen)
    if not confirmed.scores:
        raise DataError(
            f"{path} has no new image that users call normal and this detector has scored; "
            f"calibrate with images instead"
        )
    scores = torch.cat([before.scores, torch.tensor(confirmed.scores, dtype=torch.float64)])
    labels = None
    if per_class and before.labels is not None:
        labels = torch.cat([before.labels, torch.tensor(confirmed.labels)])
    provenance = {**detector.provenance, PROVENANCE: {**seen, confirmed.store: confirmed.last}}
    return replace(
        detector,
        calibration=Calibration.of(scores, false_alarms, labels),
        provenance=provenance,
    )


def _seen(provenance: Mapping[str, Any]) -> dict[str, int]:
    """Return the last feedback of each store that was used; a file may say anything there."""
    seen = provenance.get(PROVENANCE)
    if not isinstance(seen, dict):
        return {}
    return {store: last for store, last in seen.items() if isinstance(last, int)}
