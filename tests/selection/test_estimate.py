import numpy as np
import pytest
import torch
from features import clusters
from torch import Tensor

import oracles
from oddone.detector.rules import StandardisedRule
from oddone.provenance import LIMIT_OF_ESTIMATE
from oddone.rng import stream
from oddone.selection import CANDIDATES, Candidate, Fold, folds_of_classes
from oddone.selection.candidates import FittedRules, RuleScores
from oddone.selection.estimate import (
    Estimate,
    FoldScores,
    choose_candidate,
    comparable,
    cross_validated_accuracy,
    held_out_scores,
    score_folds,
    standardise,
)

DISTANCE = Candidate("distance", ("distance",))
NEIGHBOURS = Candidate("neighbours", ("neighbours",))
BOTH = Candidate("distance + neighbours", ("distance", "neighbours"))
NAMES = tuple("abcdefgh")


def made_up(
    distances: tuple[list[float], list[float]],
    neighbours: tuple[list[float], list[float]] | None = None,
    *,
    label: int = 0,
) -> FoldScores:
    """Return a fold that leaves one class out: scores of held-out and of left-out images."""

    def scores(place: int) -> RuleScores:
        given = {"distance": torch.tensor(distances[place])}
        if neighbours is not None:
            given["neighbours"] = torch.tensor(neighbours[place])
        return RuleScores(given, torch.zeros(len(distances[place]), dtype=torch.long))

    held_out, left_out = (len(each) for each in distances)
    return FoldScores(
        scores(0), torch.ones(held_out).long(), scores(1), torch.full((left_out,), label)
    )


# Scoring folds


def folds(labels: Tensor) -> list[Fold]:
    return folds_of_classes(labels.numpy(), generator=stream(0, "folds"))


def test_a_fold_is_scored_by_what_is_fitted_on_the_rest_of_it() -> None:
    features, labels = clusters(classes=4)
    scored = score_folds(features, labels, folds(labels))
    assert len(scored) == 5
    for fold, scores in zip(folds(labels), scored, strict=True):
        rules = FittedRules.fit(features[:, fold.fitted], labels[fold.fitted])
        for part, indices, truth in (
            (scores.held_out, fold.held_out, scores.held_out_labels),
            (scores.left_out, fold.left_out, scores.left_out_labels),
        ):
            expected = rules(features[0, indices])
            assert torch.equal(truth, labels[indices])
            assert torch.equal(part.labels, expected.labels)
            assert sorted(part.scores) == ["distance", "energy", "neighbours"]
            for rule, values in part.scores.items():
                torch.testing.assert_close(values, expected.scores[rule])


def test_progress_counts_the_folds() -> None:
    features, labels = clusters(classes=4)
    seen: list[tuple[int, int, str]] = []
    score_folds(features, labels, folds(labels), lambda *report: seen.append(report))
    assert sorted(seen) == [(done, 5, "comparing") for done in range(1, 6)]


def test_a_held_out_image_whose_class_is_not_fitted_is_dropped() -> None:
    features, labels = clusters(classes=2, images=9)
    labels[-1] = 2
    everything = np.arange(8)
    fold = Fold(everything[2:], np.array([0, 1, 8]), np.empty(0, dtype=np.int64))
    (scores,) = score_folds(features, labels, [fold])
    assert scores.held_out_labels.tolist() == [0, 1]
    assert len(scores.held_out.labels) == 2


def test_folds_that_leave_nothing_to_fit_on_are_dropped() -> None:
    features, labels = clusters(classes=2, images=4)
    nothing, some = np.empty(0, dtype=np.int64), np.array([0, 1])
    rest = np.array([2, 3])
    unfit = [Fold(nothing, np.arange(4), nothing), Fold(some, rest, nothing)]
    assert score_folds(features, labels, unfit) == []
    features[0, 2] = features[0, 0]  # two of a class, but the same picture
    assert score_folds(features, labels, [Fold(np.array([0, 2]), some, nothing)]) == []


# The estimate


def test_the_auroc_of_a_class_is_that_of_its_images_against_the_held_out_of_its_fold() -> None:
    features, labels = clusters(classes=4, spread=1.5)
    scores = score_folds(features, labels, folds(labels))
    choice = choose_candidate(scores, NAMES, [BOTH])
    assert choice.candidate is BOTH
    rules = standardise(scores, BOTH)
    expected = {}
    for fold in scores:
        ind, ood = (
            [
                sum((float(part.scores[r][i]) - mean) / deviation for r, mean, deviation in rules)
                for i in range(len(part.labels))
            ]
            for part in (fold.held_out, fold.left_out)
        )
        for label in set(fold.left_out_labels.tolist()):
            own = [s for s, lab in zip(ood, fold.left_out_labels, strict=True) if lab == label]
            expected[NAMES[label]] = oracles.auroc(ind, own)
    assert list(choice.classes) == list("abcd")
    assert choice.classes == pytest.approx(expected)
    assert choice.auroc == pytest.approx(sum(expected.values()) / 4)
    assert choice.others == {}
    assert 0.3 < min(expected.values()) < max(expected.values()) < 1


