"""The page on records of benches: tables of methods beside the paper's numbers, and figures."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from oddone.report.comparison import SEPARATOR, Comparison
from oddone.report.figures import Illustration
from oddone.report.html_page import render_page

MOST_NAMED = 4
"""Records that the heading names; the contents name all."""


class NetworkRow(NamedTuple):
    """A network that was trained."""

    name: str
    start: str
    """The name of the network it was fine-tuned from; empty if there is none."""
    steps: int
    minutes: float
    folder: str


class RecordChapter(NamedTuple):
    """What the page says of one record."""

    name: str
    file_name: str
    lead: str
    """The most important numbers, as the end of a sentence that the name begins."""
    comparison: Comparison
    captions: Sequence[str]
    """What a reader has to know of the numbers: first what they are, then the rest."""
    illustrations: Sequence[Illustration]
    networks: Sequence[NetworkRow]
    origin: Mapping[str, str]
    """What the record was made with: the command, the date, the machine and the versions."""


def render_record_page(chapters: Sequence[RecordChapter]) -> str:
    """Return the page: what matters most of each record, then a chapter on each."""
    names = [chapter.name for chapter in chapters]
    return render_page(
        "records.html",
        names if len(names) <= MOST_NAMED else [f"{len(names):,} records of oddone bench"],
        {chapter.name: chapter.file_name for chapter in chapters},
        chapters=chapters,
        separator=SEPARATOR,
    )
