"""Verdicts, scores and names as people read them: for the terminal and for reports alike."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from oddone.errors import SettingsError
from oddone.provenance import LIMIT_OF_ESTIMATE
from oddone.verdict import Verdict

if TYPE_CHECKING:
    from oddone.detector import Detector

_AUROC_WORDS = (
    (0.99, "nearly always told"),
    (0.95, "told very well"),
    (0.90, "told well"),
    (0.80, "told fairly"),
    (0.60, "told poorly"),
)


GOOD_AUROC = 0.85
GOOD_ACCURACY = 0.85
ENOUGH_IMAGES = 50
POINTS_OFF = 5
"""How far an estimate is from the AUROC on really unseen classes in a single case, in the median:
5.0, 5.9 and 5.6 points of photographs, CIFAR-10 and CIFAR-100 (the rule chosen in each split;
results/2026-11-17-{155639,223910,225052}-quality-leave_out.json)."""
LARGEST_OF_OURS = "efficientnet-lite2"
LARGEST_SIZE_TRIED = 224


class VerdictText(NamedTuple):
    """A verdict in plain words; beginning and headline make one sentence."""

    beginning: str
    headline: str
    """The name of the class, or that the image is none of them."""
    rarity: str
    """How many normal images have such a score or a higher one."""
    reason: str
    """The score and the threshold, and the likeliest class of an anomalous image."""


def describe_verdict(detector: "Detector", verdict: Verdict) -> VerdictText:
    """Return the verdict in words for people who never heard of the method."""
    name = legible(detector.classes[verdict.label])
    score = f"Its score is {format_score(verdict.score)}"
    if detector.calibration is None or verdict.p_value is None:
        unknown = "How odd that is, only a calibration can tell"
        return VerdictText("This image looks most like", name, unknown, f"{score}.")
    calibration = detector.calibration.for_class(verdict.label)
    share = _share_of_normal(verdict.p_value, len(calibration.scores))
    kind = f"images like {name}" if verdict.label in detector.calibration.own_classes else "images"
    reason = f"{score}, and {kind} above {format_score(calibration.threshold)} are called odd."
    if verdict.anomalous:
        reason = f"{reason} The likeliest class would be {name}."
        classes = len(detector.classes)
        name = f"none of the {classes:,} classes" if classes > 1 else f"no {name}"
    return VerdictText("This image is", name, f"This odd or odder: {share}", reason)


def describe_auroc(auroc: float) -> str:
    """Return in words how well OOD images are told from IND images."""
    return next((words for least, words in _AUROC_WORDS if auroc >= least), "not told")


def describe_estimate(estimate: Mapping[str, Any]) -> str:
    """Return in a sentence what to expect of a detector on things it has never seen.

    The estimate is that of a detector's provenance: `auroc`, and below `classes` the AUROC of each
    class that was left out in turn.
    """
    off = f"; in a single case the truth is often {POINTS_OFF} points off. {LIMIT_OF_ESTIMATE}"
    aurocs = estimate["classes"]
    worst = min(aurocs, key=lambda name: aurocs[name])
    if len(aurocs) == 1:
        return (
            f"Your class {legible(worst)}, left out, is told apart with AUROC {aurocs[worst]:.1%}"
            f"{off}"
        )
    return (
        f"Each of your {len(aurocs):,} classes, left out in turn, is told apart from the others "
        f"with AUROC {estimate['auroc']:.1%} (worst: {legible(worst)} {aurocs[worst]:.1%}){off}"
    )


def advise_on_estimate(detector: "Detector", estimate: Mapping[str, Any]) -> str:
    """Return what the estimate means for the user, and what to do where it is poor."""
    found = f"Held-out images of your classes get the right label in {estimate['accuracy']:.1%} of "
    found += f"cases ({estimate['images']:,} images)."
    # The estimate may be made with some of the images only.
    images = detector.provenance.get("data", {}).get("images", estimate["images"])
    per_class = images / len(detector.classes)
    if estimate["auroc"] >= GOOD_AUROC and estimate["accuracy"] >= GOOD_ACCURACY:
        return found
    why = (
        f"with {per_class:.0f} images a class, more images would help most"
        if per_class < ENOUGH_IMAGES
        else f"your classes look alike to this encoder, so try a larger one{_such_as(detector)}, "
        f"or train: oddone train"
    )
    return f"{found} That is not good: {why}."


def _such_as(detector: "Detector") -> str:
    """Return an encoder that is larger than that of the detector; nothing if we know none."""
    name = detector.embedder.trained.model.encoder_name
    if name.startswith("transformers:"):
        return ""
    if name == LARGEST_OF_OURS and detector.image_size >= LARGEST_SIZE_TRIED:
        return ", such as --encoder transformers:facebook/dinov2-base"
    return f", such as --encoder {LARGEST_OF_OURS} --size {LARGEST_SIZE_TRIED}"


def describe_neighbour(similarity: float) -> str:
    """Return how far a training image is, as the cosine distance of its embedding.

    Nearly equal images have cosines such as 0.9997, so the distance, 1 - cosine, says more. It has
    two significant digits, but none beyond the fifth decimal: the embeddings of training images
    are kept as float16.
    """
    distance = round(1 - similarity, 5)
    decimals = 5 if distance == 0 else min(5, 1 - math.floor(math.log10(distance)))
    return f"distance {distance:.{decimals}f}"


def format_score(value: float) -> str:
    """Return a distance or score as people read it: 9.87, 118.2 or 1,204."""
    decimals = 2 if value < 100 else 1 if value < 1000 else 0
    return f"{value:,.{decimals}f}"


def legible(name: str) -> str:
    """Return a name in one line, without characters that no font can show."""
    if not name.isprintable():
        name = "".join(mark if mark.isprintable() else " " for mark in name)
    return " ".join(name.split())


def distinct_names(names: Sequence[str], paths: Sequence[Path]) -> list[str]:
    """Return the names of these paths; where several have the same name, the paths themselves."""
    if len(set(paths)) < len(paths):
        raise SettingsError(f"{', '.join(map(str, paths))}: name each only once")
    return [
        str(path) if names.count(name) > 1 else name
        for name, path in zip(names, paths, strict=True)
    ]


def join_words(words: Sequence[str]) -> str:
    """Return words as a sentence lists them: one, two and three."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _share_of_normal(p_value: float, held_out: int) -> str:
    if p_value * (held_out + 1) < 1.5:  # only the image itself, which a p-value counts too
        return f"none of {held_out:,} normal images"
    if p_value < 0.1:
        return f"1 in {round(1 / p_value):,} normal images"
    return f"{p_value:.0%} of normal images"
