"""How good a detector is: its accuracy, its false alarms, and how well it tells OOD images.

`evaluate` shows images to a detector. `evaluate_verdicts` takes the verdicts of any method, and
`evaluate_scores` its scores alone.
"""

import warnings
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Int64
from torch import Tensor

from oddone import metrics
from oddone.data import ImageSet, load
from oddone.detector import Detector
from oddone.detector.detector import MOST_LEARNED
from oddone.errors import DataError, DataWarning, SettingsError, did_you_mean
from oddone.evaluation.results import (
    AverageResult,
    ClassResult,
    Evaluation,
    OODClassResult,
    OODMetrics,
    OODResult,
    OpenOODAupr,
)
from oddone.fusion import decide
from oddone.progress import Progress
from oddone.scoring import score_images
from oddone.verdicts import Verdicts

Averages = Mapping[str, Sequence[str]]
"""OOD sets to average over, by the name of the average, such as near and far."""

NO_AVERAGES: Averages = MappingProxyType({})


class ScoredSet(NamedTuple):
    """Images, and what is thought of each."""

    images: ImageSet
    verdicts: Verdicts


def evaluate(
    detector: Detector,
    source: ImageSet | str,
    oods: Mapping[str, ImageSet | str],
    *,
    averages: Averages = NO_AVERAGES,
    progress: Progress | None = None,
) -> Evaluation:
    """Return how a detector does on test images of its classes and on sets of OOD images.

    Parameters
    ----------
    detector
        A fitted detector; with a calibration, the shares called anomalous are measured too.
    source
        Test images. Their classes are matched by name: some may be missing, none may be new.
    oods
        Sets of images of no known class, by name.
    averages
        OOD sets to average over, such as `{"near": ["cifar100"], "far": ["svhn", "textures"]}`.
    progress
        Called with how many images are done.

    Examples
    --------
    >>> import oddone
    >>> from oddone.presets import smoke
    >>> detector = oddone.train("fashion:known", smoke())
    >>> result = oddone.evaluate(detector, "fashion:known#test", {"digits": "digits"})
    >>> 0 <= result.oods["digits"].metrics.auroc <= 1
    True

    """
    check_averages(averages, oods)  # what is wrong is said before the long work
    ind = _loaded(source, detector, progress)
    ood_sets = {name: _loaded(ood, detector, progress) for name, ood in oods.items()}
    labels_by_name(ind, detector.classes)  # raises where there is a class it does not know
    learned = detector.share_learned(ind)
    if learned > MOST_LEARNED:
        warnings.warn(
            f"{learned:.0%} of the {len(ind):,} test images are some that the detector was trained "
            f"on, so it will look better than it is; evaluate it on new images",
            DataWarning,
            stacklevel=2,
        )
    ind_verdicts = score_images(detector, ind, progress=progress, description="test images")
    return evaluate_verdicts(
        ScoredSet(ind, ind_verdicts),
        {
            name: ScoredSet(ood, score_images(detector, ood, progress=progress, description=name))
            for name, ood in ood_sets.items()
        },
        classes=detector.classes,
        averages=averages,
    )


def evaluate_verdicts(
    ind: ScoredSet,
    oods: Mapping[str, ScoredSet],
    *,
    classes: Sequence[str],
    averages: Averages = NO_AVERAGES,
) -> Evaluation:
    """Return what verdicts are worth, of all images and class by class.

    The verdicts' labels are numbers of the given classes, which are the known ones.
    """
    labels = labels_to_predict(ind.images, classes)
    whole = _evaluate_whole_sets(
        ind.verdicts,
        {name: ood.verdicts for name, ood in oods.items()},
        accuracy_where_labelled(ind.verdicts.labels, labels),
        averages,
    )
    return whole._replace(
        classes=_class_results(ind.verdicts, labels, classes),
        oods={
            name: result._replace(
                taken_for=_taken_for(oods[name].verdicts.labels, classes),
                classes=_ood_class_results(oods[name], ind.verdicts.scores, classes),
            )
            for name, result in whole.oods.items()
        },
    )


def evaluate_scores(
    ind_scores: Float[Tensor, " images"],
    ood_scores: Mapping[str, Float[Tensor, " _"]],
    *,
    accuracy: float | None = None,
    threshold: float | None = None,
    averages: Averages = NO_AVERAGES,
) -> Evaluation:
    """Return how well scores tell each set of OOD images from the IND images.

    Images with a score above the threshold are anomalous.
    """
    return _evaluate_whole_sets(
        decide(ind_scores[:, None], threshold),  # as distances to one class
        {name: decide(scores[:, None], threshold) for name, scores in ood_scores.items()},
        accuracy,
        averages,
    )


def _evaluate_whole_sets(
    ind: Verdicts, oods: Mapping[str, Verdicts], accuracy: float | None, averages: Averages
) -> Evaluation:
    """Return what can be said of sets of images without knowing their classes."""
    check_averages(averages, oods)
    for name, verdicts in {"test images": ind, **oods}.items():
        if len(verdicts) == 0:
            raise DataError(f"{name}: there are 0 images to score; add some or leave the set out")
    results = {
        name: OODResult(
            len(ood),
            _share(ood.anomalous),
            ood_metrics(ind.scores, ood.scores),
            OpenOODAupr(
                metrics.aupr_in_trapezoid(ind.scores, ood.scores),
                metrics.aupr_out_trapezoid(ind.scores, ood.scores),
            ),
            taken_for={},  # the defaults cannot be pickled
            classes={},
        )
        for name, ood in oods.items()
    }
    return Evaluation(
        len(ind),
        accuracy,
        _share(ind.anomalous),
        results,
        {name: _mean(members, results) for name, members in averages.items()},
        classes={},
    )


