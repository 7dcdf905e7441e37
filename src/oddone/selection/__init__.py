"""Which rule suits the images: classes are left out in turn and treated as never seen."""

from oddone.selection.candidates import CANDIDATES, Candidate
from oddone.selection.estimate import Estimate
from oddone.selection.fit import fit_frozen
from oddone.selection.folds import Fold, folds_of_classes, folds_of_images

__all__ = [
    "CANDIDATES",
    "Candidate",
    "Estimate",
    "Fold",
    "fit_frozen",
    "folds_of_classes",
    "folds_of_images",
]
