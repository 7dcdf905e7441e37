"""What another minute buys, and where one method passes another: read off a record of `scaling`.

Between the minutes that were measured, a curve is taken as straight over the logarithm of minutes.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise
from statistics import fmean, stdev
from typing import NamedTuple

from oddone.bench.record import Record
from oddone.bench.tables import ACCURACY, MEAN_AUROC, Column

MEASURES = {ACCURACY: "accuracy", MEAN_AUROC: "mean AUROC"}
"""What is drawn and told of; all other numbers are in the table."""


CLEARNESS = {True: "", False: " (not by more than seeds differ)", None: " (of one seed)"}
"""What is said of a crossing beside where it is."""


class CurvePoint(NamedTuple):
    """What a method reached in so many minutes, in percent."""

    minutes: float
    mean: float
    spread: float | None
    """The standard deviation over seeds, if there are several."""


class Curve(NamedTuple):
    """What a method reached, from the fewest minutes to the most."""

    name: str
    points: tuple[CurvePoint, ...]

    def at(self, minutes: float) -> CurvePoint | None:
        """Return the point of exactly so many minutes, if it was measured."""
        return next((point for point in self.points if point.minutes == minutes), None)


class Crossing(NamedTuple):
    """Where a method that was behind comes to be ahead."""

    ahead: str
    """Who is, from there on."""
    behind: str
    minutes: float
    clear: bool | None
    """Whether the two are further apart than their spread, before and after; None where one seed
    cannot tell."""


def curves(record: Record, column: Column) -> list[Curve]:
    """Return the curve of each method that has numbers in this column, in the record's order."""
    points: dict[str, list[CurvePoint]] = {}
    if column not in record.columns:
        return []
    for row in record.rows:
        numbers = row.numbers(column)
        if numbers and row.minutes is not None:
            spread = stdev(numbers) if len(numbers) > 1 else None
            points.setdefault(row.names[0], []).append(
                CurvePoint(row.minutes, fmean(numbers), spread)
            )
    return [Curve(name, tuple(sorted(each))) for name, each in points.items()]


def gain_per_doubling(before: CurvePoint, after: CurvePoint) -> float:
    """Return how many points each doubling of the minutes buys between two points."""
    return (after.mean - before.mean) / math.log2(after.minutes / before.minutes)


def crossings(one: Curve, other: Curve) -> Iterator[Crossing]:
    """Yield where the order of two curves changes, from the fewest minutes to the most.

    Curves that only touch have not crossed; those that are level for a while cross where that
    begins.
    """
    shared = [
        (point, match) for point in one.points if (match := other.at(point.minutes)) is not None
    ]
    apart = [pair for pair in shared if pair[0].mean != pair[1].mean]
    level = [point.minutes for point, match in shared if point.mean == match.mean]
    for before, after in pairwise(apart):
        gap, later_gap = (point.mean - match.mean for point, match in (before, after))
        if (gap > 0) == (later_gap > 0):
            continue
        start, end = before[0].minutes, after[0].minutes
        between = [minutes for minutes in level if start < minutes < end]
        where = between[0] if between else start * (end / start) ** (gap / (gap - later_gap))
        names = (one.name, other.name) if later_gap > 0 else (other.name, one.name)
        yield Crossing(*names, where, _are_clear(before, after))


def findings(record: Record) -> list[str]:
    """Return in sentences what another minute buys and where curves cross, of each measure."""
    sentences: list[str] = []
    for column, name in MEASURES.items():
        found = curves(record, column)
        gains = [_told_gains(curve) for curve in found if len(curve.points) > 1]
        if gains:
            told = "; ".join(gains)
            sentences.append(f"What a doubling of the minutes buys, points of {name}: {told}.")
            sentences.append(_told_crossings(name, found))
    return sentences


def _told_gains(curve: Curve) -> str:
    """Return what a doubling buys at first, and what at last, with what each minute then buys."""
    steps = list(pairwise(curve.points))
    told = [
        f"{gain_per_doubling(before, after):+.1f} from {before.minutes:g} to {after.minutes:g}"
        for before, after in dict.fromkeys((steps[0], steps[-1]))
    ]
    before, after = steps[-1]
    each = (after.mean - before.mean) / (after.minutes - before.minutes)
    return f"{curve.name} {' and '.join(told)} minutes ({each:+.2f} a minute)"


def _told_crossings(name: str, found: Sequence[Curve]) -> str:
    all_crossings = [each for pair in combinations(found, 2) for each in crossings(*pair)]
    if not all_crossings:
        return f"By {name}, no curves cross."
    told = [
        f"{each.ahead} passes {each.behind} at about {each.minutes:.2g} minutes"
        f"{CLEARNESS[each.clear]}"
        for each in sorted(all_crossings, key=lambda crossing: crossing.minutes)
    ]
    return f"By {name}, {'; '.join(told)}."


def _are_clear(*pairs: tuple[CurvePoint, CurvePoint]) -> bool | None:
    """Return whether all pairs are further apart than their spreads together; None if unknown."""
    clear = True
    for one, other in pairs:
        if one.spread is None or other.spread is None:
            return None
        clear &= abs(one.mean - other.mean) > math.hypot(one.spread, other.spread)
    return clear
