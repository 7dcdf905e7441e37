"""oddone: an image classifier that knows when it is looking at something it has never seen.

Importing this package is cheap: each public name is imported when it is first used.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # what type checkers read; at run time `__getattr__` does it
    from oddone.api import fit as fit, train as train
    from oddone.data import load as load
    from oddone.density import (
        Gaussians as Gaussians,
        Moments as Moments,
    )
    from oddone.detector import (
        Calibration as Calibration,
        Detector as Detector,
        DetectorSettings as DetectorSettings,
    )
    from oddone.errors import (
        ArtifactError as ArtifactError,
        DataError as DataError,
        DataWarning as DataWarning,
        OddOneError as OddOneError,
        SettingsError as SettingsError,
        SettingsWarning as SettingsWarning,
    )
    from oddone.estimator import (
        OddOneClassifier as OddOneClassifier,
        OddOneOutlierDetector as OddOneOutlierDetector,
    )
    from oddone.evaluation import evaluate as evaluate
    from oddone.fusion import (
        average as average,
        decide as decide,
        harmonic as harmonic,
        nearest as nearest,
        view_weighted as view_weighted,
    )
    from oddone.losses import (
        MCLLoss as MCLLoss,
        MCLSettings as MCLSettings,
        MCLTerms as MCLTerms,
        SimCLRLoss as SimCLRLoss,
        SupConLoss as SupConLoss,
        mcl_loss as mcl_loss,
        simclr_loss as simclr_loss,
        supcon_loss as supcon_loss,
    )
    from oddone.metrics import (
        accuracy as accuracy,
        aupr_in as aupr_in,
        aupr_out as aupr_out,
        auroc as auroc,
        fpr_at_95_ind as fpr_at_95_ind,
        fpr_at_95_ood as fpr_at_95_ood,
    )
    from oddone.training import TrainSettings as TrainSettings
    from oddone.verdict import Verdict as Verdict
    from oddone.verdicts import Verdicts as Verdicts

__version__ = "0.1.0"

_PUBLIC = {
    "api": ("fit", "train"),
    "data": ("load",),
    "density": ("Gaussians", "Moments"),
    "detector": ("Calibration", "Detector", "DetectorSettings"),
    "errors": (
        "ArtifactError",
        "DataError",
        "DataWarning",
        "OddOneError",
        "SettingsError",
        "SettingsWarning",
    ),
    "estimator": ("OddOneClassifier", "OddOneOutlierDetector"),
    "evaluation": ("evaluate",),
    "fusion": ("average", "decide", "harmonic", "nearest", "view_weighted"),
    "losses": (
        "MCLSettings",
        "MCLLoss",
        "MCLTerms",
        "SimCLRLoss",
        "SupConLoss",
        "mcl_loss",
        "simclr_loss",
        "supcon_loss",
    ),
    "metrics": ("accuracy", "aupr_in", "aupr_out", "auroc", "fpr_at_95_ind", "fpr_at_95_ood"),
    "training": ("TrainSettings",),
    "verdict": ("Verdict",),
    "verdicts": ("Verdicts",),
}
_MODULE_OF = {name: module for module, names in _PUBLIC.items() for name in names}

__all__ = sorted(_MODULE_OF)  # noqa: PLE0605


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'oddone' has no attribute {name!r}")
    return getattr(importlib.import_module(f"oddone.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
