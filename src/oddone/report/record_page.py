"""The page on records of benches: tables of methods beside the paper's numbers, and figures."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from oddone.report.comparison import SEPARATOR, Comparison, Measure, Method, Number
from oddone.report.figures import Illustration
from oddone.report.layout import (
    Section,
    as_cell,
    as_figures,
    as_meanings,
    as_table,
    as_text,
    lay_out,
)


class Network(NamedTuple):
    """A network that was trained."""

    name: str
    start: str
    """The name of the one it was fine-tuned from; empty if there is none."""
    steps: int
    minutes: float
    folder: str


class RecordChapter(NamedTuple):
    """What is told of one record."""

    name: str
    lead: str
    """The most important of it, as the end of a sentence that the name begins."""
    comparison: Comparison
    captions: Sequence[str]
    """What a reader has to know of the numbers: first what they are, then the rest."""
    illustrations: Sequence[Illustration]
    networks: Sequence[Network]
    origin: Mapping[str, str]
    """What the record was made with, by what that is."""


def as_record_page(chapters: Sequence[RecordChapter], sources: Mapping[str, str]) -> str:
    """Return the page: what matters most of each record, then a chapter on each."""
    lead = "\n".join(
        f'<p class="lead"><strong>{as_text(chapter.name)}</strong> {as_text(chapter.lead)}</p>'
        for chapter in chapters
    )
    sections = [
        Section(f"record-{place}", chapter.name, _content(chapter))
        for place, chapter in enumerate(chapters)
    ]
    return lay_out([chapter.name for chapter in chapters], lead, sections, sources)


def _content(chapter: RecordChapter) -> str:
    what, *more = chapter.captions
    more.append("Bold: the best of ours.")
    parts = [
        f"<p>{as_text(what)}</p>",
        _numbers(chapter),
        '<div class="captions">',
        *(f"<p>{as_text(caption)}</p>" for caption in more),
        "</div>",
        as_figures(chapter.illustrations),
        "<h3>The networks</h3>",
        _networks(chapter),
        as_meanings(chapter.origin),
    ]
    return "\n".join(parts)


# --- The numbers ------------------------------------------------------------------------------


def _numbers(chapter: RecordChapter) -> str:
    comparison = chapter.comparison
    head = _names(comparison.headings)
    head += "".join(map(_measure, comparison.measures))
    best = [comparison.best(place) for place in range(len(comparison.measures))]
    rows = "\n".join(_method(method, best) for method in comparison.methods)
    return as_table(f"Numbers of {chapter.name}", head, rows)


def _measure(measure: Measure) -> str:
    return f'<th class="number">{as_text(measure.of)}<br>{as_text(measure.metric)}</th>'


def _method(method: Method, best: Sequence[Number | None]) -> str:
    cells = map(_number, method.numbers, best)
    return f"<tr>{_names(method.names)}{''.join(cells)}</tr>"


def _names(names: Sequence[str]) -> str:
    first, *more = names
    details = f"<small>{as_text(SEPARATOR.join(more))}</small>" if more else ""
    return f'<th class="name fixed">{as_text(first)}{details}</th>'


def _number(number: Number | None, best: Number | None) -> str:
    """Return our number, bold if it is the best, above the paper's with a mark."""
    if number is None or best is None:
        return "<td>-</td>"
    ours, paper = as_text(number.words), ""
    if number.ours == best.ours:
        ours = f"<strong>{ours}</strong>"
    if number.paper is not None:
        paper = f'<small class="{number.paper.ours_is}">{as_text(number.paper.words)}</small>'
    return f'<td class="number">{ours}{paper}</td>'


# --- The networks -----------------------------------------------------------------------------


def _networks(chapter: RecordChapter) -> str:
    headings = ["network", "fine-tuned from", "steps", "minutes", "folder"]
    looks = ["name fixed", "name", "", "", ""]
    head = "".join(as_cell("th", *cell) for cell in zip(headings, looks, strict=True))
    rows = "\n".join(_network(network, looks) for network in chapter.networks)
    return as_table(f"Networks of {chapter.name}", head, rows)


def _network(network: Network, looks: Sequence[str]) -> str:
    words = [
        network.name,
        network.start or "-",
        f"{network.steps:,}",
        f"{network.minutes:.1f}",
        network.folder,
    ]
    cells = "".join(as_cell("td", *cell) for cell in zip(words, looks, strict=True))
    return f"<tr>{cells}</tr>"
