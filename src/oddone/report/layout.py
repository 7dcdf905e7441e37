"""One HTML page that holds all it shows: no request leaves it, and it needs no network."""

import base64
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import NamedTuple

from oddone import __version__
from oddone.report.figures import Illustration
from oddone.report.style import rendered
from oddone.report.words import legible

_PAGE = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))

LARGEST = 1.6  # times its own size, so that the type of all figures is about the same


class Section(NamedTuple):
    """A part of a page that the contents lead to."""

    anchor: str
    heading: str
    content: str
    """As HTML."""


def lay_out(
    subjects: Sequence[str], lead: str, sections: Sequence[Section], sources: Mapping[str, str]
) -> str:
    """Return the page on these subjects. The sources say where each thing on it comes from."""
    return _PAGE.substitute(
        title=as_text(f"Report on {joined(subjects)}"),
        lead=lead,
        contents=_contents(sections),
        sections="\n".join(map(_section, sections)),
        sources=_sources(sources),
    )


def as_text(words: str) -> str:
    """Return words as HTML shows them, whatever they hold; a class may be called <script>."""
    return escape(legible(words))


def as_cell(tag: str, words: str, look: str = "") -> str:
    """Return a cell of a table."""
    attribute = f' class="{look}"' if look else ""
    return f"<{tag}{attribute}>{as_text(words)}</{tag}>"


def as_table(alt_text: str, head: str, *bodies: str, caption: str = "") -> str:
    """Return a table in a box that scrolls, where the page is too narrow for it."""
    caption = f"<caption>{as_text(caption)}</caption>\n" if caption else ""
    return (
        f'<div class="box" role="region" aria-label="{as_text(alt_text)}" tabindex="0">\n'
        f"<table>\n{caption}<thead><tr>{head}</tr></thead>\n"
        + "\n".join(f"<tbody>\n{body}\n</tbody>" for body in bodies)
        + "\n</table>\n</div>"
    )


def as_meanings(meanings: Mapping[str, str]) -> str:
    """Return words and what they mean."""
    items = "\n".join(
        f"<div><dt>{as_text(word)}</dt><dd>{as_text(meaning)}</dd></div>"
        for word, meaning in meanings.items()
    )
    return f"<dl>\n{items}\n</dl>"


def as_figures(illustrations: Sequence[Illustration]) -> str:
    """Return figures with their words, side by side where the page is wide enough."""
    figures = "\n".join(map(_figure, illustrations))
    return f'<div class="figures">\n{figures}\n</div>'


def joined(words: Sequence[str]) -> str:
    """Return words as one lists them in a sentence."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _contents(sections: Sequence[Section]) -> str:
    if len(sections) == 1:  # which is in sight
        return ""
    items = "".join(
        f'<li><a href="#{section.anchor}">{as_text(section.heading)}</a></li>'
        for section in sections
    )
    return f'<nav aria-label="Contents"><ul>{items}</ul></nav>'


def _section(section: Section) -> str:
    return (
        f'<section id="{section.anchor}">\n<h2>{as_text(section.heading)}</h2>\n'
        f"{section.content}\n</section>"
    )


def _figure(illustration: Illustration) -> str:
    look = ' class="wide"' if illustration.wide else ""
    return (
        f"<figure{look}>\n<h3>{as_text(illustration.heading)}</h3>\n"
        f'<div class="picture">{_image(illustration)}</div>\n'
        f"<figcaption>{as_text(illustration.caption)}</figcaption>\n</figure>"
    )


def _image(illustration: Illustration) -> str:
    width, height = (72 * inches for inches in illustration.figure.get_size_inches())
    content = base64.b64encode(rendered(illustration.figure, ".svg")).decode()
    widest = f"max-width: {LARGEST * width:.0f}px"
    return (
        f'<img alt="{as_text(illustration.alt_text)}" width="{width:.0f}" height="{height:.0f}" '
        f'style="{widest}" src="data:image/svg+xml;base64,{content}">'
    )


def _sources(sources: Mapping[str, str]) -> str:
    lines = [f"<p>Made by oddone {as_text(__version__)}.</p>"]
    lines += [f"<p>{as_text(what)}: {as_text(source)}</p>" for what, source in sources.items()]
    return "\n".join(lines)
