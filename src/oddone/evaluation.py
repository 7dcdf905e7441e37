"""How good a detector is: its accuracy, its false alarms, and how well it tells OOD images.

`evaluate` shows images to a detector. `judge` knows scores only, so it serves any other method too.
"""

import csv
import difflib
import io
import warnings
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int, Int64
from torch import Tensor

from oddone import metrics
from oddone.data import ImageSet, load
from oddone.detector import Detector
from oddone.detector.view_embedder import batches_of
from oddone.errors import DataError, DataWarning, SettingsError
from oddone.progress import Progress

Groups = Mapping[str, Sequence[str]]
"""OOD sets to average over, by the name of the group, such as near and far."""

NO_GROUPS: Groups = MappingProxyType({})


class OODMetrics(NamedTuple):
    """How well scores tell OOD from IND images, as shares from 0 to 1."""

    auroc: float
    fpr_at_95_ind: float
    """The share of OOD images accepted when 95 % of IND images are (the paper)."""
    fpr_at_95_ood: float
    """The share of IND images flagged when 95 % of OOD images are (OpenOOD)."""
    aupr_in: float
    aupr_out: float


class OODResult(NamedTuple):
    """What became of one OOD set."""

    images: int
    detected: float | None
    """The share that is flagged; None without a threshold."""
    metrics: OODMetrics


class GroupResult(NamedTuple):
    """The means over some OOD sets, each of which counts the same."""

    members: tuple[str, ...]
    detected: float | None
    metrics: OODMetrics


class Evaluation(NamedTuple):
    """All that was measured."""

    images: int
    accuracy: float | None
    """The share of labelled test images that get their label; None where there are none."""
    false_alarms: float | None
    """The share of test images that are flagged; None without a threshold."""
    oods: dict[str, OODResult]
    groups: dict[str, GroupResult]


def evaluate(
    detector: Detector,
    source: ImageSet | str,
    oods: Mapping[str, ImageSet | str],
    *,
    groups: Groups = NO_GROUPS,
    progress: Progress | None = None,
) -> Evaluation:
    """Return how a detector does on test images of its classes and on sets of OOD images.

    The classes of the test images are matched by name: some may be missing, none may be new.
    """
    check_groups(groups, oods)  # what is wrong is said before the long work
    known = _loaded(source, detector, progress)
    odd = {name: _loaded(ood, detector, progress) for name, ood in oods.items()}
    labels = labels_by_name(known, detector.classes)
    if known.fingerprint == detector.encoder.trained.data_fingerprint:
        warnings.warn(
            f"the {len(known):,} test images are those that the detector was trained on, so it "
            f"will look better than it is; evaluate it on new images",
            DataWarning,
            stacklevel=2,
        )
    ind_scores, predicted = _judged(detector, known, "test images", progress)
    return evaluate_scores(
        ind_scores,
        {name: _judged(detector, ood, name, progress)[0] for name, ood in odd.items()},
        accuracy=accuracy_where_labelled(predicted, labels),
        threshold=None if detector.calibration is None else detector.threshold,
        groups=groups,
    )


