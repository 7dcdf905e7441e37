"""From images to a detector without training, on encoders that take no time."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d

import oddone
from oddone.data import ImageSet
from oddone.data.arrays import resize_images
from oddone.detector import Detector
from oddone.detector.rules import sum_of_rules
from oddone.encoders import frozen_network, is_installed
from oddone.errors import DataError, DataWarning, SettingsError
from oddone.metrics import auroc
from oddone.selection import CANDIDATES, fit_frozen
from oddone.selection.candidates import FittedRules
from oddone.selection.fit import FOLDS_WITH_HEADS
from oddone.selection.folds import IMAGE_FOLDS
from oddone.selection.head import train_head
from oddone.training.initialise import initial_network
from runs import tiny_settings, tiny_source

ONE_CLASS_HAS_NO_ENERGY = "'energy' compares classes, and there is only one; choose 'distance'"


def flatten(images: ImageSet, **choices: object) -> Detector:
    """Return a detector on pixels."""
    return oddone.fit(images, encoder=nn.Flatten(), image_size=8, **choices)  # type: ignore[arg-type]


def some(images: ImageSet, per_class: int, classes: int | None = None) -> ImageSet:
    """Return so many images of each of the first classes."""
    names = images.classes[:classes]
    chosen = np.concatenate(
        [np.flatnonzero(images.labels == label)[:per_class] for label in range(len(names))]
    )
    return replace(
        images,
        images=images.images[chosen],
        labels=images.labels[chosen],
        classes=names,
        paths=[images.paths[image] for image in chosen],
    )


def noisy(classes: int, per_class: int) -> ImageSet:
    """Return images of noise, those of a class much alike."""
    generator = np.random.default_rng(0)
    patterns = generator.integers(0, 200, (classes, 3, 4, 4))
    labels = np.arange(classes * per_class) % classes
    pixels = patterns[labels] + generator.integers(0, 40, (len(labels), 3, 4, 4))
    names = tuple(f"class {label}" for label in range(classes))
    paths = [f"noise[{image}]" for image in range(len(labels))]
    return ImageSet(pixels.astype(np.uint8), labels, names, paths, "noise")


@pytest.fixture(scope="module")
def known() -> ImageSet:
    """Return 60 images of each of eight garments, of 8 x 8 pixels."""
    return resize_images(some(oddone.load("fashion:known"), 60), 8)


@pytest.fixture(scope="module")
def detector(known: ImageSet) -> Detector:
    return flatten(known)


# End to end


def test_a_detector_is_fitted_calibrated_and_says_what_to_expect(
    detector: Detector, known: ImageSet
) -> None:
    estimate = detector.provenance["estimate"]
    assert detector.classes == known.classes == tuple(estimate["classes"])
    assert estimate["rule"] in {candidate.name for candidate in CANDIDATES}
    assert estimate["rule"] == " + ".join(rule.rule for rule in detector.rules)
    assert estimate["images"] == 480
    assert set(estimate["others"]) | {estimate["rule"]} == {each.name for each in CANDIDATES}
    assert estimate["auroc"] == pytest.approx(np.mean(list(estimate["classes"].values())))
    assert 0.6 < estimate["auroc"] < 1
    assert detector.calibration is not None
    assert len(detector.calibration.scores) == 480
    assert len(detector.references) == 480
    assert detector.provenance["data"] == {"images": 480, "fingerprint": known.fingerprint}


def test_what_it_says_comes_true(detector: Detector) -> None:
    test = resize_images(some(oddone.load("fashion:known#test"), 50), 8)
    unseen = resize_images(oddone.load("fashion:unseen#test"), 8)
    verdicts, estimate = detector(test.images), detector.provenance["estimate"]
    right = float((verdicts.labels == torch.from_numpy(test.labels)).double().mean())
    assert right == pytest.approx(estimate["accuracy"], abs=0.06)
    assert verdicts.anomalous is not None
    assert 0.02 < float(verdicts.anomalous.double().mean()) < 0.09  # 0.05 were wanted
    measured = auroc(verdicts.scores, detector(unseen.images).scores)
    assert measured > estimate["auroc"] - 0.1  # a bag is unlike all garments


def of_unequal_classes(images: int, seed: int) -> ImageSet:
    """Return images of a varied class, which most are of, and of four that are less varied."""
    generator = np.random.default_rng(seed)
    centres = np.random.default_rng(99).uniform(60, 190, (5, 12))
    labels = generator.choice(5, images, p=[0.8, 0.05, 0.05, 0.05, 0.05])
    spread = np.array([20, 8, 8, 8, 8])[labels, None]
    pixels = (centres[labels] + spread * generator.normal(size=(images, 12))).clip(0, 255)
    blocks = pixels.reshape(images, 3, 2, 2).repeat(2, axis=2).repeat(2, axis=3)
    paths = [f"unequal[{image}]" for image in range(images)]
    return ImageSet(blocks.astype(np.uint8), labels, tuple("abcde"), paths, f"unequal{seed}")


@pytest.mark.parametrize("rule", ["distance", "energy", "neighbours", "distance + energy"])
def test_as_many_false_alarms_come_as_were_wanted_whatever_is_left_out_of_many_images(
    monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    monkeypatch.setattr("oddone.selection.fit.MOST_FITTED", 2000)
    monkeypatch.setattr("oddone.selection.candidates.MOST_REFERENCES", 500)
    detector = flatten(of_unequal_classes(5000, 0), rule=rule)
    assert detector.calibration is not None
    assert 2000 <= len(detector.calibration.scores) < 2005
    assert len(detector.references) < 505
    verdicts = detector(resize_images(of_unequal_classes(4000, 1), 8).images)
    assert verdicts.anomalous is not None
    assert 0.035 < float(verdicts.anomalous.double().mean()) < 0.065  # 0.05 were wanted


def test_the_accuracy_that_is_promised_is_that_with_all_classes_to_choose_from() -> None:
    generator = np.random.default_rng(0)
    noise = generator.integers(0, 255, (600, 3, 4, 4)).astype(np.uint8)
    paths = [f"noise[{image}]" for image in range(600)]
    images = ImageSet(noise, generator.integers(0, 2, 600), ("a", "b"), paths, "noise")
    estimate = flatten(images, rule="distance").provenance["estimate"]
    assert estimate["accuracy"] == pytest.approx(0.5, abs=0.05)  # guessing


def test_new_images_are_scored_as_the_rules_score_their_features(
    detector: Detector, known: ImageSet
) -> None:
    features = detector.embedder.embed(torch.from_numpy(known.images)).features
    rules = FittedRules.fit(features, torch.from_numpy(known.labels))
    new = resize_images(oddone.load("fashion:unseen#test"), 8).images[:50]
    expected = rules(detector.embedder.embed(torch.from_numpy(new)).features[0])
    verdicts = detector(new)
    scores = sum_of_rules(expected.scores, detector.rules)
    torch.testing.assert_close(verdicts.scores, scores, rtol=1e-3, atol=1e-3)
    assert torch.equal(verdicts.labels, expected.labels)


def test_the_same_images_give_the_same_detector(detector: Detector, known: ImageSet) -> None:
    again = flatten(known)
    assert again.rules == detector.rules
    assert again.threshold == detector.threshold
    assert again.provenance["estimate"] == detector.provenance["estimate"]
    assert torch.equal(again(known.images[:50]).scores, detector(known.images[:50]).scores)


def test_a_fitted_detector_comes_back_from_its_file(
    detector: Detector, known: ImageSet, tmp_path: Path
) -> None:
    detector.save(tmp_path / "a.oddone")
    loaded = Detector.load(tmp_path / "a.oddone", encoder=nn.Flatten())
    ours, theirs = loaded(known.images[:50]), detector(known.images[:50])
    assert torch.equal(ours.scores, theirs.scores)
    assert torch.equal(ours.labels, theirs.labels)
    assert loaded.provenance["estimate"] == detector.provenance["estimate"]
    explanation = loaded.explain(known.images[:1], neighbours=1)[0]
    assert explanation.neighbours[0].path == known.paths[0]


def test_images_may_be_named_and_are_resized() -> None:
    pooled = nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten())
    named = oddone.fit("fashion:known#test", encoder=pooled, image_size=12, rule="distance")
    assert named.image_size == 12
    as_loaded = oddone.fit("fashion:known#test", encoder=pooled, rule="distance")
    assert as_loaded.image_size == 28


class Quadrants(nn.Module):
    """A user's own encoder: normalised mean colours of the quadrants."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(12)
        self.norm.running_mean += 0.25

    def forward(self, images: Tensor) -> Tensor:
        return self.norm(adaptive_avg_pool2d(images, 2).flatten(1))  # type: ignore[no-any-return]


