"""A detector in three lines."""

import reprlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oddone.detector.detector import Detector

_short = reprlib.Repr()
_short.maxtuple, _short.maxstring, _short.maxother = 3, 60, 60


def summary(detector: "Detector") -> str:
    """Return what a detector knows, how it decides, and where it comes from, in a line each."""
    return "\n  ".join(
        [
            f"Detector of {_classes(detector.classes)}; {_encoder(detector)}",
            _decision(detector),
            _origin(detector.provenance),
        ]
    )


def _classes(classes: tuple[str, ...]) -> str:
    return f"{len(classes):,} {'class' if len(classes) == 1 else 'classes'} {_short.repr(classes)}"


def _encoder(detector: "Detector") -> str:
    trained = detector.embedder.trained
    encoder = type(trained.network.encoder)
    ours = encoder.__module__.startswith("oddone.")  # the settings know no name of a user's own
    name = trained.model.encoder_name if ours else encoder.__name__
    size, views = detector.image_size, len(detector.embedder.views)
    needed = " as needed" if detector.stages else ""
    return f"{name}, {size} x {size} pixels, {views} {'view' if views == 1 else 'views'}{needed}"


def _decision(detector: "Detector") -> str:
    where = f"in the space of the {detector.space}"
    distances = {
        "distance": f"{detector.fuse.__name__} distance {where}",
        "mean_embedding": f"distance of the views' mean {where}",
    }
    score = f"score: {' + '.join(distances.get(rule, rule) for rule, _, _ in detector.rules)}"
    calibration = detector.calibration
    if calibration is None:
        return f"{score}; no threshold yet"
    threshold = f"{calibration.threshold:.4g}"
    if calibration.own_classes:
        threshold = "the threshold of the predicted class"
    return (
        f"{score}; anomalous above {threshold} ({calibration.false_alarms:.3g} of "
        f"normal images, by {len(calibration.scores):,} held out)"
    )


def _origin(provenance: Mapping[str, Any]) -> str:
    """Return date and images; a file may say anything there, so it is cut short and escaped."""
    data = provenance.get("data")
    about = data if isinstance(data, dict) else {}
    parts = [
        f"{name} {_short.repr(value)}"
        for name, value in (
            ("date", provenance.get("date")),
            ("source", about.get("source")),
            ("images", about.get("images")),
        )
        if value is not None
    ]
    return f"provenance: {', '.join(parts) or 'unknown'}"