def evaluate_scores(
    ind_scores: Float[Tensor, " images"],
    ood_scores: Mapping[str, Float[Tensor, " _"]],
    *,
    accuracy: float | None = None,
    threshold: float | None = None,
    groups: Groups = NO_GROUPS,
) -> Evaluation:
    """Return how well scores tell each set of OOD images from the IND images.

    Images with a score above the threshold are flagged.
    """
    check_groups(groups, ood_scores)
    for name, scores in {"test images": ind_scores, **ood_scores}.items():
        if len(scores) == 0:
            raise DataError(f"{name}: there are 0 images to judge; add some or leave the set out")
    oods = {
        name: OODResult(
            len(scores), _share_above(threshold, scores), ood_metrics(ind_scores, scores)
        )
        for name, scores in ood_scores.items()
    }
    return Evaluation(
        len(ind_scores),
        accuracy,
        _share_above(threshold, ind_scores),
        oods,
        {name: _mean(members, oods) for name, members in groups.items()},
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
        nearest = difflib.get_close_matches(unknown[0], classes, n=1, cutoff=0.0)[0]
        raise DataError(
            f"{len(unknown)} of {len(shown)} classes of the test images are none that the detector "
            f"knows, such as {unknown[0]!r} (the nearest it knows is {nearest!r}); rename them, or "
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


def check_groups(groups: Groups, oods: Mapping[str, object]) -> None:
    """Raise SettingsError where a group is empty or names a set that is not there."""
    for group, members in groups.items():
        if not members:
            raise SettingsError(f"the group {group!r} has 0 OOD sets; name one, or drop the group")
        for name in members:
            if name not in oods:
                near = difflib.get_close_matches(name, oods, n=1)
                sets = ", ".join(oods) or "none"
                hint = f"did you mean {near[0]!r}?" if near else f"the OOD sets are: {sets}"
                raise SettingsError(f"{group}: there is no OOD set {name!r}; {hint}")


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
                "members": list(group.members),
                "detected": group.detected,
                **group.metrics._asdict(),
            }
            for name, group in evaluation.groups.items()
        },
    }


def as_openood_csv(evaluation: Evaluation) -> str:
    """Return the evaluation as OpenOOD writes its ood.csv, in percent.

    A group follows its members as a row of means: near as `nearood`, far as `farood`. FPR@95 is
    that of OpenOOD. AUPR is the average precision, where OpenOOD joins the points of the curve by
    straight lines; for more than a few images that is nearly the same.
    """
    rest = {name: ood.metrics for name, ood in evaluation.oods.items()}
    rows: list[tuple[str, OODMetrics]] = []
    for name, group in evaluation.groups.items():
        rows.extend((member, rest.pop(member)) for member in group.members if member in rest)
        rows.append((f"{name}ood", group.metrics))
    rows.extend(rest.items())
    file = io.StringIO()
    table = csv.writer(file)
    table.writerow(("dataset", "FPR@95", "AUROC", "AUPR_IN", "AUPR_OUT", "ACC"))
    for name, m in rows:
        shares = (m.fpr_at_95_ood, m.auroc, m.aupr_in, m.aupr_out, evaluation.accuracy)
        table.writerow((name, *("" if s is None else f"{100 * s:.2f}" for s in shares)))
    return file.getvalue()


def _loaded(source: ImageSet | str, detector: Detector, progress: Progress | None) -> ImageSet:
    if isinstance(source, str):
        return load(source, size=detector.image_size, progress=progress)
    return source


def _judged(
    detector: Detector, source: ImageSet, name: str, progress: Progress | None
) -> tuple[Float[Tensor, " images"], Int[Tensor, " images"]]:
    """Return the scores and labels that the detector gives, a batch of images in memory."""
    scores, labels = [torch.empty(0)], [torch.empty(0, dtype=torch.int64)]
    everything = np.arange(len(source))
    for numbers, images in batches_of(source.images, everything, detector.encoder.images_at_once):
        verdicts = detector(images)
        scores.append(verdicts.scores)
        labels.append(verdicts.labels)
        if progress is not None:
            progress(int(numbers[-1]) + 1, len(source), name)
    return torch.cat(scores), torch.cat(labels)


def _share_above(threshold: float | None, scores: Float[Tensor, " _"]) -> float | None:
    return None if threshold is None else (scores > threshold).double().mean().item()


def _mean(members: Sequence[str], oods: Mapping[str, OODResult]) -> GroupResult:
    distinct = tuple(dict.fromkeys(members))
    results = [oods[name] for name in distinct]
    shares = [result.detected for result in results if result.detected is not None]
    means = np.mean([result.metrics for result in results], axis=0).tolist()
    return GroupResult(distinct, float(np.mean(shares)) if shares else None, OODMetrics(*means))
