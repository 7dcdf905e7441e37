"""The HTML of a report: templates rendered to one page that holds all it shows.

The page needs no network. Whatever is put into a template is escaped, and characters that cannot
be shown are left out: a class may be called <script>.
"""

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from oddone import __version__
from oddone.report.style import svg_for_pages
from oddone.wording import describe_auroc, describe_estimate, join_words, legible

POINTS_PER_INCH = 72


def render_page(
    template: str, subjects: Sequence[str], sources: Mapping[str, str], **values: Any
) -> str:
    """Return the page on these subjects. The sources say where each thing on it comes from."""
    return _TEMPLATES.get_template(template).render(
        title=f"Report on {join_words(subjects)}", sources=sources, version=__version__, **values
    )


def _shown(value: object) -> object:
    """Return what is put into a page; HTML that a template has made stays as it is."""
    return legible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _svg_uri(figure: Figure) -> str:
    """Return a figure as an address that holds the whole picture."""
    content = base64.b64encode(svg_for_pages(figure)).decode()
    return f"data:image/svg+xml;base64,{content}"


def _size_in_points(figure: Figure) -> tuple[int, int]:
    width, height = (round(POINTS_PER_INCH * inches) for inches in figure.get_size_inches())
    return width, height


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _templates() -> Environment:
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "auroc_in_words": describe_auroc,
        "estimate_in_words": describe_estimate,
        "percent": _percent,
        "size_in_points": _size_in_points,
        "svg_uri": _svg_uri,
    }
    return templates


_TEMPLATES = _templates()