def ood_metrics(ind_scores: metrics.Numbers, ood_scores: metrics.Numbers) -> OODMetrics:
    """Return how well the scores tell OOD from IND images, by every metric."""
    return OODMetrics(
        auroc=metrics.auroc(ind_scores, ood_scores),
        fpr_at_95_ind=metrics.fpr_at_95_ind(ind_scores, ood_scores),
        fpr_at_95_ood=metrics.fpr_at_95_ood(ind_scores, ood_scores),
        aupr_in=metrics.aupr_in(ind_scores, ood_scores),
        aupr_out=metrics.aupr_out(ind_scores, ood_scores),
    )


def labels_by_name(source: ImageSet, classes: Sequence[str]) -> Int64[np.ndarray, " images"]:
    """Return the labels of the images as numbers of these classes; -1 stays -1."""
    shown = [source.classes[label] for label in np.unique(source.labels) if label >= 0]
    unknown = [name for name in shown if name not in classes]
    if unknown:
        some = f"some that it knows are {', '.join(classes[:5])}"
        hint = did_you_mean(unknown[0], classes, otherwise=some)
        raise DataError(
            f"{len(unknown)} of {len(shown)} classes of the test images are none that the detector "
            f"knows, such as {unknown[0]!r} ({hint}); rename them, or "
            f"take their images for OOD"
        )
    numbers = [classes.index(name) if name in shown else -1 for name in source.classes]
    labels: np.ndarray = np.array([*numbers, -1])[source.labels]  # no label, -1, picks the last
    return labels


def labels_to_predict(source: ImageSet, classes: Sequence[str]) -> Int64[np.ndarray, " images"]:
    """Return the labels as `labels_by_name` does; with a single class, which all get, only -1."""
    labels = labels_by_name(source, classes)
    return labels if len(classes) > 1 else np.full_like(labels, -1)


def accuracy_where_labelled(
    predicted: Int[Tensor, " images"], labels: Int64[np.ndarray, " images"]
) -> float | None:
    """Return the accuracy on the images that have a label, None if none has."""
    labelled = labels >= 0
    if not labelled.any():
        return None
    return metrics.accuracy(predicted.cpu().numpy()[labelled], labels[labelled])


def check_averages(averages: Averages, oods: Mapping[str, object]) -> None:
    """Raise SettingsError where an average has no sets, or names one that is not there."""
    for average, members in averages.items():
        if not members:
            raise SettingsError(
                f"the average {average!r} has 0 OOD sets; name one, or drop the average"
            )
        for name in members:
            if name not in oods:
                sets = ", ".join(oods) or "none"
                hint = did_you_mean(name, oods, otherwise=f"the OOD sets are: {sets}")
                raise SettingsError(f"{average}: there is no OOD set {name!r}; {hint}")


def _loaded(source: ImageSet | str, detector: Detector, progress: Progress | None) -> ImageSet:
    if isinstance(source, str):
        return load(source, size=detector.image_size, progress=progress)
    return source


def _share(
    anomalous: Bool[Tensor, " images"] | None, own: Bool[np.ndarray, " images"] | None = None
) -> float | None:
    """Return the share of anomalous images, of all or of some; None without verdicts."""
    if anomalous is None:
        return None
    return (anomalous if own is None else anomalous[own]).double().mean().item()


def _mean(members: Sequence[str], oods: Mapping[str, OODResult]) -> AverageResult:
    distinct = tuple(dict.fromkeys(members))
    results = [oods[name] for name in distinct]
    shares = [result.detected for result in results if result.detected is not None]
    return AverageResult(
        distinct,
        float(np.mean(shares)) if shares else None,
        OODMetrics(*np.mean([result.metrics for result in results], axis=0).tolist()),
        OpenOODAupr(*np.mean([result.openood for result in results], axis=0).tolist()),
    )


def _class_results(
    verdicts: Verdicts,
    labels: Int64[np.ndarray, " images"],
    classes: Sequence[str],
) -> dict[str, ClassResult]:
    predicted = verdicts.labels.cpu().numpy()
    labelled = labels >= 0
    results = {}
    for label in np.unique(labels[labelled]).tolist():
        own, named = labels == label, labelled & (predicted == label)
        hits = int((own & named).sum())
        results[classes[label]] = ClassResult(
            int(own.sum()),
            hits / int(own.sum()),
            hits / int(named.sum()) if named.any() else None,
            _share(verdicts.anomalous, own),
        )
    return results


def _ood_class_results(
    ood: ScoredSet,
    ind_scores: Float[Tensor, " images"],
    classes: Sequence[str],
) -> dict[str, OODClassResult]:
    labels = ood.images.labels
    results = {}
    for label in np.unique(labels[labels >= 0]).tolist():
        own = labels == label
        scores = ood.verdicts.scores[own]
        results[ood.images.classes[label]] = OODClassResult(
            len(scores),
            _share(ood.verdicts.anomalous, own),
            metrics.auroc(ind_scores, scores),
            _taken_for(ood.verdicts.labels[own], classes),
        )
    return results


def _taken_for(predicted: Int[Tensor, " images"], classes: Sequence[str]) -> dict[str, float]:
    """Return which share of the images got which label, the largest first and none that is 0."""
    counts = predicted.bincount(minlength=len(classes)).tolist()
    by_share = sorted(range(len(classes)), key=lambda label: -counts[label])
    return {classes[label]: counts[label] / len(predicted) for label in by_share if counts[label]}
