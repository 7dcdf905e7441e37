"""What all judges have in common."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from toys import COLOURS, SIZE, normal, odd, quadrants, sighted, trained_with

from oddone.baselines import (
    Judge,
    detection,
    energy,
    energy_scores,
    logits_of,
    mahalanobis,
    msp,
    msp_scores,
    nearest_neighbours,
    odin,
    rotation,
    rotation_sei,
)
from oddone.data import ImageSet
from oddone.detector import Detector
from oddone.errors import DataError, SettingsError
from oddone.metrics import auroc
from oddone.training import TrainedNetwork

Method = Callable[[TrainedNetwork, ImageSet], Judge]


def _detection(trained: TrainedNetwork, source: ImageSet) -> Judge:
    return detection(Detector.fit(trained, source, space="features"))


METHODS: dict[str, Method] = {
    "msp": lambda trained, _: msp(trained),
    "energy": lambda trained, _: energy(trained),
    "odin": lambda trained, _: odin(trained),
    "mahalanobis": mahalanobis,
    "nearest_neighbours": lambda trained, source: nearest_neighbours(trained, source, k=5),
    "rotation": lambda trained, _: rotation(trained),
    "rotation_sei": lambda trained, _: rotation_sei(trained),
    "detection": _detection,
}
every_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
with_classifier = pytest.mark.parametrize(
    "method", [METHODS[name] for name in ("msp", "energy", "odin", "rotation", "rotation_sei")]
)


@every_method
def test_odd_images_score_higher_than_normal_ones_which_are_named(method: Method) -> None:
    judge = method(sighted(), normal())
    new = normal(seed=9)
    judged = judge(new.images)
    assert auroc(judged.scores, judge(odd()).scores) == 1
    assert judged.labels.tolist() == new.labels.tolist()


@every_method
def test_an_image_is_judged_the_same_in_any_company(
    method: Method, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = method(sighted(), normal())
    images = np.concatenate([normal(10, seed=2).images, odd(7)])
    together = judge(images)
    # Eight views of two images make a batch, and a gradient is taken of one at a time.
    monkeypatch.setattr("oddone.detector.view_embedder.PIXELS_AT_ONCE", 16 * SIZE**2)
    in_small_batches = method(sighted(), normal())(images[::-1])
    torch.testing.assert_close(
        in_small_batches.scores.flip(0), together.scores, rtol=1e-5, atol=1e-5
    )
    assert torch.equal(in_small_batches.labels.flip(0), together.labels)


@every_method
def test_judging_leaves_neither_a_gradient_nor_another_network(method: Method) -> None:
    trained = sighted()
    before = {name: tensor.clone() for name, tensor in trained.network.state_dict().items()}
    judge = method(trained, normal())
    first, second = judge(odd()), judge(odd())
    assert torch.equal(first.scores, second.scores)
    assert not first.scores.requires_grad
    assert all(parameter.grad is None for parameter in trained.network.parameters())
    for name, tensor in trained.network.state_dict().items():
        assert torch.equal(tensor, before[name])


@every_method
def test_no_image_gets_no_score(method: Method) -> None:
    judged = method(sighted(), normal())(np.empty((0, 3, SIZE, SIZE), np.uint8))
    assert judged.scores.shape == judged.labels.shape == (0,)
    assert not judged.labels.is_floating_point()


@every_method
def test_one_class_is_every_image_s_label(method: Method) -> None:
    trained = trained_with(quadrants(), classes=COLOURS[:1])
    judged = method(trained, normal(classes=1))(odd())
    assert judged.labels.tolist() == [0] * 20
    assert judged.scores.isfinite().all()


@every_method
def test_images_that_cannot_be_written_to_are_judged_without_a_warning(method: Method) -> None:
    images = odd()
    images.flags.writeable = False
    assert len(method(sighted(), normal())(images).scores) == 20


@every_method
def test_images_of_another_size_are_refused(method: Method) -> None:
    judge = method(sighted(), normal())
    with pytest.raises(DataError, match=r"images have shape \(2, 3, 9, 9\)"):
        judge(np.zeros((2, 3, 9, 9), np.uint8))


@with_classifier
def test_a_network_without_a_classifier_is_refused_before_it_sees_an_image(method: Method) -> None:
    trained = sighted()
    trained.network.classifier = None
    trained = replace(trained, settings=replace(trained.settings, objective="mcl"))
    with pytest.raises(SettingsError, match="'mcl' has no classifier; train .*'cross-entropy'"):
        method(trained, normal())


@pytest.mark.usefixtures("as_shipped")
@pytest.mark.parametrize("learn", [mahalanobis, nearest_neighbours])
def test_methods_that_learn_refuse_what_they_cannot_learn_from(learn: Method) -> None:
    trained, source = sighted(), normal()
    with pytest.raises(DataError, match="the classes of the images are a, b, and the encoder was"):
        learn(trained, replace(source, classes=("a", "b")))
    with pytest.raises(DataError, match="60 of 60 images have no label"):
        learn(trained, replace(source, labels=source.labels - 10))
    with pytest.raises(DataError, match="0 images are too few"):
        learn(trained, source, indices=np.arange(0))  # type: ignore[call-arg]
    with pytest.raises(SettingsError, match="only holds 60, and the 60 images"):
        learn(trained, source, indices=np.array([60]))  # type: ignore[call-arg]


@pytest.mark.parametrize("learn", [mahalanobis, nearest_neighbours])
def test_methods_learn_from_the_images_they_are_given_only(learn: Method) -> None:
    trained, source = sighted(), normal(120)
    half = np.arange(60)
    spoilt = replace(source, images=source.images.copy())
    spoilt.images[60:] = 255
    a, b = (learn(trained, given, indices=half)(odd()) for given in (source, spoilt))  # type: ignore[call-arg]
    assert torch.equal(a.scores, b.scores)


def test_judges_by_logits_say_what_the_logits_say() -> None:
    logits = logits_of(sighted(), odd())
    assert torch.equal(msp(sighted())(odd()).scores, msp_scores(logits))
    assert torch.equal(energy(sighted(), 3.0)(odd()).scores, energy_scores(logits, 3.0))
    with pytest.raises(SettingsError, match="temperature=0: choose it above 0"):
        energy(sighted(), 0.0)


def test_detection_says_what_the_detector_says() -> None:
    detector = Detector.fit(sighted(), normal(), space="features")
    verdicts, judged = detector(odd()), detection(detector)(odd())
    assert torch.equal(judged.scores, verdicts.scores)
    assert torch.equal(judged.labels, verdicts.labels)
