import pytest
import torch
from features import clusters
from torch import nn
from torch.nn.functional import normalize

from oddone.density import Gaussians
from oddone.detector import LinearProbe
from oddone.detector.rules import energy_scores, neighbour_scores
from oddone.errors import DataError
from oddone.selection import CANDIDATES
from oddone.selection.candidates import FittedRules
from oddone.transforms import one_view


def test_candidates_have_the_names_of_their_rules_and_no_two_are_alike() -> None:
    for candidate in CANDIDATES:
        assert candidate.name == " + ".join(candidate.rules)
    assert len({frozenset(candidate.rules) for candidate in CANDIDATES}) == len(CANDIDATES)


def test_rules_are_fitted_on_features_seen_from_their_mean() -> None:
    features, labels = clusters()
    new, _ = clusters(seed=1)
    rules = FittedRules.fit(features, labels)
    mean = features[0].mean(dim=0)
    known, seen = (normalize(rows[0] - mean, dim=1) for rows in (features, new))
    gaussians = Gaussians.fit_tied(known, labels, 3)
    probe = LinearProbe.fit(features, one_view, labels, 3)
    scores, named = rules(new[0])
    upright = torch.tensor([0])
    torch.testing.assert_close(scores["distance"], gaussians.distances(seen).amin(dim=1).float())
    torch.testing.assert_close(scores["neighbours"], neighbour_scores(known, seen))
    torch.testing.assert_close(scores["energy"], energy_scores(probe.logits(new, upright)))
    assert torch.equal(named, probe.logits(new, upright)[0].argmax(dim=1))


def test_labels_keep_their_numbers_where_classes_are_missing() -> None:
    features, labels = clusters()
    with_gaps = torch.tensor([2, 5, 11])[labels]
    expected, actual = FittedRules.fit(features, labels), FittedRules.fit(features, with_gaps)
    assert actual.classes.tolist() == [2, 5, 11]
    ours, theirs = actual(features[0]), expected(features[0])
    assert torch.equal(ours.labels, torch.tensor([2, 5, 11])[theirs.labels])
    assert all(torch.equal(ours.scores[rule], theirs.scores[rule]) for rule in theirs.scores)


def test_the_order_of_images_does_not_matter() -> None:
    features, labels = clusters()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    expected = FittedRules.fit(features, labels)(features[0])
    actual = FittedRules.fit(features[:, order], labels[order])(features[0])
    assert torch.equal(actual.labels, expected.labels)
    for rule in ("distance", "neighbours"):
        torch.testing.assert_close(actual.scores[rule], expected.scores[rule])


def test_one_class_has_no_energy_and_is_what_everything_looks_like() -> None:
    features, labels = clusters(classes=1)
    rules = FittedRules.fit(features, labels + 4)
    scores, named = rules(clusters(seed=1)[0][0])
    assert rules.probe is None
    assert sorted(scores) == ["distance", "neighbours"]
    assert (named == 4).all()


def test_features_of_eight_views_train_a_head_on_them() -> None:
    features, labels = clusters(views=8)
    rules = FittedRules.fit(features, labels)
    assert isinstance(rules.head, nn.Sequential)
    assert rules.embeddings.shape == (60, rules.gaussians.mean.shape[1])
    assert (rules(features[0]).labels == labels).float().mean() > 0.9


def test_many_features_are_embedded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    features, labels = clusters()
    expected = FittedRules.fit(features, labels)
    monkeypatch.setattr("oddone.selection.candidates.ROWS_AT_ONCE", 7)
    assert torch.equal(FittedRules.fit(features, labels).embeddings, expected.embeddings)
    assert expected(features[0, :0]).labels.shape == (0,)


def test_of_many_images_some_are_the_neighbours_to_look_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    features, labels = clusters()
    everything = FittedRules.fit(features, labels)
    monkeypatch.setattr("oddone.selection.candidates.MOST_REFERENCES", 30)
    rules = FittedRules.fit(features, labels)
    assert len(rules.references) == 30
    assert torch.equal(rules.embeddings, everything.embeddings[rules.references])
    assert torch.equal(rules.gaussians.mean, everything.gaussians.mean)
    neighbours = rules(features[0]).scores["neighbours"]
    embeddings = everything.embeddings
    torch.testing.assert_close(neighbours, neighbour_scores(rules.embeddings, embeddings))


def test_one_image_a_class_is_too_little() -> None:
    features, labels = clusters(images=3)
    with pytest.raises(DataError, match="the 3 groups together have 3 images"):
        FittedRules.fit(features, labels)
