"""The ROC: how many OOD images are caught for how many false alarms."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from oddone.metrics import auroc
from oddone.report.style import drawing
from oddone.report.threshold_curves import Curve, Point, Scores, draw_curves_of_sets, flagged


def draw_roc(
    ind_scores: Scores, ood_scores: Mapping[str, Scores], threshold: float | None = None
) -> Figure:
    """Return the ROC of each OOD set against the test images; the threshold is a dot on it."""
    curves = {name: _curve(ind_scores, scores, threshold) for name, scores in ood_scores.items()}
    with drawing():
        figure, axes = draw_curves_of_sets(curves, diagonal="guessing")
        axes.set(xlabel="test images flagged (false alarms)", ylabel="OOD images caught")
    return figure


def _curve(ind_scores: Scores, ood_scores: Scores, threshold: float | None) -> Curve:
    counts = flagged(ind_scores, ood_scores)
    own = None
    if threshold is not None:
        own = Point(float((ind_scores > threshold).mean()), float((ood_scores > threshold).mean()))
    return Curve(
        counts.ind / len(ind_scores),
        counts.ood / len(ood_scores),
        f"AUROC {auroc(ind_scores, ood_scores):.1%}",
        own,
    )
