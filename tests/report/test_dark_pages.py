"""Figures on a dark page: all that is drawn can be seen there, and pictures stay as they are."""

import re

import numpy as np
import pytest
from matplotlib.figure import Figure

from oddone.bench.scaling import Curve, CurvePoint
from oddone.report.confusion import draw_confusion
from oddone.report.distributions import draw_distributions
from oddone.report.roc import draw_roc
from oddone.report.scaling_curves import draw_scaling
from oddone.report.style import GRID, LIGHT_GREY, ON_DARK, figure_bytes, svg_for_pages
from oddone.report.training_curves import draw_training_curves
from oddone.report.tsne import COLOURS, TSNEPanel, draw_tsne

CARD = ON_DARK["#FFFFFF"]
DECORATION = {ON_DARK[GRID], ON_DARK[LIGHT_GREY]}
SCORES = np.random.default_rng(0).normal(size=50)
STEPS = np.arange(1, 9)


def tsne() -> Figure:
    labels = np.arange(44) % 11 - 1
    names = [f"class {label}" for label in range(10)]
    return draw_tsne([TSNEPanel("a", np.random.default_rng(0).normal(size=(44, 2)), labels)], names)


FIGURES = {
    "confusion": draw_confusion(np.eye(3) * 0.9 + 0.05, ["a", "b", "c"]),
    "distributions": draw_distributions({"right": SCORES, "wrong": SCORES}, {"ood": SCORES}, 1.0),
    "roc": draw_roc(SCORES, {f"set {index}": SCORES for index in range(7)}, 1.0),
    "training": draw_training_curves(STEPS, {"loss": 1.0 / STEPS, "ccm": 1.0 / STEPS}, 1.0 / STEPS),
    "tsne": tsne(),
    "scaling": draw_scaling(
        {"accuracy": [Curve(f"method {index}", (CurvePoint(1, index, 1.0),)) for index in range(7)]}
    ),
}


def colours_of(svg: bytes) -> set[str]:
    """Return the colours of what is drawn, without those of the style that is for dark pages."""
    drawn = svg.decode().partition("</style>")[2]
    return {colour.upper() for colour in re.findall(r"(?:fill|stroke): (#[0-9a-f]{6})", drawn)}


def luminance(colour: str) -> float:
    """Return the relative luminance of WCAG 2."""
    values = np.array([int(colour[start : start + 2], 16) for start in (1, 3, 5)]) / 255
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", FIGURES)
def test_all_that_is_drawn_can_be_seen_on_a_dark_page(name: str) -> None:
    found = colours_of(svg_for_pages(FIGURES[name]))
    assert "#FFFFFF" in found  # the paper, which becomes that of a dark card
    dark = {ON_DARK.get(colour, colour) for colour in found} - DECORATION - {CARD}
    assert {colour for colour in dark if contrast(colour, CARD) < 4} == set()


def test_classes_keep_colours_of_their_own() -> None:
    dark = [ON_DARK.get(colour, colour) for colour in COLOURS]
    assert len(set(dark)) == len(COLOURS)


def test_each_colour_has_a_rule_for_what_is_filled_and_what_is_a_line() -> None:
    svg = svg_for_pages(FIGURES["roc"]).decode()
    (style,) = re.findall(r"@media\(prefers-color-scheme:dark\)\{(.*?)\}</style>", svg)
    rule = '[style*="fill: #222222"]{fill:#ececec!important}'
    assert rule in style
    assert rule.replace("fill", "stroke") in style
    assert style.count("!important") == 2 * len(ON_DARK)


def test_a_figure_that_is_saved_alone_stays_light() -> None:
    assert b"prefers-color-scheme" not in figure_bytes(FIGURES["roc"], ".svg")
