"""What to expect of images of classes that were never shown, and which rule is best at that."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import count, starmap
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from oddone.detector.probe import quiet_regressions
from oddone.detector.rules import Rule, StandardisedRule, standardised, sum_of_rules
from oddone.device import map_in_threads
from oddone.errors import DataError
from oddone.metrics import accuracy, auroc
from oddone.progress import Progress
from oddone.provenance import LIMIT_OF_ESTIMATE
from oddone.selection.candidates import Candidate, FittedRules, RuleScores
from oddone.selection.folds import Fold

SMALLEST_DIFFERENCE = 0.005
"""Half a point of AUROC; a smaller one is no reason to choose another rule."""


class FoldScores(NamedTuple):
    """What is thought of the images of a fold that nothing was fitted on."""

    held_out: RuleScores
    held_out_labels: Int[Tensor, " held_out"]
    left_out: RuleScores
    left_out_labels: Int[Tensor, " left_out"]


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """How well classes are told apart from others that were not shown, measured by leaving out."""

    rule: str
    auroc: float
    """The mean over the classes, each left out with those of its fold."""
    classes: dict[str, float]
    """The AUROC of each class."""
    accuracy: float
    """The share of held-out images that get their label, with all classes to choose from."""
    images: int
    """How many were held out."""
    others: dict[str, float]
    """The AUROC of the rules that were not chosen."""

    @staticmethod
    def of(choice: "Choice", scores: Sequence[FoldScores]) -> "Estimate":
        """Return what to expect of a chosen rule, and of labels by folds that leave no class out.

        Where classes are left out, there are fewer to choose from, and guessing is easier.
        """
        return Estimate(
            rule=choice.candidate.name,
            auroc=choice.auroc,
            classes=choice.classes,
            accuracy=cross_validated_accuracy(scores),
            images=sum(len(fold.held_out_labels) for fold in scores),
            others=choice.others,
        )

    def to_provenance(self) -> dict[str, Any]:
        """Return the estimate as JSON."""
        how = {"method": "classes left out in turn", "limit": LIMIT_OF_ESTIMATE}
        return {**asdict(self), **how}


class Choice(NamedTuple):
    """The rule that was chosen by leaving classes out, and the AUROC there."""

    candidate: Candidate
    auroc: float
    classes: dict[str, float]
    others: dict[str, float]


def score_folds(
    features: Float[Tensor, "views images dim"],
    labels: Int[Tensor, " images"],
    folds: Sequence[Fold],
    progress: Progress | None = None,
    what: str = "comparing",
    *,
    shrinkage: float | None = None,
) -> list[FoldScores]:
    """Return what is thought of the images of each fold when fitted on the rest of it.

    `shrinkage` is that of all images, where scores are to be those of a detector fitted on all.
    Held-out images of which no other of the class was fitted are dropped: their class is unseen.
    So are folds of which too little is left to fit on, as where there are two images a class.
    """
    done = count(1)

    def score(fold: Fold) -> FoldScores | None:
        fitted, held_out, left_out = (torch.from_numpy(part) for part in fold)
        rules = _fitted_or_none(features[:, fitted], labels[fitted], shrinkage)
        if progress is not None:
            progress(next(done), len(folds), what)
        if rules is None:
            return None
        held_out = held_out[torch.isin(labels[held_out], rules.classes)]
        return FoldScores(
            rules(features[0, held_out]),
            labels[held_out],
            rules(features[0, left_out]),
            labels[left_out],
        )

    with quiet_regressions():
        scores = map_in_threads(score, folds, torch.device("cpu"))
    return [fold for fold in scores if fold is not None]


def _fitted_or_none(
    features: Float[Tensor, "views fitted dim"],
    labels: Int[Tensor, " fitted"],
    shrinkage: float | None,
) -> FittedRules | None:
    """Return the rules; None where no class has two different images, and so no spread."""
    if len(labels) == 0:
        return None
    try:
        return FittedRules.fit(features, labels, shrinkage)
    except DataError:
        return None


def standardise(scores: Sequence[FoldScores], candidate: Candidate) -> tuple[StandardisedRule, ...]:
    """Return the rules with the mean and deviation of their scores of held-out images.

    A single rule is not summed with anything, and so keeps its own scale.
    """
    if len(candidate.rules) == 1:
        return (StandardisedRule(candidate.rules[0]),)
    return tuple(starmap(standardised, _scores_by_rule(scores, candidate.rules).items()))


def _scores_by_rule(
    scores: Sequence[FoldScores], rules: Sequence[Rule]
) -> dict[Rule, Float[Tensor, " images"]]:
    return {rule: torch.cat([fold.held_out.scores[rule] for fold in scores]) for rule in rules}


def held_out_scores(
    scores: Sequence[FoldScores], rules: tuple[StandardisedRule, ...]
) -> Float[Tensor, " images"]:
    """Return the scores of all held-out images."""
    return torch.cat([sum_of_rules(fold.held_out.scores, rules) for fold in scores])


def choose_candidate(
    scores: Sequence[FoldScores], classes: Sequence[str], candidates: Sequence[Candidate]
) -> Choice:
    """Return the candidate that tells left-out classes apart best, and how well.

    An earlier one is preferred unless the difference matters and exceeds its own standard error:
    with few classes the best of several would often be best by luck.
    """
    aurocs = {
        candidate: _aurocs_by_class(scores, standardise(scores, candidate))
        for candidate in candidates
    }
    best = max(candidates, key=lambda candidate: float(np.mean(list(aurocs[candidate].values()))))
    chosen = next(
        candidate
        for candidate in candidates
        if candidate is best
        or not _is_clearly_better(aurocs[best].values(), aurocs[candidate].values())
    )
    means = {
        candidate.name: float(np.mean(list(each.values()))) for candidate, each in aurocs.items()
    }
    by_class = {classes[label]: value for label, value in sorted(aurocs[chosen].items())}
    return Choice(chosen, means.pop(chosen.name), by_class, means)


def comparable(scores: Sequence[FoldScores], candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates that left-out classes can be told apart by, in every fold.

    There are none where no fold has images of both kinds. The energy needs two classes beside the
    one that is left out.
    """
    if not any(len(fold.held_out_labels) * len(fold.left_out_labels) for fold in scores):
        return []
    return [
        candidate
        for candidate in candidates
        if all(rule in fold.held_out.scores for rule in candidate.rules for fold in scores)
    ]


def cross_validated_accuracy(scores: Sequence[FoldScores]) -> float:
    """Return the share of held-out images that get their own label."""
    return accuracy(
        torch.cat([fold.held_out.labels for fold in scores]),
        torch.cat([fold.held_out_labels for fold in scores]),
    )


def _aurocs_by_class(
    scores: Sequence[FoldScores], rules: tuple[StandardisedRule, ...]
) -> dict[int, float]:
    aurocs: dict[int, float] = {}
    for fold in scores:
        normal = sum_of_rules(fold.held_out.scores, rules)
        unseen = sum_of_rules(fold.left_out.scores, rules)
        if len(normal) == 0:
            continue
        for label in fold.left_out_labels.unique().tolist():
            aurocs[label] = auroc(normal, unseen[fold.left_out_labels == label])
    return aurocs


def _is_clearly_better(best: Iterable[float], other: Iterable[float]) -> bool:
    """Return whether the mean difference of the AUROC over the classes is no matter of luck."""
    differences = np.subtract(list(best), list(other))
    standard_error = differences.std() / np.sqrt(len(differences))
    return bool(differences.mean() > max(standard_error, SMALLEST_DIFFERENCE))