def test_a_users_own_module_is_used_as_it_is() -> None:
    source, encoder = tiny_source(images=96), Quadrants()
    before = [tensor.clone() for tensor in encoder.state_dict().values()]
    detector = oddone.fit(source, encoder=encoder, false_alarms=0.2)
    assert (detector(source.images).labels == torch.from_numpy(source.labels)).all()
    assert encoder.training
    assert all(map(torch.equal, encoder.state_dict().values(), before))


def test_progress_tells_of_embedding_comparing_and_calibrating(known: ImageSet) -> None:
    reports: list[tuple[int, int, str]] = []
    flatten(known, progress=lambda *report: reports.append(report))
    phases = list(dict.fromkeys(description for _, _, description in reports))
    assert phases == ["embedding", "comparing", "calibrating"]
    assert (480, 480, "embedding") in reports
    assert (8, 8, "comparing") in reports
    assert (5, 5, "calibrating") in reports


def test_a_fitted_detector_knows_how_long_that_took(detector: Detector) -> None:
    assert 0 <= detector.provenance["seconds"] < 600


def test_a_head_may_be_learned_on_the_features(
    known: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oddone.selection.head.STEPS", 3)
    detector = flatten(some(known, 30, 4), learn_head=True, false_alarms=0.2)
    assert detector.embedder.trained.embedding_dim == 128
    assert [rule.rule for rule in detector.rules] == ["distance"]
    detector.save(tmp_path / "a.oddone")
    loaded = Detector.load(tmp_path / "a.oddone", encoder=nn.Flatten())
    assert torch.equal(loaded(known.images[:9]).scores, detector(known.images[:9]).scores)


def test_heads_learn_from_rotated_images_one_for_each_fold_and_one_for_all(
    known: ImageSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []

    def train(features: Tensor, *_: Tensor, generator: torch.Generator) -> nn.Sequential:
        seen.append(tuple(features.shape[:2]))
        return train_head(features, *_, generator=generator)

    monkeypatch.setattr("oddone.selection.head.STEPS", 3)
    monkeypatch.setattr("oddone.selection.candidates.train_head", train)
    detector = flatten(some(known, 20, 4), learn_head=True, false_alarms=0.2)
    assert {views for views, _ in seen} == {8}
    assert seen[FOLDS_WITH_HEADS] == (8, 80)
    assert len(seen) == FOLDS_WITH_HEADS + 1 + IMAGE_FOLDS
    assert set(detector.provenance["estimate"]["classes"]) == set(detector.classes)


# The rule


@pytest.mark.parametrize("name", [candidate.name for candidate in CANDIDATES])
def test_a_rule_that_is_given_is_taken(known: ImageSet, name: str) -> None:
    detector = flatten(some(known, 20), rule=name)
    assert " + ".join(rule.rule for rule in detector.rules) == name
    estimate = detector.provenance["estimate"]
    assert (estimate["rule"], estimate["others"]) == (name, {})


def test_a_rule_that_does_not_exist_is_told_before_the_work(known: ImageSet) -> None:
    class Idle(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            assert len(images) <= 2, "images were embedded"
            return images.flatten(1)

    for name, hint in (("neighbors", "did you mean 'neighbours'"), ("x", "choose one of dist")):
        with pytest.raises(SettingsError, match=f"there is no rule '{name}'; {hint}"):
            oddone.fit(known, encoder=Idle(), rule=name)
    with pytest.raises(SettingsError, match="false_alarms=5: choose a share above 0"):
        oddone.fit(known, encoder=Idle(), false_alarms=5.0)


def test_a_network_with_a_trained_head_is_not_frozen() -> None:
    source, settings = tiny_source(), tiny_settings()
    trained = frozen_network(nn.Flatten(), 16, source.classes, "data")
    with_head = replace(trained, network=initial_network(source, settings).eval())
    with pytest.raises(SettingsError, match="head that was trained; .* with Detector.fit"):
        fit_frozen(with_head, source)


# Few images, few classes, many classes


def test_one_class_is_fitted_without_an_estimate(known: ImageSet) -> None:
    one = some(known, 60, 1)
    detector = flatten(one, false_alarms=0.2)
    assert "estimate" not in detector.provenance
    assert [rule.rule for rule in detector.rules] == ["distance"]
    assert detector.calibration is not None
    assert detector.classifier is None
    unlike = detector(some(known, 60).images[60:]).scores
    assert auroc(detector.calibration.scores, unlike) > 0.7
    with pytest.raises(SettingsError, match=ONE_CLASS_HAS_NO_ENERGY):
        flatten(one, rule="energy", false_alarms=0.2)


def test_two_classes_are_left_out_in_turn(known: ImageSet) -> None:
    detector = flatten(some(known, 60, 2))
    estimate = detector.provenance["estimate"]
    assert sorted(estimate["classes"]) == sorted(known.classes[:2])
    assert "energy" not in estimate["rule"]  # with one class left, there is none to measure
    assert estimate["images"] == 120


def test_the_energy_of_two_classes_is_fitted_without_an_estimate(known: ImageSet) -> None:
    detector = flatten(some(known, 60, 2), rule="energy")
    assert "estimate" not in detector.provenance
    assert detector.calibration is not None


def test_one_image_a_class_is_one_clear_error(known: ImageSet) -> None:
    with pytest.raises(
        DataError, match="each of the 8 classes has 1 image .* at least 2"
    ) as caught:
        flatten(some(known, 1))
    assert "\n" not in str(caught.value)


def test_a_class_without_images_is_named(known: ImageSet) -> None:
    with pytest.raises(DataError, match="class 'lynx' has no images; add some"):
        flatten(replace(known, classes=(*known.classes, "lynx")))


@pytest.mark.parametrize(("per_class", "classes"), [(2, 1), (2, 2)])
def test_too_few_images_to_hold_some_out_are_told(
    known: ImageSet, per_class: int, classes: int
) -> None:
    images = some(known, per_class, classes)
    if classes == 1:
        with pytest.raises(DataError, match="2 images are too few to hold some out"):
            flatten(images)
    else:
        with pytest.warns(DataWarning, match="held-out images cannot promise"):
            assert flatten(images).calibration is not None


@pytest.mark.parametrize(("per_class", "classes"), [(3, 1), (2, 3), (3, 2), (4, 8)])
def test_a_few_images_a_class_will_do(known: ImageSet, per_class: int, classes: int) -> None:
    with pytest.warns(DataWarning, match="held-out images"):
        detector = flatten(some(known, per_class, classes))
    assert detector(known.images[:9]).scores.isfinite().all()
    assert detector.threshold is not None


def test_a_class_of_one_image_is_kept_beside_larger_ones(known: ImageSet) -> None:
    uneven = some(known, 60, 3)
    kept = np.r_[0:60, 60:120, 120]
    uneven = replace(
        uneven,
        images=uneven.images[kept],
        labels=uneven.labels[kept],
        paths=[uneven.paths[image] for image in kept],
    )
    detector = flatten(uneven)
    assert detector.calibration is not None
    assert len(detector.calibration.scores) == 120  # the single one is not held out
    assert detector.references.labels.tolist().count(2) == 1
    assert detector(uneven.images).probabilities.shape == (121, 3)


def test_images_all_alike_are_one_clear_error(known: ImageSet) -> None:
    copies = replace(known, images=np.repeat(known.images[:1], len(known), axis=0))
    with (
        pytest.warns(DataWarning, match="472 of 480 images are copies of others in their class"),
        pytest.warns(DataWarning, match="1 of 1 pictures are in several classes"),
        pytest.raises(DataError, match="each of the 8 classes has 1 image .copies do not count"),
    ):
        flatten(copies)


def test_copies_of_images_change_nothing(detector: Detector, known: ImageSet) -> None:
    twice = replace(
        known,
        images=np.concatenate([known.images, known.images]),
        labels=np.concatenate([known.labels, known.labels]),
        paths=[*known.paths, *(f"{path} (1)" for path in known.paths)],
    )
    with pytest.warns(DataWarning, match="480 of 960 images are copies of others .*, such as .*1"):
        doubled = flatten(twice)
    assert doubled.threshold == detector.threshold
    assert doubled.references.paths == detector.references.paths
    assert doubled.provenance["estimate"] == detector.provenance["estimate"]


def test_500_classes_of_two_images_are_learned() -> None:
    source = noisy(500, 2)
    detector = oddone.fit(source, encoder=nn.Flatten())
    assert len(detector.provenance["estimate"]["classes"]) == 500
    assert detector.provenance["estimate"]["accuracy"] > 0.9
    assert (detector(source.images).labels == torch.from_numpy(source.labels)).all()
    unseen = detector(255 - source.images[:100]).scores
    assert auroc(detector(source.images).scores, unseen) > 0.9


def test_images_without_labels_are_refused(known: ImageSet) -> None:
    with pytest.raises(
        DataError, match="none of the 480 images has a label; sort them into one folder"
    ):
        flatten(replace(known, classes=(), labels=np.full(480, -1)))


# With weights that come from a package, and with photographs

with_weights = pytest.mark.skipif(
    not is_installed("efficientnet-lite0"), reason="needs oddone[pretrained]"
)


@with_weights
def test_a_fit_by_name_is_the_same_with_and_without_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tiny_source(images=30, size=32)
    monkeypatch.setenv("ODDONE_CACHE", str(tmp_path / "cache"))
    with pytest.warns(DataWarning, match="30 held-out images"):
        first, second = (
            oddone.fit(source, encoder="efficientnet-lite0", image_size=32) for _ in range(2)
        )
    assert len(list((tmp_path / "cache" / "features").iterdir())) == 1
    (tmp_path / "file").write_text("no folder, so nothing is kept")
    monkeypatch.setenv("ODDONE_CACHE", str(tmp_path / "file"))
    with pytest.warns(DataWarning, match="cannot be kept|30 held-out images"):
        third = oddone.fit(source, encoder="efficientnet-lite0", image_size=32)
    for other in (second, third):
        assert other.provenance["estimate"] == first.provenance["estimate"]
        assert torch.equal(other(source.images).scores, first(source.images).scores)
    first.save(tmp_path / "a.oddone")
    assert torch.equal(
        Detector.load(tmp_path / "a.oddone")(source.images).scores, first(source.images).scores
    )


@with_weights
@pytest.mark.skipif("ODDONE_DATA" not in os.environ, reason="ODDONE_DATA names no folder")
def test_photographs_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODDONE_CACHE", str(tmp_path / "cache"))
    photos = Path(os.environ["ODDONE_DATA"]) / "photos"
    detector = oddone.fit(f"folder:{photos / 'train'}", image_size=128)
    test = oddone.load(f"folder:{photos / 'test'}", size=128)
    unseen = oddone.load(f"folder:{photos / 'unseen'}", size=128)
    assert test.classes == detector.classes
    verdicts, unseen_scores = detector(test.images), detector(unseen.images).scores
    right = verdicts.labels == torch.from_numpy(test.labels)
    measured = auroc(verdicts.scores, unseen_scores)
    assert right.double().mean() >= 0.97
    assert measured >= 0.89
    # The unseen are close to the known; its own classes, left out, are not, and told apart better.
    assert detector.provenance["estimate"]["auroc"] > measured
