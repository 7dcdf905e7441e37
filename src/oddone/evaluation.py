"""How good a detector is: its accuracy, its false alarms, and how well it tells OOD images.

`evaluate` shows images to a detector. `evaluate_scores` knows scores only, so it serves any other
method too.
"""

import csv
import io
import warnings
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Int64
from torch import Tensor

from oddone import metrics
from oddone.data import ImageSet, load
from oddone.detector import Detector
from oddone.errors import DataError, DataWarning, SettingsError, did_you_mean
from oddone.progress import Progress
from oddone.scoring import score_images

Averages = Mapping[str, Sequence[str]]
"""OOD sets to average over, by the name of the average, such as near and far."""

OPENOOD_NAMES = {"tiny_imagenet": "tin", "textures": "texture"}
"""What OpenOOD calls OOD sets that have another name here."""

NO_AVERAGES: Averages = MappingProxyType({})


class OODMetrics(NamedTuple):
    """How well scores tell OOD from IND images, as shares from 0 to 1."""

    auroc: float
    fpr_at_95_ind: float
    """The share of OOD images accepted when 95 % of IND images are (the paper)."""
    fpr_at_95_ood: float
    """The share of IND images called anomalous when 95 % of OOD images are (OpenOOD)."""
    aupr_in: float
    aupr_out: float


class OpenOODAupr(NamedTuple):
    """AUPR as OpenOOD measures it: the points of the curve joined by straight lines."""

    aupr_in: float
    aupr_out: float


class OODResult(NamedTuple):
    """What became of one OOD set."""

    images: int
    detected: float | None
    """The share that is called anomalous; None without a threshold."""
    metrics: OODMetrics
    openood: OpenOODAupr


class AverageResult(NamedTuple):
    """The means over some OOD sets, each of which counts the same."""

    members: tuple[str, ...]
    detected: float | None
    metrics: OODMetrics
    openood: OpenOODAupr


class Evaluation(NamedTuple):
    """All that was measured."""

    images: int
    accuracy: float | None
    """The share of labelled test images that get their label; None where there are none."""
    false_alarms: float | None
    """The share of test images that are called anomalous; None without a threshold."""
    oods: dict[str, OODResult]
    averages: dict[str, AverageResult]


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
    labels = labels_by_name(ind, detector.classes)
    if ind.fingerprint == detector.embedder.trained.data_fingerprint:
        warnings.warn(
            f"the {len(ind):,} test images are those that the detector was trained on, so it "
            f"will look better than it is; evaluate it on new images",
            DataWarning,
            stacklevel=2,
        )
    ind_verdicts = score_images(detector, ind, progress=progress, description="test images")
    return evaluate_scores(
        ind_verdicts.scores,
        {
            name: score_images(detector, ood, progress=progress, description=name).scores
            for name, ood in ood_sets.items()
        },
        accuracy=accuracy_where_labelled(ind_verdicts.labels, labels),
        threshold=detector.threshold,
        averages=averages,
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
    check_averages(averages, ood_scores)
    for name, scores in {"test images": ind_scores, **ood_scores}.items():
        if len(scores) == 0:
            raise DataError(f"{name}: there are 0 images to score; add some or leave the set out")
    oods = {
        name: OODResult(
            len(scores),
            _share_above(threshold, scores),
            ood_metrics(ind_scores, scores),
            OpenOODAupr(
                metrics.aupr_in_trapezoid(ind_scores, scores),
                metrics.aupr_out_trapezoid(ind_scores, scores),
            ),
        )
        for name, scores in ood_scores.items()
    }
    return Evaluation(
        len(ind_scores),
        accuracy,
        _share_above(threshold, ind_scores),
        oods,
        {name: _mean(members, oods) for name, members in averages.items()},
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


def as_json(evaluation: Evaluation) -> dict[str, Any]:
    """Return the evaluation as what JSON knows."""
    return {
        "images": evaluation.images,
        "accuracy": evaluation.accuracy,
        "false_alarms": evaluation.false_alarms,
        "oods": {
            name: {"images": ood.images, "detected": ood.detected, **ood.metrics._asdict()}
            for name, ood in evaluation.oods.items()
        },
        "averages": {
            name: {
                "members": list(average.members),
                "detected": average.detected,
                **average.metrics._asdict(),
            }
            for name, average in evaluation.averages.items()
        },
    }


def as_openood_csv(evaluation: Evaluation) -> str:
    """Return the evaluation as OpenOOD writes its ood.csv, in percent.

    An average follows its members as a row: near as `nearood`, far as `farood`. FPR@95 and AUPR
    are OpenOOD's, and so are the names of the sets.
    """
    rest: dict[str, OODResult | AverageResult] = dict(evaluation.oods)
    rows: list[tuple[str, OODResult | AverageResult]] = []
    for name, average in evaluation.averages.items():
        rows.extend((member, rest.pop(member)) for member in average.members if member in rest)
        rows.append((f"{name}ood", average))
    rows.extend(rest.items())
    file = io.StringIO()
    table = csv.writer(file)
    table.writerow(("dataset", "FPR@95", "AUROC", "AUPR_IN", "AUPR_OUT", "ACC"))
    for name, result in rows:
        measured, theirs = result.metrics, result.openood
        shares = (measured.fpr_at_95_ood, measured.auroc, *theirs, evaluation.accuracy)
        percents = ("" if share is None else f"{100 * share:.2f}" for share in shares)
        table.writerow((OPENOOD_NAMES.get(name, name), *percents))
    return file.getvalue()


def _loaded(source: ImageSet | str, detector: Detector, progress: Progress | None) -> ImageSet:
    if isinstance(source, str):
        return load(source, size=detector.image_size, progress=progress)
    return source


def _share_above(threshold: float | None, scores: Float[Tensor, " _"]) -> float | None:
    return None if threshold is None else (scores > threshold).double().mean().item()


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