def test_the_accuracy_is_the_share_of_held_out_images_with_their_label() -> None:
    features, labels = clusters(classes=4, spread=1.5)
    scores = score_folds(features, labels, folds(labels))
    right = sum(int((fold.held_out.labels == fold.held_out_labels).sum()) for fold in scores)
    assert cross_validated_accuracy(scores) == pytest.approx(right / 60)
    assert 0.3 < right / 60 < 1


def test_a_fold_without_held_out_images_has_no_auroc() -> None:
    whole = made_up(([0.0, 1.0], [2.0]))
    empty = made_up(([], [2.0]), label=1)
    assert choose_candidate([whole, empty], NAMES, [DISTANCE]).classes == {"a": 1.0}


def test_an_estimate_is_json_that_says_how_it_was_made() -> None:
    choice = choose_candidate([made_up(([0.0, 1.0], [2.0]))], NAMES, [DISTANCE])
    assert Estimate.of(
        choice, [made_up(([0.0, 1.0, 4.0], [])) for _ in range(2)]
    ).to_provenance() == {
        "rule": "distance",
        "auroc": 1.0,
        "classes": {"a": 1.0},
        "accuracy": 0.0,
        "images": 6,
        "others": {},
        "method": "classes left out in turn",
        "limit": LIMIT_OF_ESTIMATE,
    }


# The choice

GOOD, POOR = ([0.0, 1.0, 2.0], [3.0, 4.0]), ([0.0, 1.0, 5.0], [3.0, 4.0])


def test_the_better_rule_is_chosen_and_the_others_are_told() -> None:
    scores = [made_up(POOR, GOOD, label=label) for label in range(3)]
    choice = choose_candidate(scores, NAMES, [DISTANCE, NEIGHBOURS])
    assert choice.candidate is NEIGHBOURS
    assert choice.auroc == 1.0
    assert choice.others == pytest.approx({"distance": 2 / 3})


def test_an_earlier_rule_is_kept_unless_a_later_is_clearly_better() -> None:
    # The later is much better at one class, a little worse at another, and the same at the rest.
    scores = [made_up(GOOD, GOOD, label=label) for label in range(2)]
    scores.append(made_up(GOOD, ([0.0, 1.0, 3.5], [3.0, 4.0]), label=2))
    scores.append(made_up(POOR, GOOD, label=3))
    for candidates in ([DISTANCE, NEIGHBOURS], [NEIGHBOURS, DISTANCE]):
        assert choose_candidate(scores, NAMES, candidates).candidate is candidates[0]


def test_a_difference_that_is_the_same_everywhere_but_small_is_no_reason() -> None:
    normal = [float(score) for score in range(1000)]
    almost = (normal, [995.5])  # AUROC 0.996
    perfect = (normal, [2000.0])
    scores = [made_up(almost, perfect, label=label) for label in range(3)]
    assert choose_candidate(scores, NAMES, [DISTANCE, NEIGHBOURS]).candidate is DISTANCE


def test_the_energy_is_compared_only_if_every_fold_has_it() -> None:
    with_neighbours, without = made_up(GOOD, GOOD), made_up(GOOD, label=1)
    candidates = [DISTANCE, NEIGHBOURS, BOTH]
    assert comparable([with_neighbours, with_neighbours], candidates) == candidates
    assert comparable([with_neighbours, without], candidates) == [DISTANCE]
    features, labels = clusters(classes=2)
    usable = comparable(score_folds(features, labels, folds(labels)), CANDIDATES)
    assert [candidate.name for candidate in usable] == [
        "distance",
        "neighbours",
        "distance + neighbours",
    ]


def test_nothing_can_be_compared_without_images_of_both_kinds() -> None:
    assert comparable([], CANDIDATES) == []
    assert comparable([made_up(([], [1.0])), made_up(([1.0], []))], [DISTANCE]) == []


# Standardised rules


def test_rules_that_are_summed_get_the_mean_and_deviation_of_held_out_images() -> None:
    scores = [made_up(GOOD, POOR), made_up(POOR, GOOD)]
    pooled = {"distance": [0, 1, 2, 0, 1, 5], "neighbours": [0, 1, 5, 0, 1, 2]}
    for rule, mean, deviation in standardise(scores, BOTH):
        assert mean == pytest.approx(np.mean(pooled[rule]))
        assert deviation == pytest.approx(np.std(pooled[rule]))
    summed = held_out_scores(scores, standardise(scores, BOTH)).double()
    assert summed.mean() == pytest.approx(0, abs=1e-6)


def test_a_single_rule_keeps_its_own_scale() -> None:
    scores = [made_up(GOOD, POOR), made_up(POOR, GOOD)]
    rules = standardise(scores, DISTANCE)
    assert rules == (StandardisedRule("distance", 0.0, 1.0),)
    assert held_out_scores(scores, rules).tolist() == [0, 1, 2, 0, 1, 5]


def test_scores_that_are_all_alike_are_not_divided_by_zero() -> None:
    scores = [made_up(([3.0, 3.0], [4.0]), GOOD[:1] * 2)]
    alike = standardise(scores, BOTH)[0]
    assert alike == StandardisedRule("distance", 3.0, 1.0)
