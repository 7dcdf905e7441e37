"""Precision and recall: how far a flag can be trusted, and how many OOD images it finds."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from oddone.metrics import aupr_out
from oddone.report.style import drawing
from oddone.report.threshold_curves import Curve, Point, Scores, draw_curves_of_sets, flagged


def draw_precision_recall(
    ind_scores: Scores, ood_scores: Mapping[str, Scores], threshold: float | None = None
) -> Figure:
    """Return precision against recall of each OOD set among the test images."""
    curves = {name: _curve(ind_scores, scores, threshold) for name, scores in ood_scores.items()}
    with drawing():
        figure, axes = draw_curves_of_sets(curves)
        axes.set(
            xlabel="OOD images caught (recall)", ylabel="flagged images that are OOD (precision)"
        )
    return figure


def _curve(ind_scores: Scores, ood_scores: Scores, threshold: float | None) -> Curve:
    counts = flagged(ind_scores, ood_scores)
    ind, ood = counts.ind[1:], counts.ood[1:]  # where nothing is flagged, there is no precision
    own = None
    if threshold is not None:
        false, true = np.sum(ind_scores > threshold), np.sum(ood_scores > threshold)
        if false + true > 0:
            own = Point(float(true / len(ood_scores)), float(true / (true + false)))
    return Curve(
        ood / len(ood_scores),
        ood / (ind + ood),
        f"AUPR {aupr_out(ind_scores, ood_scores):.1%}",
        own,
    )
