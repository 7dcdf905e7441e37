"""What becomes the anomaly score, against loops, and in a detector's file."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from safetensors import safe_open
from safetensors.torch import load, save
from torch import Tensor
from torch.nn.functional import normalize

from oddone.data import ImageSet
from oddone.detector import Detector, DetectorSettings, LinearProbe
from oddone.detector.adaptive import ViewStage
from oddone.detector.probe import view_logits
from oddone.detector.rules import (
    NEIGHBOURS,
    StandardisedRule,
    check_rules,
    energy_scores,
    mean_embedding,
    neighbour_scores,
    sum_of_rules,
)
from oddone.errors import ArtifactError, SettingsError
from oddone.tensor_file import content_digest
from oddone.transforms import one_view
from small_detector import fitted

ONE = (StandardisedRule("distance"),)
ALL = (
    StandardisedRule("distance", 8.0, 2.0),
    StandardisedRule("mean_embedding", 9.0, 3.0),
    StandardisedRule("energy", -1.5, 0.5),
    StandardisedRule("neighbours", 0.1, 0.05),
)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def unit(*shape: int, seed: int = 0) -> Tensor:
    return normalize(numbers(*shape, seed=seed), dim=-1)


def probe() -> LinearProbe:
    return LinearProbe(numbers(4, 3, 6, seed=1), numbers(4, 3, seed=2))


# Each rule


def test_the_energy_is_the_mean_over_views_of_the_free_energy_of_the_logits() -> None:
    features, poses = unit(5, 7, 6), [0, 1, 2, 3, 0]
    expected = []
    for image in range(7):
        energies = []
        for view, pose in enumerate(poses):
            row = features[view, image].tolist()
            logits = [
                sum(w * x for w, x in zip(weight.tolist(), row, strict=True)) + float(bias)
                for weight, bias in zip(probe().weight[pose], probe().bias[pose], strict=True)
            ]
            energies.append(-math.log(sum(math.exp(logit) for logit in logits)))
        expected.append(sum(energies) / len(energies))
    scores = energy_scores(probe().logits(features, torch.tensor(poses)))
    torch.testing.assert_close(scores, torch.tensor(expected), rtol=1e-5, atol=1e-5)


def test_the_energy_falls_by_what_all_logits_rise() -> None:
    features, poses = unit(1, 7, 6), torch.tensor([0])
    logits = probe().logits(features, poses)
    torch.testing.assert_close(energy_scores(logits + 2), energy_scores(logits) - 2)


def test_the_mean_embedding_is_that_of_all_views_in_unit_length() -> None:
    views = unit(3, 4, 6)
    for image, found in enumerate(mean_embedding(views)):
        mean = [sum(float(view[image, place]) for view in views) / 3 for place in range(6)]
        expected = torch.tensor([each / math.hypot(*mean) for each in mean])
        torch.testing.assert_close(found, expected)
    torch.testing.assert_close(mean_embedding(views.flip(0)), mean_embedding(views))
    torch.testing.assert_close(mean_embedding(views[:1]), views[0])
    opposite = torch.cat([views[:1], -views[:1]])
    assert torch.equal(mean_embedding(opposite), torch.zeros(4, 6))  # and no division by zero
    assert mean_embedding(views[:, :0]).shape == (0, 6)


def mean_distance_by_loop(detector: Detector, image: np.ndarray) -> float:
    """Return how far the mean of the upright views is from the nearest class, view by view."""
    embedded = detector.embedder.embed(torch.from_numpy(image[None])).in_space(detector.space)
    upright = [view for view, pose in enumerate(detector.embedder.views.poses) if pose == 0]
    total = torch.stack([embedded[view, 0].double() for view in upright]).sum(dim=0)
    unit_mean, gaussians = total / total.norm(), detector.gaussians
    return min(
        float((gaussians.whitening[label].double() @ (unit_mean - mean.double())).norm())
        for label, mean in enumerate(gaussians.mean[: len(detector.classes)])
    )


def test_of_one_view_the_mean_embedding_is_as_far_as_the_view(source: ImageSet) -> None:
    by_distance = fitted(views=one_view)
    by_mean = replace(by_distance, rules=(StandardisedRule("mean_embedding"),))
    scores = by_mean(source.images).scores
    torch.testing.assert_close(scores, by_distance(source.images).scores, rtol=1e-4, atol=1e-4)


def test_in_stages_the_mean_embedding_is_of_all_views_seen(
    detector: Detector, source: ImageSet
) -> None:
    whole = replace(detector, rules=(StandardisedRule("mean_embedding"),))
    never_sure = tuple(ViewStage(views, 1.0, 0.0, math.inf, 0.0) for views in ((0,), (1, 2), (4,)))
    in_stages = replace(whole, stages=never_sure)
    scores = whole(source.images).scores
    torch.testing.assert_close(in_stages(source.images).scores, scores, rtol=1e-4, atol=1e-4)
    at_once = replace(whole, stages=(ViewStage((0,), 1.0, 0.0, 0.0, 0.0),))
    assert not torch.allclose(at_once(source.images).scores, scores, rtol=1e-3)


def neighbours_by_loop(references: Sequence[Sequence[float]], row: Sequence[float]) -> float:
    cosines = sorted(
        (sum(a * b for a, b in zip(reference, row, strict=True)) / math.hypot(*reference))
        for reference in references
    )
    nearest = cosines[-NEIGHBOURS:]
    return 1 - sum(nearest) / len(nearest)


@pytest.mark.parametrize("references", [1, 4, 5, 40])
def test_the_neighbours_are_the_mean_cosine_distance_to_the_nearest(references: int) -> None:
    known, new = unit(references, 6), unit(9, 6, seed=1)
    expected = [neighbours_by_loop(known.tolist(), row.tolist()) for row in new]
    torch.testing.assert_close(neighbour_scores(known, new), torch.tensor(expected))


@given(st.integers(0, 1000), st.floats(0.1, 10))
def test_neighbours_ignore_the_order_and_the_length_of_references(seed: int, scale: float) -> None:
    known, new = unit(12, 6, seed=seed), unit(4, 6, seed=seed + 1)
    shuffled = known.flip(0) * scale
    torch.testing.assert_close(neighbour_scores(shuffled, new), neighbour_scores(known, new))


def test_an_image_among_five_copies_of_itself_has_no_distance_to_its_neighbours() -> None:
    rows = unit(3, 6)
    known = torch.cat([rows.repeat(NEIGHBOURS, 1), unit(4, 6, seed=1)]).half()
    scores = neighbour_scores(known, rows)
    torch.testing.assert_close(scores, torch.zeros(3), atol=1e-3, rtol=0)
    assert neighbour_scores(known, rows[:0]).shape == (0,)


# Their sum


def test_the_sum_counts_each_rule_in_deviations_from_its_mean() -> None:
    scores = {rule.rule: numbers(5, seed=seed) for seed, rule in enumerate(ALL)}
    expected = [
        sum((float(scores[rule][image]) - mean) / deviation for rule, mean, deviation in ALL)
        for image in range(5)
    ]
    torch.testing.assert_close(sum_of_rules(scores, ALL), torch.tensor(expected))


def test_a_single_rule_keeps_its_scores() -> None:
    scores = numbers(5)
    assert torch.equal(sum_of_rules({"distance": scores, "energy": -scores}, ONE), scores)


@given(st.floats(0.1, 10), st.floats(-5, 5))
def test_the_sum_does_not_depend_on_the_units_of_a_rule(scale: float, offset: float) -> None:
    distance, energy = numbers(5), numbers(5, seed=1)
    rules = (StandardisedRule("distance"), StandardisedRule("energy", offset, scale))
    summed = sum_of_rules({"distance": distance, "energy": scale * energy + offset}, rules)
    torch.testing.assert_close(summed, distance + energy, rtol=1e-4, atol=1e-4)


# What is refused


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ((), r"rules=\[\]: choose at least one, and none twice"),
        ((*ONE, *ONE), r"rules=\['distance', 'distance'\]: choose"),
        ((StandardisedRule("energy"),), "'energy' is that of a classifier; fit with class"),
        (
            (StandardisedRule("distance", 0.0, 0.0),),
            "'distance' has the mean 0 and the deviation 0",
        ),
        ((StandardisedRule("distance", 0.0, -1.0),), "the deviation -1; both must be finite"),
        ((StandardisedRule("neighbours", 0.0, math.nan),), "the deviation nan; both must"),
        ((StandardisedRule("neighbours", math.inf),), "the mean inf and the deviation 1"),
    ],
)
def test_rules_that_cannot_score_are_refused(
    rules: tuple[StandardisedRule, ...], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        check_rules(rules, has_classifier=False)
    with pytest.raises(SettingsError, match=message):
        DetectorSettings(rules=rules, classifier="nearest")


def test_the_energy_needs_nothing_but_the_probe() -> None:
    check_rules(ALL, has_classifier=True)
    assert DetectorSettings(rules=ALL).rules == ALL


def test_no_detector_has_rules_that_it_cannot_score_by() -> None:
    with pytest.raises(SettingsError, match="'energy' is that of a classifier"):
        replace(fitted(), classifier=None, rules=ALL)


# In a detector, and in its file


@pytest.mark.parametrize("rules", [(rule,) for rule in ALL] + [ALL])
def test_a_detector_scores_by_its_rules_and_so_does_its_file(
    detector: Detector, source: ImageSet, tmp_path: Path, rules: tuple[StandardisedRule, ...]
) -> None:
    images = source.images[60:]
    embedded = detector.embedder.embed(torch.from_numpy(images))
    assert detector.classifier is not None
    alone = {
        "distance": detector(images).scores,
        "energy": energy_scores(
            view_logits(detector.classifier, embedded, detector.embedder.poses)
        ),
        "mean_embedding": torch.tensor([mean_distance_by_loop(detector, each) for each in images]),
        "neighbours": neighbour_scores(detector.references.embeddings, embedded.embeddings[0]),
    }
    with_rules = replace(detector, rules=rules)
    verdicts = with_rules(images)
    torch.testing.assert_close(verdicts.scores, sum_of_rules(alone, rules), rtol=1e-4, atol=1e-4)
    assert torch.equal(verdicts.labels, detector(images).labels)
    with_rules.save(tmp_path / "a.oddone")
    loaded = Detector.load(tmp_path / "a.oddone")
    assert loaded.rules == rules
    assert torch.equal(loaded(images).scores, verdicts.scores)


def test_a_detector_is_fitted_with_the_rules_of_its_settings(source: ImageSet) -> None:
    settings = DetectorSettings(rules=ALL)
    assert Detector.fit(fitted().embedder.trained, source, settings).rules == ALL


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([], "choose at least one"),
        (["distance"], "rules is .*: Expected `array`, got `str`"),
        ([["distance", 0, 1], ["distance", 0, 1]], "none twice"),
        ([["surprise", 0, 1]], "Invalid enum value 'surprise'"),
        ([["distance", 0, 0]], "the deviation 0; both must be finite"),
        ([["distance", 0, math.nan]], "the deviation nan; both must be finite"),
        ([["distance", -math.inf, 1]], "the mean -inf and"),
        ([["distance", 0, 10**400]], "rules is "),
        ([["distance", "0", 1]], "Expected `float`, got `str`"),
        ([["energy", 0, 1]], "'energy' is that of a classifier"),
        (None, "rules is None: Expected `array`, got `null`"),
    ],
)
@pytest.mark.usefixtures("as_shipped")
def test_rules_that_somebody_made_up_are_refused(
    tmp_path: Path, rules: object, message: str
) -> None:
    path = tmp_path / "forged.oddone"
    replace(fitted(), classifier=None).save(path)
    with safe_open(path, framework="pt") as content:
        header = content.metadata()
    header["rules"] = json.dumps(rules)
    del header["digest"]
    tensors = load(path.read_bytes())
    digest = json.dumps(content_digest(tensors, header))
    path.write_bytes(save(tensors, {**header, "digest": digest}))
    with pytest.raises(ArtifactError, match=message) as caught:
        Detector.load(path)
    assert "forged.oddone contradicts itself" in str(caught.value)
