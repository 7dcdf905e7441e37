"""How good a trained detector is, in words: on held-out images, and what to do where it is poor."""

import shlex
from collections.abc import Iterator

from oddone.cli.terminal import counted
from oddone.detector import Detector
from oddone.training import RunDirectory
from oddone.training.batches import ENOUGH_TO_SPARE_ONE
from oddone.training.plan import FEWEST_EPOCHS

GOOD_ACCURACY = 0.8
ENOUGH_IMAGES = 100
"""Of each class, to train a network from scratch."""


def describe_quality(detector: Detector, run: RunDirectory, epochs: float) -> Iterator[str]:
    """Yield sentences on the held-out images and, where something is poor, on what to do.

    The detector is that of the run; in `epochs` it has seen every image so often.
    """
    held_out = detector.provenance.get("held_out", {})
    share = held_out.get("accuracy")
    if share is not None:
        images = counted(held_out["images"], "held-out image gets", "held-out images get")
        yield f"{share:.1%} of {images} the right label"
    if not held_out:
        yield f"how good it is, is not known: {_why_none_is_held_out(detector, run)}"
    poor = share is not None and share < GOOD_ACCURACY
    if poor or epochs < FEWEST_EPOCHS:
        yield f"that is {'poor' if poor else 'little training'}: {_advice(detector, run, epochs)}"


def _why_none_is_held_out(detector: Detector, run: RunDirectory) -> str:
    if run.settings.held_out == 0:
        return "it was trained on every image (held_out = 0); oddone evaluate measures it on others"
    return (
        f"no class has the {ENOUGH_TO_SPARE_ONE} images of which one is held out; add more, or "
        f"{_pretrained(detector)}, which holds each image out in turn"
    )


def _pretrained(detector: Detector) -> str:
    source = detector.provenance.get("data", {}).get("source", "SOURCE")
    return f"fit a pretrained encoder, oddone fit {shlex.quote(source)} --out X.oddone"


def _advice(detector: Detector, run: RunDirectory, epochs: float) -> str:
    """Return the likeliest reason, and what to do about it."""
    data, pretrained = detector.provenance.get("data", {}), _pretrained(detector)
    if epochs < FEWEST_EPOCHS:
        longer = f"train longer, oddone train --resume {shlex.quote(str(run.path))} --minutes 60"
        return f"each image was seen {epochs:.1f} times; {longer}, or {pretrained}"
    left_out = detector.provenance.get("left_out", {})
    images = data.get("images", 0) - left_out.get("images", 0)
    per_class = images / len(detector.classes)
    if per_class < ENOUGH_IMAGES:
        return f"there are {per_class:.0f} images a class to learn from; add more, or {pretrained}"
    return f"train longer, or {pretrained}; and look at the mistakes with oddone report"
