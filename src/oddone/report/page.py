"""One HTML page that holds all it shows: no request leaves it, and it needs no network."""

import base64
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import NamedTuple

from oddone import __version__
from oddone.evaluation import Evaluation, OODResult
from oddone.report.figures import Illustration
from oddone.report.style import rendered
from oddone.report.words import how_well, legible

_PAGE = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))

LARGEST = 1.6  # times its own size, so that the type of all figures is about the same

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
    sections = [
        (f"detector-{place}", chapter.name, chapter.illustrations)
        for place, chapter in enumerate(chapters)
    ]
    if len(chapters) == 1:  # and nothing to compare it with
        anchor, name, illustrations = sections[0]
        sections = [(anchor, name, [*comparison, *illustrations])]
    elif comparison:
        sections.insert(0, ("together", "Side by side", comparison))
    return _PAGE.substitute(
        title=_text(f"Report on {_joined([chapter.name for chapter in chapters])}"),
        lead="\n".join(map(_lead, chapters)),
        contents=_contents([("summary", "Summary"), *(section[:2] for section in sections)]),
        summary=_summary(chapters),
        chapters="\n".join(_section(*section) for section in sections),
        sources=_sources(sources),
    )


def _lead(chapter: Chapter) -> str:
    """Return the most important numbers as a sentence."""
    result = chapter.evaluation
    images = f"{result.images:,} test image{'s' * (result.images != 1)}"
    parts = [f"was shown {images}"]
    if result.accuracy is not None:
        parts = [f"names {result.accuracy:.1%} of {images} correctly"]
    if result.false_alarms is not None:
        parts.append(f"flags {result.false_alarms:.1%} of them by mistake")
    caught = [ood.caught for ood in result.oods.values() if ood.caught is not None]
    if caught:
        low, high = f"{min(caught):.0%}", f"{max(caught):.0%}"
        span = high if low == high else f"{low} to {high}"
        parts.append(f"catches {span} of the images that are none of its classes")
    lines = [f'<p class="lead"><strong>{_text(chapter.name)}</strong> {_joined(parts)}.</p>']
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


def _contents(links: Sequence[tuple[str, str]]) -> str:
    items = "".join(f'<li><a href="#{anchor}">{_text(name)}</a></li>' for anchor, name in links)
    return f'<nav aria-label="Contents"><ul>{items}</ul></nav>'


# --- The summary ------------------------------------------------------------------------------


def _summary(chapters: Sequence[Chapter]) -> str:
    meanings = "\n".join(
        f"<div><dt>{_text(word)}</dt><dd>{_text(meaning)}</dd></div>"
        for word, meaning in MEANINGS.items()
    )
    return (
        f'<section id="summary">\n<h2>Summary</h2>\n{_table(chapters)}\n'
        f"<dl>\n{meanings}\n</dl>\n</section>"
    )


def _table(chapters: Sequence[Chapter]) -> str:
    several = len(chapters) > 1
    headings = ["OOD set", "verdict", "AUROC", "caught", "FPR@95", "images"]
    classes = ["name", "verdict", "", "", "", ""]
    head = "".join(_cell("th", *cell) for cell in zip(headings, classes, strict=True))
    bodies = "\n".join(_rows(chapter, named=several) for chapter in chapters)
    return (
        '<div class="box" role="region" aria-label="Verdicts" tabindex="0">\n<table>\n'
        "<caption>How well images that are none of the classes are told from test images"
        f"</caption>\n<thead><tr>{head}</tr></thead>\n{bodies}\n</table>\n</div>"
    )


def _rows(chapter: Chapter, *, named: bool) -> str:
    result = chapter.evaluation
    shares = [
        f"{word} {_percent(share)}"
        for word, share in (("accuracy", result.accuracy), ("false alarms", result.false_alarms))
        if share is not None
    ]
    words = ", ".join(([legible(chapter.name)] if named else []) + shares)
    rows = [f'<tr><th class="name" colspan="6" scope="rowgroup">{_text(words)}</th></tr>']
    rows += [_row(name, ood) for name, ood in result.oods.items()]
    return "<tbody>\n" + "\n".join(rows if words else rows[1:]) + "\n</tbody>"


def _row(name: str, ood: OODResult) -> str:
    metrics = ood.metrics
    cells = [
        _cell("th", legible(name), "name"),
        _cell("td", how_well(metrics.auroc), "verdict"),
        _cell("td", _percent(metrics.auroc)),
        _cell("td", _percent(ood.caught)),
        _cell("td", _percent(metrics.fpr_at_95_ind)),
        _cell("td", f"{ood.images:,}"),
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _cell(tag: str, words: str, look: str = "") -> str:
    attribute = f' class="{look}"' if look else ""
    return f"<{tag}{attribute}>{_text(words)}</{tag}>"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


# --- The figures ------------------------------------------------------------------------------


def _section(anchor: str, heading: str, illustrations: Sequence[Illustration]) -> str:
    figures = "\n".join(map(_figure, illustrations))
    return (
        f'<section id="{anchor}">\n<h2>{_text(heading)}</h2>\n'
        f'<div class="figures">\n{figures}\n</div>\n</section>'
    )


def _figure(illustration: Illustration) -> str:
    look = ' class="wide"' if illustration.wide else ""
    return (
        f"<figure{look}>\n<h3>{_text(illustration.heading)}</h3>\n"
        f'<div class="picture">{_image(illustration)}</div>\n'
        f"<figcaption>{_text(illustration.caption)}</figcaption>\n</figure>"
    )


def _image(illustration: Illustration) -> str:
    width, height = (72 * inches for inches in illustration.figure.get_size_inches())
    content = base64.b64encode(rendered(illustration.figure, ".svg")).decode()
    widest = f"max-width: {LARGEST * width:.0f}px"
    return (
        f'<img alt="{_text(illustration.says)}" width="{width:.0f}" height="{height:.0f}" '
        f'style="{widest}" src="data:image/svg+xml;base64,{content}">'
    )


def _sources(sources: Mapping[str, str]) -> str:
    lines = [f"<p>Made by oddone {_text(__version__)}.</p>"]
    lines += [f"<p>{_text(what)}: {_text(source)}</p>" for what, source in sources.items()]
    return "\n".join(lines)


def _text(words: str) -> str:
    """Return words as HTML shows them, whatever they hold; a class may be called <script>."""
    return escape(legible(words))


def _joined(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
