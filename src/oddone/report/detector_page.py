"""The page on detectors: a summary, what compares them, and a chapter on each."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from oddone.evaluation import (
    ClassResult,
    Evaluation,
    OODClassResult,
    worst_classes,
    worst_ood_classes,
)
from oddone.provenance import StatedEstimate
from oddone.report.figures import Illustration
from oddone.report.html_page import render_page
from oddone.wording import join_words

MAX_CLASSES = 15
"""How many classes a table shows; the others make fewer mistakes."""

MAX_BARS = 30
"""How many classes of an estimate are shown; the others are told better."""

DEFINITIONS = {
    "Accuracy": "The share of test images that get the label of their class.",
    "False alarms": "The share of normal test images that are called odd. The threshold was set "
    "for a small share, such as one in twenty.",
    "Detected": "The share of a set's OOD images, which are none of the classes, that are called "
    "odd.",
    "AUROC": "How often a random OOD image gets a higher score than a random test image: 50% is "
    "guessing, 100% is perfect. It does not depend on the threshold.",
    "FPR@95": "The share of OOD images that would pass for normal, if the threshold let 95% of the "
    "test images pass. Lower is better.",
}


class DetectorChapter(NamedTuple):
    """What the page says of one detector."""

    name: str
    evaluation: Evaluation
    seen_in_training: bool
    """Whether there are test images that the detector was trained on."""
    illustrations: Sequence[Illustration]
    facts: Sequence[str] = ()
    """What it was trained on, how long, when, and the like."""
    estimate: StatedEstimate | None = None
    """What to expect on things it has never seen, if its provenance says so."""

    @property
    def lead(self) -> str:
        """The most important numbers, as the end of a sentence that the name begins."""
        result = self.evaluation
        images = f"{result.images:,} test image{'s' * (result.images != 1)}"
        parts = [f"was shown {images}"]
        if result.accuracy is not None:
            parts = [f"names {result.accuracy:.1%} of {images} correctly"]
        if result.false_alarms is not None:
            parts.append(f"calls {result.false_alarms:.1%} of them odd by mistake")
        detected = [ood.detected for ood in result.oods.values() if ood.detected is not None]
        if detected:
            low, high = f"{min(detected):.0%}", f"{max(detected):.0%}"
            span = high if low == high else f"{low} to {high}"
            parts.append(f"detects {span} of the images that are none of its classes")
        return f"{join_words(parts)}."

    @property
    def shares(self) -> list[str]:
        """What is known of the test images: accuracy and false alarms."""
        result = self.evaluation
        named = {"accuracy": result.accuracy, "false alarms": result.false_alarms}
        return [f"{name} {share:.1%}" for name, share in named.items() if share is not None]

    @property
    def left_out(self) -> list[tuple[str, float]]:
        """The AUROC of each class that was left out for the estimate, the lowest first."""
        aurocs = {} if self.estimate is None else self.estimate["classes"]
        return sorted(aurocs.items(), key=lambda left_out: left_out[1])

    @property
    def estimated_from(self) -> list[str]:
        """What else the estimate says: its images, other numbers, and how it was made."""
        if self.estimate is None:
            return []
        images, method = self.estimate.get("images"), self.estimate.get("method")
        shares = {
            "accuracy": self.estimate.get("accuracy"),
            "false alarms": self.estimate.get("false_alarms"),
        }
        parts = [] if images is None else [f"{images:,} images"]
        parts += [f"{name} {share:.1%}" for name, share in shares.items() if share is not None]
        return [*parts, method] if method else parts

    @property
    def classes(self) -> list[tuple[str, ClassResult]]:
        """The numbers of the known classes, the one with most mistakes first."""
        return worst_classes(self.evaluation)

    @property
    def ood_classes(self) -> list[tuple[str, OODClassResult]]:
        """The numbers of the OOD classes, the hardest first; none if there are only sets."""
        has_classes = any(ood.classes for ood in self.evaluation.oods.values())
        return worst_ood_classes(self.evaluation) if has_classes else []


def render_detector_page(
    chapters: Sequence[DetectorChapter],
    comparison: Sequence[Illustration],
    sources: Mapping[str, str],
) -> str:
    """Return the page: a summary, what compares all detectors, and a chapter on each.

    The sources say what the images are, by what they are called. Of a single detector, the figures
    that would compare several stand in its chapter.
    """
    side_by_side = list(comparison)
    if len(chapters) == 1:
        (chapter,) = chapters
        chapters = [chapter._replace(illustrations=[*comparison, *chapter.illustrations])]
        side_by_side = []
    return render_page(
        "detectors.html",
        [chapter.name for chapter in chapters],
        sources,
        chapters=chapters,
        side_by_side=side_by_side,
        definitions=DEFINITIONS,
        max_classes=MAX_CLASSES,
        max_bars=MAX_BARS,
    )
