"""The figures of a report, each with a heading, a caption, and a text that stands for it."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from oddone.bench import Record
from oddone.bench.scaling import MEASURES, curves
from oddone.progress import Progress
from oddone.report.cases import Case, draw_cases
from oddone.report.collect import ReportData
from oddone.report.comparison import Comparison, draw_comparison
from oddone.report.confusion import confusion_shares, draw_confusion
from oddone.report.distributions import draw_distributions
from oddone.report.precision_recall import draw_precision_recall
from oddone.report.resize_artefacts import ResizedPair, draw_artefacts
from oddone.report.roc import draw_roc
from oddone.report.scaling_curves import draw_scaling
from oddone.report.style import ANOMALOUS, UNKNOWN
from oddone.report.threshold_curves import Scores
from oddone.report.training_curves import LossCurve, draw_losses, draw_training_curves
from oddone.report.tsne import MIN_POINTS, TSNEPanel, draw_tsne, tsne_points
from oddone.report.views import draw_views
from oddone.verdicts import Verdicts
from oddone.wording import format_score, legible

History = Sequence[Mapping[str, Any]]
"""The lines of a run's history.jsonl, one for each step."""

TERMS = {
    "ccm": "ccm, the class-conditional mask, is low where two views of an image lie together and "
    "other images apart: other classes most, the same class least.",
    "spa": "spa, stochastic positive attraction, is low where images of one class, rotated alike, "
    "lie together.",
}
"""What the terms of the MCL loss mean."""


class Illustration(NamedTuple):
    """A figure with its heading and caption."""

    name: str
    """The name of its file, if it is saved alone."""
    heading: str
    caption: str
    alt_text: str
    """What it shows, for readers who cannot see it."""
    figure: Figure
    wide: bool = False
    """Whether it is as wide as the page, and scrolls on a narrow screen."""
    file_names: Sequence[str] = ()
    """Where the images that it shows are found."""


def illustrate_detector(report_data: ReportData, history: History) -> Iterator[Illustration]:
    """Yield the figures of one detector for which there is something to show."""
    yield from _score_illustrations(report_data)
    if (report_data.labels >= 0).any():
        yield _confusion_illustration(report_data)
    if history:
        yield _training_illustration(history)
    yield _views_illustration(report_data)
    yield from _case_illustrations(report_data)


def illustrate_embeddings(
    detectors: Sequence[ReportData], seed: int, progress: Progress | None = None
) -> Iterator[Illustration]:
    """Yield the t-SNE of up to four detectors side by side, if there are images enough."""
    if any(len(report_data.sample.labels) < MIN_POINTS for report_data in detectors):
        return
    classes = list(dict.fromkeys(name for report_data in detectors for name in report_data.classes))
    panels = []
    for index, report_data in enumerate(detectors):
        if progress is not None:
            progress(index, len(detectors), "t-SNE")
        sample = report_data.sample
        # The labels of OOD images, -1, pick the last, which is -1.
        numbers = np.array([*map(classes.index, report_data.classes), -1])
        points = tsne_points(sample.embeddings, seed)
        panels.append(TSNEPanel(report_data.name, points, numbers[sample.labels]))
    shown = detectors[0].sample.labels
    names = _join([panel.name for panel in panels])
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


def illustrate_artefacts(pairs: Sequence[ResizedPair]) -> Illustration:
    """Return the figure of what resizing does to pictures."""
    antialiased = fmean(pair.antialiased.score for pair in pairs)
    aliased = fmean(pair.aliased.score for pair in pairs)
    return Illustration(
        "artefacts",
        "What resizing leaves behind",
        "The same pictures, resized with antialiasing and by dropping pixels. Jagged edges give "
        "OOD images away whatever they show, so a benchmark that has them flatters a detector. "
        f"Here the mean score is {format_score(antialiased)} without artefacts, "
        f"{format_score(aliased)} with them.",
        f"{len(pairs)} pictures resized in two ways, with their scores",
        draw_artefacts(pairs),
    )


