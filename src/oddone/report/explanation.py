"""One image's verdict in one figure: what it is, what it looks like, how odd that is.

Below the image and its verdict stand three charts: how far each view is from the nearest class,
which together make the score; how likely each class is, which gives the name; and the score among
the scores of normal images, which gives the verdict.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import UInt8
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter
from matplotlib.typing import ColorType

from oddone.detector import Calibration, Detector, Explanation
from oddone.detector.views import image_views, nearest_class
from oddone.report.cases import MAX_NEIGHBOURS
from oddone.report.style import (
    ANOMALOUS,
    BLACK,
    GREY,
    LIGHT_GREY,
    NORMAL,
    UNKNOWN,
    axes_at,
    drawing_style,
    new_figure,
    show_image,
    translucent,
    write_text,
)
from oddone.wording import (
    VerdictText,
    describe_neighbour,
    describe_verdict,
    format_score,
    legible,
)

MAX_CLASSES = 10
MAX_BINS = 30


class _ChartColumn(NamedTuple):
    """Where one of the charts stands, from left to right."""

    left: float
    width: float


# All in inches. The image stands above the first column, its verdict above the others.
_WIDTH, _HEIGHT = 12.0, 9.15
_VIEWS, _CLASSES, _SCORES = _ChartColumn(0.5, 3.3), _ChartColumn(4.35, 3.6), _ChartColumn(8.5, 3.0)
_TOP, _IMAGE_SIDE, _VERDICT_WIDTH = 0.5, 3.3, 7.15
_HEADING_TOP, _CHART_TOP, _CHART_HEIGHT, _ROW_HEIGHT = 4.55, 5.2, 3.1, 0.4
_NAMES_WIDTH, _NUMBERS_WIDTH = 1.42, 0.5

_HEADING = {"size": 12, "weight": "bold"}


def draw_explanation(
    detector: Detector,
    image: UInt8[np.ndarray, "3 height width"],
    explanation: Explanation,
    *,
    title: str = "",
) -> Figure:
    """Return a picture of why the image got its verdict; the title says which image it is."""
    with drawing_style():
        figure = new_figure(_WIDTH, _HEIGHT)
        colour = _colour(detector, explanation)
        _draw_image(figure, image, title, colour)
        _write_verdict(figure, describe_verdict(detector, explanation.verdict), colour)
        _draw_neighbours(figure, detector, explanation)
        _draw_views(figure, detector, image, explanation, colour)
        _draw_classes(figure, detector, explanation, colour)
        if detector.calibration is None:
            _write_how_to_calibrate(figure)
        else:
            calibration = detector.calibration.for_class(explanation.verdict.label)
            _draw_normal_scores(figure, calibration, explanation, colour)
    return figure


def _colour(detector: Detector, explanation: Explanation) -> str:
    if detector.calibration is None:
        return UNKNOWN
    return ANOMALOUS if explanation.verdict.anomalous else NORMAL


# --- The image, its verdict, and what it looks like -------------------------------------------


def _draw_image(
    figure: Figure, image: UInt8[np.ndarray, "3 height width"], title: str, colour: str
) -> None:
    axes = show_image(figure, _VIEWS.left, _TOP, _IMAGE_SIDE, image.transpose(1, 2, 0))
    axes.set_label("image")
    axes.spines[:].set(visible=True, color=colour, linewidth=3)
    write_text(figure, _VIEWS.left, _TOP + _IMAGE_SIDE + 0.12, title, _IMAGE_SIDE, color=GREY)


def _write_verdict(figure: Figure, verdict: VerdictText, colour: str) -> None:
    for below, words, style in (
        (0.00, verdict.beginning, {"size": 12, "color": GREY}),
        (0.23, verdict.headline, {"size": 27, "weight": "bold", "color": colour}),
        (0.83, verdict.rarity, {"size": 14}),
        (1.16, verdict.reason, {"size": 10.5, "color": GREY}),
    ):
        write_text(figure, _CLASSES.left, _TOP + below, words, _VERDICT_WIDTH, **style)


def _draw_neighbours(figure: Figure, detector: Detector, explanation: Explanation) -> None:
    side, gap = 1.15, 0.1
    top, width = _TOP + _IMAGE_SIDE - side, _VERDICT_WIDTH / MAX_NEIGHBOURS
    words = "The training images that look most like it, by cosine distance"
    write_text(figure, _CLASSES.left, top - 0.32, words, _VERDICT_WIDTH, **_HEADING)
    for index, neighbour in enumerate(explanation.neighbours[:MAX_NEIGHBOURS]):
        left = _CLASSES.left + index * width
        show_image(figure, left, top, side, neighbour.thumbnail).set_label("neighbour")
        for below, words, style in (
            (0.24, detector.classes[neighbour.label], {"size": 11, "weight": "bold"}),
            (0.50, describe_neighbour(neighbour.similarity), {"size": 8}),
            (0.74, neighbour.path, {"size": 8, "color": GREY}),
        ):
            write_text(
                figure, left + side + gap, top + below, words, width - side - 2 * gap, **style
            )


# --- Distances and probabilities as bars ------------------------------------------------------


class _Bar(NamedTuple):
    name: str
    length: float
    colour: ColorType
    decides: bool = False
    """Whether it is the score, or the likeliest class."""


def _draw_views(
    figure: Figure,
    detector: Detector,
    image: UInt8[np.ndarray, "3 height width"],
    explanation: Explanation,
    colour: str,
) -> None:
    """Draw how far each view is from the nearest class, and how far they are together."""
    views = image_views(detector, image, explanation)
    bars = [_Bar(view.name, view.distance, translucent(colour)) for view in views]
    heading, each = "Its one view", "it"
    if len(views) > 1:
        heading, each = f"Its {len(views)} views", "each"
        bars.append(_Bar("together", explanation.verdict.score, colour))
    bars[-1] = bars[-1]._replace(colour=colour, decides=True)
    name = legible(detector.classes[nearest_class(detector, explanation)])
    _write_heading(figure, _VIEWS, heading, f"how far {each} is from what is nearest, {name}")
    axes = _draw_bars(figure, _VIEWS, bars, format_score)
    axes.set_label("views")
    axes.set(xlim=(0, 1.05 * max(bar.length for bar in bars) or 1), xlabel="distance")
    side = 0.92 * _row_height(bars)
    left = _VIEWS.left + _NAMES_WIDTH - 0.08 - side
    for index, view in enumerate(views):
        top = _CHART_TOP + (index + 0.5) * _row_height(bars) - side / 2
        show_image(figure, left, top, side, view.picture).set_label("view")


def _draw_classes(
    figure: Figure, detector: Detector, explanation: Explanation, colour: str
) -> None:
    """Draw how likely the likeliest classes are."""
    known = explanation.verdict.probabilities
    assert known is not None  # noqa: S101  (a detector always gives probabilities)
    probabilities = known.numpy()
    likeliest = np.argsort(-probabilities, kind="stable")[:MAX_CLASSES]
    bars = [
        _Bar(detector.classes[label], float(probabilities[label]), LIGHT_GREY)
        for label in likeliest
    ]
    bars[0] = bars[0]._replace(colour=colour, decides=True)
    heading = "How likely each class is"
    if len(probabilities) > MAX_CLASSES:
        heading = f"The likeliest {MAX_CLASSES} of {len(probabilities):,} classes"
    _write_heading(figure, _CLASSES, heading, "if it is one of them at all")
    axes = _draw_bars(figure, _CLASSES, bars, "{:.0%}".format)
    axes.set_label("classes")
    axes.set(xlim=(0, 1.05), xlabel="probability")
    axes.xaxis.set_major_formatter(PercentFormatter(1.0))


def _draw_bars(
    figure: Figure, column: _ChartColumn, bars: list[_Bar], format_number: Callable[[float], str]
) -> Axes:
    """Return axes with a bar for each number, names to their left and numbers to their right."""
    left, right = column.left + _NAMES_WIDTH, column.left + column.width
    row = _row_height(bars)
    axes = axes_at(figure, left, _CHART_TOP, right - _NUMBERS_WIDTH - left, row * len(bars))
    for index, bar in enumerate(bars):
        axes.barh(index + 0.5, bar.length, 0.7, color=bar.colour)
        middle = _CHART_TOP + row * (index + 0.5)
        style = {"va": "center", "weight": "bold" if bar.decides else "normal"}
        write_text(figure, column.left, middle, bar.name, _NAMES_WIDTH - 0.1, **style)
        write_text(
            figure, right, middle, format_number(bar.length), _NUMBERS_WIDTH, ha="right", **style
        )
    axes.set(ylim=(len(bars), 0), yticks=[])
    axes.xaxis.set_major_locator(MaxNLocator(4))
    return axes


def _row_height(bars: list[_Bar]) -> float:
    return min(_ROW_HEIGHT, _CHART_HEIGHT / len(bars))


# --- The score among others -------------------------------------------------------------------


def _draw_normal_scores(
    figure: Figure, calibration: Calibration, explanation: Explanation, colour: str
) -> None:
    """Draw the scores of normal images, the threshold, and the score of this image."""
    scores = calibration.scores.numpy()
    score, threshold = explanation.verdict.score, calibration.threshold
    normal = "1 normal image" if len(scores) == 1 else f"{len(scores):,} normal images"
    _write_heading(figure, _SCORES, "How odd it is", f"its score among {normal}")
    axes = axes_at(figure, _SCORES.left + 0.55, _CHART_TOP, _SCORES.width - 0.55, _CHART_HEIGHT)
    axes.set_label("scores")
    low, high = _score_range(min(scores[0], score), score, threshold)
    bins = min(MAX_BINS, 2 * math.isqrt(len(scores)))
    counts, _, _ = axes.hist(scores.clip(max=high), bins, color=translucent(NORMAL))
    axes.axvspan(threshold, high, color=translucent(ANOMALOUS, 0.1), linewidth=0, zorder=0)
    axes.set(xlim=(low, high), xlabel="score")
    axes.set(ylim=(0, np.max(counts) / 0.7), ylabel="normal images")  # room above for the words
    axes.spines.left.set_visible(True)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    free = (low, score) if score > threshold else (score, high)
    words = f"threshold {format_score(threshold)}"
    _mark(axes, threshold, words, 0.8, free, color=BLACK, dashes=(4, 3))
    this = f"this image {format_score(score)}"
    if score <= high:
        _mark(axes, score, this, 0.93, (low, high), color=colour, linewidth=2.5)
    else:
        _mark(axes, high, f"{this} →", 0.93, (low, high), color=colour, linewidth=0)


def _score_range(least: float, score: float, threshold: float) -> tuple[float, float]:
    """Return where the axis begins and ends; very high scores lie beyond its end."""
    normal = threshold - least or 1.0
    # Right of the threshold is room for its name; left of it, enough to see the normal scores.
    width = min(max(1.05 * (score - least), 1.8 * normal), 4.5 * normal)
    return least - 0.03 * width, least + width


def _write_how_to_calibrate(figure: Figure) -> None:
    _write_heading(figure, _SCORES, "How odd it is", "not known yet")
    for line, words in enumerate(
        (
            "Without a calibration, nothing is",
            "called odd. Show the detector images",
            "that are normal, and new to it:",
            "",
            "oddone calibrate RUN SOURCE",
        )
    ):
        write_text(figure, _SCORES.left, _CHART_TOP + 0.24 * line, words, _SCORES.width, size=10.5)


def _mark(
    axes: Axes, score: float, words: str, height: float, free: tuple[float, float], **style: Any
) -> None:
    """Draw an upright line with words at its upper end, on the side where more is free."""
    upright = axes.get_xaxis_transform()
    axes.plot([score, score], [0, height], transform=upright, clip_on=False, **style)
    right = free[1] - score > score - free[0]
    axes.annotate(
        words,
        (score, height),
        xycoords=upright,
        xytext=(4 if right else -4, 0),
        textcoords="offset points",
        ha="left" if right else "right",
        va="center",
        color=style["color"],
        size=9,
    )


def _write_heading(figure: Figure, column: _ChartColumn, words: str, more: str) -> None:
    write_text(figure, column.left, _HEADING_TOP, words, column.width, **_HEADING)
    write_text(figure, column.left, _HEADING_TOP + 0.26, more, column.width, color=GREY)
