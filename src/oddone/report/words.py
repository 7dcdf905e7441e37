"""A verdict in plain words, and numbers and names as they can be shown."""

from typing import NamedTuple

from oddone.detector import Detector, Explanation

_HOW_WELL = (
    (0.99, "nearly always told"),
    (0.95, "told very well"),
    (0.90, "told well"),
    (0.80, "told fairly"),
    (0.60, "told poorly"),
)


class Words(NamedTuple):
    """What is said of an image; the first two are one sentence."""

    beginning: str
    headline: str
    """The name of its class, or that it is none of them."""
    how_odd: str
    """How many normal images are as odd."""
    how_decided: str
    """The score, what it was compared with, and the likeliest class of an odd image."""


def in_words(detector: Detector, explanation: Explanation) -> Words:
    """Return the verdict in words for people who never heard of the method."""
    name = legible(detector.classes[explanation.label])
    score = f"Its score is {number(explanation.score)}"
    if detector.calibration is None or explanation.p_value is None:
        unknown = "How odd that is, only a calibration can tell"
        return Words("This image looks most like", name, unknown, f"{score}.")
    share = _share(explanation.p_value, len(detector.calibration.scores))
    decided = f"{score}, and images above {number(detector.threshold)} are called odd."
    if explanation.anomalous:
        decided = f"{decided} The likeliest class would be {name}."
        classes = len(detector.classes)
        name = f"none of the {classes:,} classes" if classes > 1 else f"no {name}"
    return Words("This image is", name, f"This odd or odder: {share}", decided)


def how_well(auroc: float) -> str:
    """Return in words how well OOD images are told from IND images."""
    return next((verdict for least, verdict in _HOW_WELL if auroc >= least), "not told")


def number(value: float) -> str:
    """Return a distance or score as people read it: 9.87, 118.2 or 1,204."""
    decimals = 2 if value < 100 else 1 if value < 1000 else 0
    return f"{value:,.{decimals}f}"


def legible(name: str) -> str:
    """Return a name in one line, without what no font can show."""
    return " ".join("".join(mark if mark.isprintable() else " " for mark in name).split())


def _share(p_value: float, held_out: int) -> str:
    if p_value * (held_out + 1) < 1.5:  # only the image itself, which a p-value counts too
        return f"none of {held_out:,} normal images"
    if p_value < 0.1:
        return f"1 in {round(1 / p_value):,} normal images"
    return f"{p_value:.0%} of normal images"
