"""How good a detector is, of all images and class by class, and files that hold the numbers."""

from oddone.evaluation.files import as_class_csv, as_json, as_openood_csv
from oddone.evaluation.measures import (
    Averages,
    ScoredSet,
    accuracy_where_labelled,
    check_averages,
    evaluate,
    evaluate_scores,
    evaluate_verdicts,
    labels_by_name,
    labels_to_predict,
    ood_metrics,
)
from oddone.evaluation.results import (
    AverageResult,
    ClassResult,
    Evaluation,
    OODClassResult,
    OODMetrics,
    OODResult,
    OpenOODAupr,
    worst_classes,
    worst_ood_classes,
)

__all__ = [
    "AverageResult",
    "Averages",
    "ClassResult",
    "Evaluation",
    "OODClassResult",
    "OODMetrics",
    "OODResult",
    "OpenOODAupr",
    "ScoredSet",
    "accuracy_where_labelled",
    "as_class_csv",
    "as_json",
    "as_openood_csv",
    "check_averages",
    "evaluate",
    "evaluate_scores",
    "evaluate_verdicts",
    "labels_by_name",
    "labels_to_predict",
    "ood_metrics",
    "worst_classes",
    "worst_ood_classes",
]
