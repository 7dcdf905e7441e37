"""The figures of a report, each with a heading, what it means, and what it says without eyes."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from oddone.progress import Progress
from oddone.report.artefacts import BothWays, draw_artefacts
from oddone.report.cases import Case, draw_cases
from oddone.report.comparison import Comparison, draw_comparison
from oddone.report.confusion import confusion_matrix, draw_confusion
from oddone.report.curves import Losses, draw_curves, draw_losses
from oddone.report.distributions import draw_distributions
from oddone.report.gather import Gathered
from oddone.report.precision_recall import draw_precision_recall
from oddone.report.roc import draw_roc
from oddone.report.style import ODD, UNKNOWN
from oddone.report.threshold_curves import Scores
from oddone.report.tsne import FEWEST, Panel, draw_tsne, on_a_plane
from oddone.report.views import draw_views
from oddone.report.words import legible, number

History = Sequence[Mapping[str, Any]]
"""What a run wrote down of each step."""


class Illustration(NamedTuple):
    """A figure and its words."""

    name: str
    """For the file, if it is saved alone."""
    heading: str
    caption: str
    alt_text: str
    """What can be read from it, for those who cannot see it."""
    figure: Figure
    wide: bool = False
    """Whether it is wider than others, and does not get smaller."""


def illustrate(gathered: Gathered, history: History) -> Iterator[Illustration]:
    """Yield the figures of one detector for which there is something to show."""
    yield from _of_scores(gathered)
    if (gathered.labels >= 0).any():
        yield _confusion(gathered)
    if history:
        yield _curves(history)
    yield _views(gathered)
    yield from _of_cases(gathered)


def illustrate_embeddings(
    detectors: Sequence[Gathered], seed: int, progress: Progress | None = None
) -> Iterator[Illustration]:
    """Yield the t-SNE of up to four detectors side by side, if there are images enough."""
    if any(len(gathered.sample.labels) < FEWEST for gathered in detectors):
        return
    classes = list(dict.fromkeys(name for gathered in detectors for name in gathered.classes))
    panels = []
    for place, gathered in enumerate(detectors):
        if progress is not None:
            progress(place, len(detectors), "t-SNE")
        numbers = np.array([*map(classes.index, gathered.classes), -1])  # OOD, -1, picks the last
        points = on_a_plane(gathered.sample.embeddings, seed)
        panels.append(Panel(gathered.name, points, numbers[gathered.sample.labels]))
    shown = detectors[0].sample.labels
    names = _listed([panel.name for panel in panels])
    yield Illustration(
        "tsne",
        "What the network tells apart",
        "Each point is an image, laid out by t-SNE so that images which are alike to the network "
        "lie together. A class should be an island of one colour; crosses, images that are none "
        "of the classes, should lie outside the islands. How far apart islands are means nothing.",
        f"t-SNE of {(shown >= 0).sum():,} test and {(shown < 0).sum():,} OOD images: {names}",
        draw_tsne(panels, classes),
        wide=len(panels) > 1,
    )


def illustrate_artefacts(pictures: Sequence[BothWays]) -> Illustration:
    """Return the figure of what shrinking does to pictures."""
    fixed = fmean(both.fixed.score for both in pictures)
    aliased = fmean(both.aliased.score for both in pictures)
    return Illustration(
        "artefacts",
        "What shrinking leaves behind",
        "The same pictures, shrunk with antialiasing and by dropping pixels. Jagged edges give OOD "
        "images away whatever they show, so a benchmark that has them flatters a detector. "
        f"Here the mean score is {number(fixed)} without artefacts, {number(aliased)} with them.",
        f"{len(pictures)} pictures shrunk in two ways, with their scores",
        draw_artefacts(pictures),
    )


def illustrate_comparison(comparison: Comparison) -> Illustration:
    """Return the figure of methods compared, in which the best are found at a glance."""
    best = [
        f"{measure.of} {measure.metric} {number.words}"
        for place, measure in enumerate(comparison.measures)
        for number in [comparison.best(place)]
        if number is not None
    ]
    return Illustration(
        "comparison",
        "Every number at a glance",
        "A line for each method, a panel for each measure; an arrow says which way is better. "
        "Each panel has a scale of its own.",
        f"Dot plots of {len(comparison.methods):,} methods. The best of ours: {_listed(best)}",
        draw_comparison(comparison),
    )


def illustrate_losses(networks: Mapping[str, Sequence[History]]) -> Illustration:
    """Return the figure of how networks were trained, by their names; none may be empty."""
    caption = (
        "The loss by step, smoothed over pale raw values. Losses of two kinds cannot be compared, "
        "only their course: one that still falls at the end says that longer training would help."
    )
    if any(len(histories) > 1 for histories in networks.values()):
        caption += " Lines in one panel differ in their seed, size or length."
    return Illustration(
        "losses",
        "How the networks were trained",
        caption,
        f"Losses of {_listed(list(networks))}",
        draw_losses({name: [*map(_losses, each)] for name, each in networks.items()}),
    )


def by_name(chapters: Sequence[Sequence[Illustration]]) -> dict[str, Illustration]:
    """Return figures by their names; those of several chapters are told apart by a number."""
    return {
        f"{each.name}-{place}" if len(chapters) > 1 else each.name: each
        for place, illustrations in enumerate(chapters, start=1)
        for each in illustrations
    }


def _of_scores(gathered: Gathered) -> Iterator[Illustration]:
    ind = gathered.ind.scores
    oods = {name: judged.scores for name, judged in gathered.oods.items()}
    results = gathered.evaluation.oods
    if oods:
        aurocs = [f"{name} {result.metrics.auroc:.1%}" for name, result in results.items()]
        yield Illustration(
            "roc",
            "Catches and false alarms",
            "Each point of a curve is a threshold that could be chosen. The nearer a curve is to "
            "the upper left corner, the more OOD images are caught for few false alarms.",
            f"ROC curves. AUROC: {_listed(aurocs)}",
            draw_roc(ind, oods, gathered.threshold),
        )
        auprs = [f"{name} {result.metrics.aupr_out:.1%}" for name, result in results.items()]
        yield Illustration(
            "precision-recall",
            "How far a flag can be trusted",
            "Of all images that a threshold flags, how many are OOD. This depends on how many OOD "
            "images there are: among few, false alarms weigh more.",
            f"Precision and recall. AUPR: {_listed(auprs)}",
            draw_precision_recall(ind, oods, gathered.threshold),
        )
    groups = _ind_groups(gathered)
    yield Illustration(
        "distributions",
        "How the scores are spread",
        "Histograms with density curves, each of area one. Where the OOD images' overlaps with "
        "the others', no threshold can tell them apart. The long ends are cut off.",
        f"Scores of {_listed([*groups, *oods])}",
        draw_distributions(groups, oods, gathered.threshold),
    )


def _ind_groups(gathered: Gathered) -> dict[str, Scores]:
    """Return the scores of the test images, apart for right and wrong where that is known."""
    scores, labelled = gathered.ind.scores, gathered.labels >= 0
    if not labelled.any():
        return {"test images": scores}
    right = gathered.ind.labels == gathered.labels
    return {
        "correctly classified": scores[labelled & right],
        "wrongly classified": scores[labelled & ~right],
    }


def _confusion(gathered: Gathered) -> Illustration:
    labelled = gathered.labels >= 0
    predicted = gathered.ind.labels[labelled]
    shares = confusion_matrix(gathered.labels[labelled], predicted, len(gathered.classes))
    worst = np.nan_to_num(shares * (1 - np.eye(len(shares))))
    true, named = np.unravel_index(worst.argmax(), worst.shape)
    words = "No image gets a wrong name."
    if worst.max() > 0:
        names = [legible(gathered.classes[label]) for label in (int(true), int(named))]
        words = f"Most often, {names[0]} is taken for {names[1]}: {worst.max():.1%} of its images."
    return Illustration(
        "confusion",
        "Which class is taken for which",
        f"Each row is a class, and how its test images are named. {words}",
        f"Confusion matrix of {len(gathered.classes):,} classes. {words}",
        draw_confusion(shares, gathered.classes),
    )


def _of_cases(gathered: Gathered) -> Iterator[Illustration]:
    threshold = gathered.threshold is not None
    if gathered.misses:
        yield Illustration(
            "missed",
            "OOD images taken for normal" if threshold else "The least odd OOD images",
            "Those with the lowest scores, what they were taken for, and the three training images "
            "that look most like each to the network. Often one sees why.",
            _pairs(gathered.misses),
            draw_cases(gathered.misses, "OOD image", ODD),
        )
    if gathered.mistakes:
        yield Illustration(
            "mistaken",
            "Test images with a wrong name",
            "Those with the lowest scores, which the detector found most normal: what they are, "
            "what they were taken for, and the three training images that look most like each.",
            _pairs(gathered.mistakes),
            draw_cases(gathered.mistakes, "test image", UNKNOWN),
        )


def _pairs(cases: Sequence[Case]) -> str:
    return _listed([f"{case.image.name} {case.image.note}" for case in cases])


def _views(gathered: Gathered) -> Illustration:
    count = len(gathered.viewed[0].views)
    heading, caption = "The one view of an image", "This detector judges each image as it is."
    if count > 1:
        heading = f"The {count} views of an image"
        caption = (
            "An image is judged in several poses. Each is compared with the classes in that pose, "
            "and the distances make the score together. A normal image is near in every view."
        )
    alt_text = _listed(
        [f"{image.heading}: score {number(image.score)}" for image in gathered.viewed]
    )
    return Illustration("views", heading, caption, alt_text, draw_views(gathered.viewed))


def _curves(history: History) -> Illustration:
    steps, losses = _losses(history)
    series = {"loss": losses}
    for name in history[0]["terms"]:
        series[name] = np.array([float(line["terms"][name]) for line in history])
    rates = np.array([float(line["learning_rate"]) for line in history])
    return Illustration(
        "curves",
        "How it was trained",
        "The loss and its terms by step, smoothed over pale raw values, and the learning rate. A "
        "loss that still falls at the end says that longer training would help.",
        f"Training curves: loss {losses[0]:.2f} at first, {losses[-1]:.2f} after "
        f"{steps[-1]:,} steps",
        draw_curves(steps, series, rates),
    )


def _losses(history: History) -> Losses:
    steps = np.array([int(line["step"]) for line in history])
    return Losses(steps, np.array([float(line["loss"]) for line in history]))


def _listed(words: Sequence[str]) -> str:
    return ", ".join(map(legible, words))
