"""Precision and recall: how many images called odd are OOD, and how many OOD images that finds."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from oddone.metrics import aupr_out
from oddone.report.style import drawing_style
from oddone.report.threshold_curves import (
    Point,
    Scores,
    ThresholdCurve,
    count_anomalous,
    draw_threshold_curves,
)


def draw_precision_recall(
    ind_scores: Scores, ood_scores: Mapping[str, Scores], threshold: float | None = None
) -> Figure:
    """Return precision against recall of each OOD set among the test images."""
    curves = {name: _curve(ind_scores, scores, threshold) for name, scores in ood_scores.items()}
    with drawing_style():
        figure, axes = draw_threshold_curves(curves)
        axes.set(
            xlabel="OOD images detected (recall)",
            ylabel="images called odd that are OOD (precision)",
        )
    return figure


def _curve(ind_scores: Scores, ood_scores: Scores, threshold: float | None) -> ThresholdCurve:
    counts = count_anomalous(ind_scores, ood_scores)
    ind, ood = counts.ind[1:], counts.ood[1:]  # where no image is anomalous, there is no precision
    at_threshold = None
    if threshold is not None:
        false, true = np.sum(ind_scores > threshold), np.sum(ood_scores > threshold)
        if false + true > 0:
            at_threshold = Point(float(true / len(ood_scores)), float(true / (true + false)))
    return ThresholdCurve(
        ood / len(ood_scores),
        ood / (ind + ood),
        f"AUPR {aupr_out(ind_scores, ood_scores):.1%}",
        at_threshold,
    )
