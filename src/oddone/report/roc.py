"""The ROC: how many OOD images are detected for how many false alarms."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from oddone.metrics import auroc
from oddone.report.style import drawing_style
from oddone.report.threshold_curves import (
    Point,
    Scores,
    ThresholdCurve,
    count_anomalous,
    draw_threshold_curves,
)


def draw_roc(
    ind_scores: Scores, ood_scores: Mapping[str, Scores], threshold: float | None = None
) -> Figure:
    """Return the ROC of each OOD set against the test images; the threshold is a dot on it."""
    curves = {name: _curve(ind_scores, scores, threshold) for name, scores in ood_scores.items()}
    with drawing_style():
        figure, axes = draw_threshold_curves(curves, diagonal="guessing")
        axes.set(xlabel="test images called odd (false alarms)", ylabel="OOD images detected")
    return figure


def _curve(ind_scores: Scores, ood_scores: Scores, threshold: float | None) -> ThresholdCurve:
    counts = count_anomalous(ind_scores, ood_scores)
    at_threshold = None
    if threshold is not None:
        at_threshold = Point(
            float((ind_scores > threshold).mean()), float((ood_scores > threshold).mean())
        )
    return ThresholdCurve(
        counts.ind / len(ind_scores),
        counts.ood / len(ood_scores),
        f"AUROC {auroc(ind_scores, ood_scores):.1%}",
        at_threshold,
    )