def illustrate_comparison(comparison: Comparison) -> Illustration:
    """Return the figure of methods compared, in which the best are found at a glance."""
    best = [
        f"{measure.of} {measure.metric} {number.text}"
        for index, measure in enumerate(comparison.measures)
        for number in [comparison.best(index)]
        if number is not None
    ]
    return Illustration(
        "comparison",
        "Every number at a glance",
        "A line for each method, a panel for each measure; an arrow says which way is better. "
        "Each panel has a scale of its own.",
        f"Dot plots of {len(comparison.methods):,} methods. The best of ours: {_join(best)}",
        draw_comparison(comparison),
    )


def illustrate_scaling(record: Record) -> Illustration:
    """Return the figure of what methods reach in so many minutes."""
    measures = {name: curves(record, column) for column, name in MEASURES.items()}
    best = [
        f"{name} {last.mean:.1f} in {last.minutes:g} minutes by {curve}"
        for name, found in measures.items()
        for last, curve in sorted((each.points[-1], each.name) for each in found)[-1:]
    ]
    several = any(len(row.results) > 1 for row in record.rows)
    shade = " The shade is the standard deviation over seeds." if several else ""
    return Illustration(
        "scaling",
        "What another minute buys",
        "Where a line is steep, more minutes pay; where two cross, another method is the better "
        f"one from there on. Equal distances to the right are equal factors of time.{shade}",
        f"Curves over minutes. The highest at their end: {_join(best)}",
        draw_scaling({name: found for name, found in measures.items() if found}),
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
        f"Losses of {_join(list(networks))}",
        draw_losses({name: [*map(_loss_curve, each)] for name, each in networks.items()}),
    )


def illustrations_by_name(chapters: Sequence[Sequence[Illustration]]) -> dict[str, Illustration]:
    """Return figures by their names; those of several chapters get a number."""
    return {
        f"{each.name}-{index}" if len(chapters) > 1 else each.name: each
        for index, illustrations in enumerate(chapters, start=1)
        for each in illustrations
    }


def _score_illustrations(report_data: ReportData) -> Iterator[Illustration]:
    ind = _scores(report_data.ind)
    oods = {name: _scores(verdicts) for name, verdicts in report_data.oods.items()}
    results = report_data.evaluation.oods
    if oods:
        aurocs = [f"{name} {result.metrics.auroc:.1%}" for name, result in results.items()]
        yield Illustration(
            "roc",
            "Detected images and false alarms",
            "Each point of a curve is a threshold that could be chosen. The nearer a curve is to "
            "the upper left corner, the more OOD images are detected for few false alarms.",
            f"ROC curves. AUROC: {_join(aurocs)}",
            draw_roc(ind, oods, report_data.threshold),
        )
        auprs = [f"{name} {result.metrics.aupr_out:.1%}" for name, result in results.items()]
        yield Illustration(
            "precision-recall",
            "How far the verdict 'odd' can be trusted",
            "Of all images that a threshold calls odd, how many are OOD. That depends on how many "
            "OOD images there are: among few, false alarms weigh more.",
            f"Precision and recall. AUPR: {_join(auprs)}",
            draw_precision_recall(ind, oods, report_data.threshold),
        )
    ind_scores = _ind_scores(report_data)
    yield Illustration(
        "distributions",
        "How the scores are spread",
        "Histograms with density curves of the same area. Where that of the OOD images overlaps "
        "with the others, no threshold can tell them apart. The long ends are cut off.",
        f"Scores of {_join([*ind_scores, *oods])}",
        draw_distributions(ind_scores, oods, report_data.threshold),
    )


def _scores(verdicts: Verdicts) -> Scores:
    return verdicts.scores.double().numpy()


def _ind_scores(report_data: ReportData) -> dict[str, Scores]:
    """Return the scores of the test images, those with a right and a wrong label apart."""
    scores, labelled = _scores(report_data.ind), report_data.labels >= 0
    if not labelled.any():
        return {"test images": scores}
    right = report_data.ind.labels.numpy() == report_data.labels
    return {
        "correctly classified": scores[labelled & right],
        "wrongly classified": scores[labelled & ~right],
    }


