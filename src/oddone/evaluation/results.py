"""What an evaluation says: of all images, of each OOD set, and of each class."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


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


class OODClassResult(NamedTuple):
    """What became of one class of an OOD set."""

    images: int
    detected: float | None
    """The share that is called anomalous; None without a threshold."""
    auroc: float
    """Of this class alone against all test images."""
    taken_for: Mapping[str, float]
    """Which known classes its images look like, as shares of them, the largest first. An image
    looks like one of them whether or not it is called anomalous."""

    @property
    def most_like(self) -> tuple[str, float] | None:
        """The known class that most of its images look like, and their share, if that is known."""
        return next(iter(self.taken_for.items()), None)


class OODResult(NamedTuple):
    """What became of one OOD set."""

    images: int
    detected: float | None
    """The share that is called anomalous; None without a threshold."""
    metrics: OODMetrics
    openood: OpenOODAupr
    taken_for: Mapping[str, float] = MappingProxyType({})
    """Which known classes its images look like; empty where only scores are known."""
    classes: Mapping[str, OODClassResult] = MappingProxyType({})
    """By the name of the class; empty where its images have no labels."""

    @property
    def whole(self) -> OODClassResult:
        """What is said of a class, of all images of the set."""
        return OODClassResult(self.images, self.detected, self.metrics.auroc, self.taken_for)


class AverageResult(NamedTuple):
    """The means over some OOD sets, each of which counts the same."""

    members: tuple[str, ...]
    detected: float | None
    metrics: OODMetrics
    openood: OpenOODAupr


class ClassResult(NamedTuple):
    """What became of the test images of one class."""

    images: int
    recall: float
    """The share of its images that get its label: the accuracy on this class."""
    precision: float | None
    """The share of this class among labelled images that get its label; None if none gets it."""
    false_alarms: float | None
    """The share of its images that are called anomalous; None without a threshold."""


class Evaluation(NamedTuple):
    """All that was measured."""

    images: int
    accuracy: float | None
    """The share of labelled test images that get their label; None where there are none, or where
    the detector knows a single class."""
    false_alarms: float | None
    """The share of test images that are called anomalous; None without a threshold."""
    oods: dict[str, OODResult]
    averages: dict[str, AverageResult]
    classes: Mapping[str, ClassResult] = MappingProxyType({})
    """The classes that have test images, in the order of the detector."""


def worst_classes(evaluation: Evaluation) -> list[tuple[str, ClassResult]]:
    """Return the classes of the test images by name, the one with most mistakes first.

    A wrong label and a false alarm are a mistake each.
    """
    return sorted(
        evaluation.classes.items(),
        key=lambda named: named[1].recall - (named[1].false_alarms or 0),
    )


def worst_ood_classes(evaluation: Evaluation) -> list[tuple[str, OODClassResult]]:
    """Return the classes of all OOD sets by name, the lowest AUROC first.

    Their names are such as "svhn: 3". A set without classes is one of them as a whole.
    """
    parts: list[tuple[str, OODClassResult]] = []
    for name, ood in evaluation.oods.items():
        parts += [(f"{name}: {each}", result) for each, result in ood.classes.items()]
        if not ood.classes:
            parts.append((name, ood.whole))
    return sorted(parts, key=lambda part: part[1].auroc)
