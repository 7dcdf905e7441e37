from dataclasses import replace
from importlib import import_module

import pytest
import torch
from torch.nn.functional import normalize
from toys import features, normal, odd, quadrants, sighted, trained_with

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
    ours = nearest_neighbours(trained, source, k=k)(odd()).scores
    torch.testing.assert_close(ours.tolist(), expected, rtol=1e-5, atol=1e-6)


def test_an_image_that_was_learned_is_at_distance_zero_and_has_its_own_name() -> None:
    source = normal()
    judged = nearest_neighbours(sighted(), source, k=1)(source.images)
    assert judged.scores.max() < 1e-6  # by cosines, rounding alone would make it 3e-4
    assert judged.labels.tolist() == source.labels.tolist()


def test_the_length_of_features_does_not_matter() -> None:
    dim = odd() // 2 * 2
    bright, dark = (nearest_neighbours(sighted(), normal(), k=5)(i).scores for i in (dim, dim // 2))
    torch.testing.assert_close(bright, dark)


def test_the_head_s_space_is_another() -> None:
    trained, source = trained_with(quadrants()), normal()
    with torch.no_grad():
        heads = [
            normalize(trained.network(torch.from_numpy(images).float() / 255).embeddings)
            for images in (source.images, odd())
        ]
    expected = torch.cdist(heads[1].double(), heads[0].double()).kthvalue(5, dim=1).values
    ours = nearest_neighbours(trained, source, k=5, space="head")(odd()).scores
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
    source = normal()
    judge = nearest_neighbours(sighted(), source, k=1)
    assert int((judge(source.images).scores < 1e-6).sum()) == 6
    assert judge(source.images).labels.tolist() == source.labels.tolist()
    with pytest.raises(SettingsError, match="k=7: choose it from 1 to 6"):
        nearest_neighbours(sighted(), source, k=7)


@pytest.mark.parametrize("k", [0, -1, 61])
def test_a_k_that_is_no_number_of_images_is_refused(k: int) -> None:
    with pytest.raises(SettingsError, match=f"k={k}: choose it from 1 to 60"):
        nearest_neighbours(sighted(), normal(), k=k)


def test_an_encoder_without_a_classifier_will_do() -> None:
    trained = sighted()
    trained.network.classifier = None
    trained = replace(trained, settings=replace(trained.settings, objective="mcl"))
    assert nearest_neighbours(trained, normal(), k=5)(odd()).scores.isfinite().all()
