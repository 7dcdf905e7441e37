from importlib import import_module

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize
from toys import features, normal, odd, quadrants, score, sighted, trained_with

from oddone.baselines import nearest_neighbours
from oddone.baselines.nearest_neighbours import k_nearest, most_common
from oddone.errors import SettingsError

KS = (1, 2, 7, 60)
MODULE = import_module("oddone.baselines.nearest_neighbours")


@pytest.mark.parametrize("k", KS)
def test_the_score_is_the_distance_to_the_kth_nearest(k: int) -> None:
    trained, source = sighted(), normal()
    known = features(trained, source.images).tolist()
    expected = []
    for row in features(trained, odd()).tolist():
        length = sum(a * a for a in row) ** 0.5
        distances = []
        for other in known:
            other_length = sum(b * b for b in other) ** 0.5
            distances.append(
                sum((a / length - b / other_length) ** 2 for a, b in zip(row, other, strict=True))
                ** 0.5
            )
        expected.append(sorted(distances)[k - 1])
    ours = score(nearest_neighbours(trained, source, k=k), odd()).scores
    torch.testing.assert_close(ours.tolist(), expected, rtol=1e-5, atol=1e-6)


def test_an_image_that_was_learned_is_at_distance_zero() -> None:
    source = normal()
    verdicts = score(nearest_neighbours(sighted(), source, k=1), source.images)
    assert verdicts.scores.max() < 1e-6  # by cosines, rounding alone would make it 3e-4


def test_the_label_is_the_classifier_s_where_there_is_one() -> None:
    trained, source = sighted(), normal()
    classifier = trained.network.classifier
    assert classifier is not None
    with torch.no_grad():
        classifier.bias[2] = 1000.0  # whatever an image shows, it is called blue
    verdicts = score(nearest_neighbours(trained, source, k=1), source.images)
    assert verdicts.labels.tolist() == [2] * len(source)


@pytest.mark.parametrize("k", [1, 9, 45])
def test_without_a_classifier_the_label_is_what_most_of_the_k_nearest_are(k: int) -> None:
    trained, source = trained_with(quadrants(), classifier=False), normal()
    images = np.concatenate([source.images, odd()])
    known, rows = (normalize(features(trained, each)) for each in (source.images, images))
    expected = []
    for row in rows:
        nearest = sorted(range(60), key=lambda other: float((row - known[other]).norm()))[:k]
        votes = [int(source.labels[other]) for other in nearest]
        expected.append(max(range(3), key=votes.count))
    verdicts = score(nearest_neighbours(trained, source, k=k), images)
    assert verdicts.labels.tolist() == expected
    assert len(set(expected)) > 1


def test_the_length_of_features_does_not_matter() -> None:
    dim = odd() // 2 * 2
    scorer = nearest_neighbours(sighted(), normal(), k=5)
    torch.testing.assert_close(score(scorer, dim).scores, score(scorer, dim // 2).scores)


def test_the_head_s_space_is_another() -> None:
    trained, source = trained_with(quadrants()), normal()
    with torch.no_grad():
        heads = [
            normalize(trained.network(torch.from_numpy(images).float() / 255).embeddings)
            for images in (source.images, odd())
        ]
    expected = torch.cdist(heads[1].double(), heads[0].double()).kthvalue(5, dim=1).values
    ours = score(nearest_neighbours(trained, source, k=5, space="head"), odd()).scores
    torch.testing.assert_close(ours.double(), expected, rtol=1e-4, atol=1e-5)


def test_the_majority_of_the_neighbours_gives_the_label() -> None:
    labels = torch.tensor([[0, 2, 2], [1, 1, 0], [2, 1, 0]])
    assert most_common(labels, 3).tolist() == [2, 1, 0]


def test_few_similarities_at_once_find_the_same_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    rows, known = (normalize(torch.randn(n, 4, generator=generator)) for n in (9, 30))
    all_at_once = k_nearest(rows, known, 3)
    monkeypatch.setattr(MODULE, "SIMILARITIES_AT_ONCE", 60)
    assert torch.equal(k_nearest(rows, known, 3), all_at_once)


def test_of_very_many_images_some_of_every_class_are_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(MODULE, "MOST_NEIGHBOURS", 6)
    trained, source = trained_with(quadrants(), classifier=False), normal()
    verdicts = score(nearest_neighbours(trained, source, k=1), source.images)
    assert int((verdicts.scores < 1e-6).sum()) == 6
    assert verdicts.labels.tolist() == source.labels.tolist()
    with pytest.raises(SettingsError, match="k=7: choose it from 1 to 6"):
        nearest_neighbours(sighted(), source, k=7)


@pytest.mark.parametrize("k", [0, -1, 61])
def test_a_k_that_is_no_number_of_images_is_refused(k: int) -> None:
    with pytest.raises(SettingsError, match=f"k={k}: choose it from 1 to 60"):
        nearest_neighbours(sighted(), normal(), k=k)
