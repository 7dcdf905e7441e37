"""The page on detectors: a summary, what compares them, and a chapter on each."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from oddone.evaluation import Evaluation, OODResult
from oddone.report.figures import Illustration
from oddone.report.layout import (
    Section,
    as_cell,
    as_figures,
    as_meanings,
    as_table,
    as_text,
    joined,
    lay_out,
)
from oddone.report.words import how_well, legible

MEANINGS = {
    "Accuracy": "The share of test images that get the name of their class.",
    "False alarms": "The share of normal test images that are flagged as odd. The threshold was "
    "set for a small share, such as one in twenty.",
    "Caught": "The share of a set's OOD images, which are none of the classes, that are flagged.",
    "AUROC": "How often a random OOD image gets a higher score than a random test image: 50% is "
    "guessing, 100% is perfect. It does not depend on the threshold.",
    "FPR@95": "The share of OOD images that would pass for normal, if the threshold let 95% of the "
    "test images pass. Lower is better.",
}


class Chapter(NamedTuple):
    """What is told of one detector."""

    name: str
    evaluation: Evaluation
    seen_in_training: bool
    """Whether the test images are those that the detector was trained on."""
    illustrations: Sequence[Illustration]


def as_page(
    chapters: Sequence[Chapter],
    comparison: Sequence[Illustration],
    sources: Mapping[str, str],
) -> str:
    """Return the page: a summary, what compares all detectors, and a chapter on each.

    The sources say what the images are, by what they are called.
    """
    sections = [Section("summary", "Summary", f"{_table(chapters)}\n{as_meanings(MEANINGS)}")]
    together = list(comparison)
    if len(chapters) > 1 and together:
        sections.append(Section("together", "Side by side", as_figures(together)))
        together = []
    sections += [
        Section(f"detector-{place}", chapter.name, as_figures([*together, *chapter.illustrations]))
        for place, chapter in enumerate(chapters)
    ]
    names = [chapter.name for chapter in chapters]
    return lay_out(names, "\n".join(map(_lead, chapters)), sections, sources)


def _lead(chapter: Chapter) -> str:
    """Return the most important numbers as a sentence."""
    result = chapter.evaluation
    images = f"{result.images:,} test image{'s' * (result.images != 1)}"
    parts = [f"was shown {images}"]
    if result.accuracy is not None:
        parts = [f"names {result.accuracy:.1%} of {images} correctly"]
    if result.false_alarms is not None:
        parts.append(f"flags {result.false_alarms:.1%} of them by mistake")
    detected = [ood.detected for ood in result.oods.values() if ood.detected is not None]
    if detected:
        low, high = f"{min(detected):.0%}", f"{max(detected):.0%}"
        span = high if low == high else f"{low} to {high}"
        parts.append(f"catches {span} of the images that are none of its classes")
    lines = [f'<p class="lead"><strong>{as_text(chapter.name)}</strong> {joined(parts)}.</p>']
    if result.false_alarms is None:
        lines.append(
            '<p class="note">It has no threshold yet, so nothing is flagged. '
            "Set one by <code>oddone calibrate</code>.</p>"
        )
    if chapter.seen_in_training:
        lines.append(
            '<p class="note">These test images are those that it was trained on, so it looks '
            "better than it is. Report on new images.</p>"
        )
    return "\n".join(lines)


# --- The summary ------------------------------------------------------------------------------


def _table(chapters: Sequence[Chapter]) -> str:
    several = len(chapters) > 1
    headings = ["OOD set", "verdict", "AUROC", "caught", "FPR@95", "images"]
    classes = ["name", "verdict", "", "", "", ""]
    head = "".join(as_cell("th", *cell) for cell in zip(headings, classes, strict=True))
    bodies = [_rows(chapter, named=several) for chapter in chapters]
    caption = "How well images that are none of the classes are told from test images"
    return as_table("Verdicts", head, *bodies, caption=caption)


def _rows(chapter: Chapter, *, named: bool) -> str:
    result = chapter.evaluation
    shares = [
        f"{word} {_percent(share)}"
        for word, share in (("accuracy", result.accuracy), ("false alarms", result.false_alarms))
        if share is not None
    ]
    words = ", ".join(([legible(chapter.name)] if named else []) + shares)
    rows = [f'<tr><th class="name" colspan="6" scope="rowgroup">{as_text(words)}</th></tr>']
    rows += [_row(name, ood) for name, ood in result.oods.items()]
    return "\n".join(rows if words else rows[1:])


def _row(name: str, ood: OODResult) -> str:
    metrics = ood.metrics
    cells = [
        as_cell("th", legible(name), "name"),
        as_cell("td", how_well(metrics.auroc), "verdict"),
        as_cell("td", _percent(metrics.auroc)),
        as_cell("td", _percent(ood.detected)),
        as_cell("td", _percent(metrics.fpr_at_95_ind)),
        as_cell("td", f"{ood.images:,}"),
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"
