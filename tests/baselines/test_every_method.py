"""What all methods have in common."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from toys import COLOURS, SIZE, normal, odd, quadrants, score, sighted, trained_with

from oddone.baselines import (
    energy,
    mahalanobis,
    mds,
    msp,
    nearest_neighbours,
    odin,
    rotation,
    rotation_sei,
)
from oddone.data import ImageSet
from oddone.detector import Detector, DetectorSettings
from oddone.encoders import TrainedNetwork
from oddone.errors import DataError, SettingsError
from oddone.metrics import auroc
from oddone.scoring import Scorer

Method = Callable[[TrainedNetwork, ImageSet], Scorer]


def _detector(trained: TrainedNetwork, source: ImageSet) -> Scorer:
    return Detector.fit(trained, source, DetectorSettings(space="features"))


METHODS: dict[str, Method] = {
    "msp": lambda trained, _: msp(trained),
    "energy": lambda trained, _: energy(trained),
    "odin": lambda trained, _: odin(trained),
    "mahalanobis": mahalanobis,
    "nearest_neighbours": lambda trained, source: nearest_neighbours(trained, source, k=5),
    "rotation": lambda trained, _: rotation(trained),
    "rotation_sei": lambda trained, _: rotation_sei(trained),
    "mds": mds,
    "detector": _detector,
}
every_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
with_classifier = pytest.mark.parametrize(
    "method",
    [METHODS[name] for name in ("msp", "energy", "odin", "mds", "rotation", "rotation_sei")],
)


@every_method
def test_odd_images_score_higher_than_normal_ones_which_are_named(method: Method) -> None:
    scorer = method(sighted(), normal())
    new = normal(seed=9)
    verdicts = score(scorer, new.images)
    assert auroc(verdicts.scores, score(scorer, odd()).scores) == 1
    assert verdicts.labels.tolist() == new.labels.tolist()


@every_method
def test_an_image_is_scored_the_same_in_any_company(
    method: Method, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = method(sighted(), normal())
    images = np.concatenate([normal(10, seed=2).images, odd(7)])
    together = score(scorer, images)
    # Eight views of two images make a batch, and a gradient is taken of one at a time.
    monkeypatch.setattr("oddone.detector.view_embedder.PIXELS_AT_ONCE", 16 * SIZE**2)
    in_small_batches = score(method(sighted(), normal()), images[::-1])
    torch.testing.assert_close(
        in_small_batches.scores.flip(0), together.scores, rtol=1e-5, atol=1e-5
    )
    assert torch.equal(in_small_batches.labels.flip(0), together.labels)


@every_method
def test_scoring_leaves_neither_a_gradient_nor_another_network(method: Method) -> None:
    trained = sighted()
    before = {name: tensor.clone() for name, tensor in trained.network.state_dict().items()}
    scorer = method(trained, normal())
    first, second = score(scorer, odd()), score(scorer, odd())
    assert torch.equal(first.scores, second.scores)
    assert not first.scores.requires_grad
    assert all(parameter.grad is None for parameter in trained.network.parameters())
    for name, tensor in trained.network.state_dict().items():
        assert torch.equal(tensor, before[name])


@every_method
def test_no_image_gets_no_score(method: Method) -> None:
    verdicts = score(method(sighted(), normal()), np.empty((0, 3, SIZE, SIZE), np.uint8))
    assert verdicts.scores.shape == verdicts.labels.shape == (0,)
    assert not verdicts.labels.is_floating_point()


@every_method
def test_one_class_is_every_image_s_label(method: Method) -> None:
    trained = trained_with(quadrants(), classes=COLOURS[:1])
    verdicts = score(method(trained, normal(classes=1)), odd())
    assert verdicts.labels.tolist() == [0] * 20
    assert verdicts.scores.isfinite().all()


@every_method
def test_images_that_cannot_be_written_to_are_scored_without_a_warning(method: Method) -> None:
    images = odd()
    images.flags.writeable = False
    assert len(score(method(sighted(), normal()), images)) == 20


@every_method
def test_images_of_another_size_are_refused(method: Method) -> None:
    scorer = method(sighted(), normal())
    with pytest.raises(DataError, match=r"images have shape \(2, 3, 9, 9\)"):
        scorer(torch.zeros(2, 3, 9, 9, dtype=torch.uint8))


@with_classifier
def test_a_network_without_a_classifier_is_refused_before_it_sees_an_image(method: Method) -> None:
    trained = sighted()
    trained.network.classifier = None
    with pytest.raises(SettingsError, match="has no classifier; train one with objective='cross-"):
        method(trained, normal())


@pytest.mark.usefixtures("as_shipped")
@pytest.mark.parametrize("learn", [mahalanobis, mds, nearest_neighbours])
def test_methods_that_learn_refuse_what_they_cannot_learn_from(learn: Method) -> None:
    trained, source = sighted(), normal()
    with pytest.raises(DataError, match="the classes of the images are a, b, and the encoder was"):
        learn(trained, replace(source, classes=("a", "b"), labels=source.labels % 2))
    with pytest.raises(DataError, match="60 of 60 images have no label"):
        learn(trained, replace(source, labels=np.full_like(source.labels, -1)))
    with pytest.raises(DataError, match="0 images are too few"):
        learn(trained, source, indices=np.arange(0))  # type: ignore[call-arg]
    with pytest.raises(SettingsError, match="indices hold 60, and the 60 images"):
        learn(trained, source, indices=np.array([60]))  # type: ignore[call-arg]


@pytest.mark.parametrize("learn", [mahalanobis, mds, nearest_neighbours])
def test_methods_learn_from_the_images_they_are_given_only(learn: Method) -> None:
    trained, source = sighted(), normal(120)
    half = np.arange(60)
    spoilt = replace(source, images=source.images.copy())
    spoilt.images[60:] = 255
    a, b = (score(learn(trained, given, indices=half), odd()) for given in (source, spoilt))  # type: ignore[call-arg]
    assert torch.equal(a.scores, b.scores)