def _confusion_illustration(report_data: ReportData) -> Illustration:
    labelled = report_data.labels >= 0
    predicted = report_data.ind.labels.numpy()[labelled]
    shares = confusion_shares(report_data.labels[labelled], predicted, len(report_data.classes))
    worst = np.nan_to_num(shares * (1 - np.eye(len(shares))))
    true, named = np.unravel_index(worst.argmax(), worst.shape)
    words = "No image gets a wrong name."
    if worst.max() > 0:
        names = [legible(report_data.classes[label]) for label in (int(true), int(named))]
        words = f"Most often, {names[0]} is taken for {names[1]}: {worst.max():.1%} of its images."
    return Illustration(
        "confusion",
        "Which class is taken for which",
        f"Each row is a class, and how its test images are named. {words}",
        f"Confusion matrix of {len(report_data.classes):,} classes. {words}",
        draw_confusion(shares, report_data.classes),
    )


def _case_illustrations(report_data: ReportData) -> Iterator[Illustration]:
    decided = report_data.ind.anomalous is not None
    if report_data.missed:
        yield Illustration(
            "missed",
            "OOD images taken for normal" if decided else "The least odd OOD images",
            "Those with the lowest scores, what they were taken for, and the three training images "
            "that look most like each to the network, by cosine distance. Often one sees why.",
            _case_names(report_data.missed),
            draw_cases(report_data.missed, "OOD image", ANOMALOUS),
            file_names=_file_names(report_data.missed),
        )
    if report_data.false_alarms:
        yield Illustration(
            "false-alarms",
            "Normal images called odd",
            "False alarms, the most anomalous first: what they are, and the three training images "
            "that look most like each, by cosine distance. A bad picture, a wrong label, or a kind "
            "that training did not show; if it should pass as normal, train with more of its kind.",
            _case_names(report_data.false_alarms),
            draw_cases(report_data.false_alarms, "test image", ANOMALOUS),
            file_names=_file_names(report_data.false_alarms),
        )
    if report_data.misclassified:
        yield Illustration(
            "mistaken",
            "Test images with a wrong name",
            "Those with the lowest scores, which the detector found most normal: what they are, "
            "what they were taken for, and the three training images that look most like each, "
            "by cosine distance.",
            _case_names(report_data.misclassified),
            draw_cases(report_data.misclassified, "test image", UNKNOWN),
            file_names=_file_names(report_data.misclassified),
        )


def _file_names(cases: Sequence[Case]) -> list[str]:
    return [case.file_name for case in cases]


def _case_names(cases: Sequence[Case]) -> str:
    return _join([f"{case.image.name} {case.image.note}" for case in cases])


def _views_illustration(report_data: ReportData) -> Illustration:
    images = report_data.typical_images
    count = len(images[0].views)
    heading, caption = "The one view of an image", "This detector scores each image as it is."
    if count > 1:
        heading = f"The {count} views of an image"
        caption = (
            "An image is scored in several poses. Each is compared with the classes in that pose, "
            "and the distances together make the score. A normal image is near in every view."
        )
    alt_text = _join([f"{image.heading}: score {format_score(image.score)}" for image in images])
    return Illustration("views", heading, caption, alt_text, draw_views(images))


def _training_illustration(history: History) -> Illustration:
    steps, losses = _loss_curve(history)
    series = {"loss": losses}
    for name in history[0]["terms"]:
        series[name] = np.array([float(line["terms"][name]) for line in history])
    rates = np.array([float(line["learning_rate"]) for line in history])
    return Illustration(
        "curves",
        "How it was trained",
        "The loss and its terms by step, smoothed over pale raw values, and the learning rate. A "
        "loss that still falls at the end says that longer training would help."
        f"{_explained_terms(series)}",
        f"Training curves: loss {losses[0]:.2f} at first, {losses[-1]:.2f} after "
        f"{steps[-1]:,} steps",
        draw_training_curves(steps, series, rates),
    )


def _explained_terms(series: Mapping[str, object]) -> str:
    """Return what the terms of the MCL loss are, if it has any, to be added to a caption."""
    sentences = [f" {meaning}" for name, meaning in TERMS.items() if name in series]
    return "".join(sentences) + (" Each may be below zero." if sentences else "")


def _loss_curve(history: History) -> LossCurve:
    steps = np.array([int(line["step"]) for line in history])
    return LossCurve(steps, np.array([float(line["loss"]) for line in history]))


def _join(words: Sequence[str]) -> str:
    return ", ".join(map(legible, words))
