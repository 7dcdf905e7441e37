import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from detectors import FITTED, HELD_OUT, subset
from jaxtyping import Float64
from PIL import Image
from sklearn.covariance import OAS

from oddone.data import ImageSet
from oddone.data.decode import decode
from oddone.density import Shrinkage
from oddone.detector import Calibration, Detector, DetectorSettings, Space
from oddone.encoders import TrainedNetwork, frozen_network
from oddone.errors import DataError, DataWarning, SettingsError, SettingsWarning
from oddone.fusion import harmonic, nearest
from oddone.transforms import Rotations, ViewSet, one_view, rotations, rotations_and_mirrors
from runs import tiny_source

# The views of an image, as (is it mirrored, by how many quarters is it rotated).
VIEWS_OF = {
    one_view: [(False, 0)],
    rotations: [(False, pose) for pose in range(4)],
    rotations_and_mirrors: [(mirrored, pose) for mirrored in (False, True) for pose in range(4)],
}


def embed_slowly(
    trained: TrainedNetwork, image: np.ndarray, view: tuple[bool, int], space: Space
) -> np.ndarray:
    """Return the embedding of one view of one image."""
    mirrored, pose = view
    picture = image[:, :, ::-1] if mirrored else image
    row = torch.from_numpy(np.rot90(picture, pose, axes=(1, 2)).copy()).float()[None] / 255
    with torch.no_grad():
        features, heads = trained.network(row)
    embedding = (features if space == "features" else heads)[0].double().numpy()
    return embedding / np.linalg.norm(embedding)


def fit_slowly(
    detector: Detector, source: ImageSet, shrinkage: Shrinkage
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and covariance of every (pose, class), which is 0 to 3 times 0 to 2."""
    embedder = detector.embedder
    rows: dict[int, list[np.ndarray]] = {}
    for image, label in zip(source.images, source.labels, strict=True):
        for view in VIEWS_OF[embedder.views]:
            if view[0]:  # mirrored views are for new images only
                continue
            embedding = embed_slowly(embedder.trained, image, view, detector.space)
            rows.setdefault(view[1] * 3 + int(label), []).append(embedding)
    groups = [np.array(rows[group]) for group in sorted(rows)]
    covariances = [
        OAS().fit(group).covariance_ if shrinkage == "oas" else np.cov(group.T, bias=True)
        for group in groups
    ]
    return np.array([group.mean(axis=0) for group in groups]), np.array(covariances)


@pytest.mark.parametrize(
    ("views", "space", "shrinkage"),
    [
        (one_view, "head", "oas"),
        (rotations, "head", "oas"),
        (rotations_and_mirrors, "head", 0.0),
        (rotations_and_mirrors, "features", "oas"),
    ],
)
def test_fitting_takes_mean_and_covariance_of_the_views_of_each_pose_and_class(
    trained: TrainedNetwork,
    source: ImageSet,
    views: ViewSet,
    space: Space,
    shrinkage: Shrinkage,
) -> None:
    few = subset(source, np.arange(48))
    settings = DetectorSettings(views=views, space=space, shrinkage=shrinkage)
    detector = Detector.fit(trained, few, settings)
    means, covariances = fit_slowly(detector, few, shrinkage)
    np.testing.assert_allclose(detector.gaussians.mean, means, atol=1e-5)
    whitening = detector.gaussians.whitening.double().numpy()
    ours = np.linalg.inv(whitening.swapaxes(1, 2) @ whitening)
    np.testing.assert_allclose(ours, covariances, atol=1e-3 * np.abs(covariances).max())


def fused_slowly(detector: Detector, image: np.ndarray) -> Float64[np.ndarray, " classes"]:
    """Return the distance of an image to each class, view by view."""
    distances, gaussians = [], detector.gaussians
    for view in VIEWS_OF[detector.embedder.views]:
        embedding = embed_slowly(detector.embedder.trained, image, view, "head")
        of_pose = slice(view[1] * 3, view[1] * 3 + 3)
        mean = gaussians.mean[of_pose].double().numpy()
        whitening = gaussians.whitening[of_pose].double().numpy()
        centred = (embedding - mean)[:, :, None]
        distances.append(np.linalg.norm((whitening @ centred)[:, :, 0], axis=1))
    if detector.fuse is nearest:
        return np.min(distances, axis=0)
    return len(distances) / (1 / np.array(distances)).sum(axis=0)


def named_slowly(detector: Detector, image: np.ndarray) -> Float64[np.ndarray, " classes"]:
    """Return the product of what the views say of each class, one after the other."""
    assert detector.classifier is not None
    product = np.ones(3)
    for view in VIEWS_OF[detector.embedder.views]:
        features = embed_slowly(detector.embedder.trained, image, view, "features")
        logits = detector.classifier.weight[view[1]].numpy() @ features
        odds = np.exp(logits + detector.classifier.bias[view[1]].numpy())
        product *= odds / odds.sum()
    return product


@pytest.mark.parametrize("fuse", [harmonic, nearest])
@pytest.mark.parametrize("views", [one_view, rotations, rotations_and_mirrors])
def test_verdicts_are_those_made_by_hand(
    trained: TrainedNetwork,
    source: ImageSet,
    views: ViewSet,
    fuse: Callable[..., torch.Tensor],
) -> None:
    detector = Detector.fit(trained, source, DetectorSettings(views=views, fuse=fuse))
    verdicts = detector(source.images[:5])
    for image in range(5):
        distances = fused_slowly(detector, source.images[image])
        np.testing.assert_allclose(verdicts.scores[image], distances.min(), rtol=1e-3)
        assert verdicts.labels[image] == named_slowly(detector, source.images[image]).argmax()
    assert verdicts.anomalous is None
    assert verdicts.p_values is None
    assert detector.threshold is None


def test_the_nearest_class_gives_the_label_if_asked_for_as_in_the_paper(
    trained: TrainedNetwork, source: ImageSet
) -> None:
    detector = Detector.fit(trained, source, DetectorSettings(classifier="nearest"))
    verdicts = detector(source.images)
    for verdict, explanation in zip(verdicts, detector.explain(source.images), strict=True):
        distances = harmonic(explanation.distances[:, None])[0]
        assert verdict.label == distances.argmin()
        likelihoods = torch.exp(-(distances**2) / 2)
        assert verdict.probabilities is not None
        torch.testing.assert_close(verdict.probabilities, likelihoods / likelihoods.sum())


def test_the_classifier_changes_no_score(trained: TrainedNetwork, source: ImageSet) -> None:
    nearest, linear = (
        Detector.fit(trained, source, DetectorSettings(classifier=name))  # type: ignore[arg-type]
        for name in ("nearest", "linear")
    )
    assert torch.equal(nearest(source.images).scores, linear(source.images).scores)


def test_a_calibrated_detector_calls_anomalous_what_lies_beyond_its_threshold(
    detector: Detector, source: ImageSet
) -> None:
    assert detector.calibration is not None
    own = detector(source.images[HELD_OUT]).scores.double()
    torch.testing.assert_close(detector.calibration.scores, own.sort().values, rtol=1e-4, atol=0)
    assert detector.threshold == detector.calibration.threshold
    verdicts = detector(source.images)
    assert verdicts.anomalous is not None
    assert torch.equal(verdicts.anomalous, verdicts.scores > detector.calibration.threshold)
    anomalous = int(verdicts.anomalous[HELD_OUT].sum())
    assert abs(anomalous - 3) <= 1  # a tenth of 36, and rounding may move one across
    assert verdicts.p_values is not None
    assert torch.equal(verdicts.p_values, detector.calibration.p_values(verdicts.scores))


def test_a_detector_calibrated_per_class_decides_by_the_class_that_it_predicts(
    detector: Detector, source: ImageSet
) -> None:
    per_class = detector.calibrate(source, false_alarms=0.2, per_class=True, indices=HELD_OUT)
    plain = detector.calibrate(source, false_alarms=0.2, indices=HELD_OUT)
    assert plain.thresholds == (plain.threshold,) * 3
    assert per_class.threshold == plain.threshold
    verdicts, held_out = per_class(source.images), plain(source.images[HELD_OUT])
    for label, threshold in enumerate(per_class.thresholds):
        own, new = held_out.labels == label, verdicts.labels == label
        assert own.sum() >= 4
        alone = Calibration(held_out.scores[own].double().sort().values, 0.2)
        assert threshold == pytest.approx(alone.threshold, rel=1e-4)  # by batches of another size
        assert torch.equal(verdicts.anomalous[new], verdicts.scores[new] > threshold)
    assert torch.equal(verdicts.anomalous, verdicts.p_values <= 0.2)
    assert torch.equal(verdicts.scores, plain(source.images).scores)


def test_without_a_calibration_there_are_no_thresholds(detector: Detector) -> None:
    assert replace(detector, calibration=None).thresholds is None


def test_neither_batches_nor_their_order_matter(
    detector: Detector, source: ImageSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = source.images[:24]
    whole = detector(images)
    order = np.random.default_rng(0).permutation(24)
    torch.testing.assert_close(
        detector(images[order]).scores, whole.scores[order], rtol=1e-4, atol=0
    )
    pixels_of_an_image = 8 * 16 * 16
    for images_at_once in (1, 7):
        monkeypatch.setattr(
            "oddone.detector.view_embedder.PIXELS_AT_ONCE", images_at_once * pixels_of_an_image
        )
        assert detector.batch_size == images_at_once
        torch.testing.assert_close(detector(images).scores, whole.scores, rtol=1e-4, atol=0)


def test_fitting_in_parts_equals_fitting_at_once(
    trained: TrainedNetwork, source: ImageSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Detector.fit(trained, source)
    monkeypatch.setattr("oddone.detector.view_embedder.PIXELS_AT_ONCE", 5 * 8 * 16 * 16)
    monkeypatch.setattr("oddone.detector.fitting.IMAGES_PER_MOMENTS", 17)
    told: list[tuple[int, int, str]] = []
    parts = Detector.fit(trained, source, progress=lambda *news: told.append(news))
    torch.testing.assert_close(parts.gaussians.mean, whole.gaussians.mean, rtol=0, atol=1e-5)
    torch.testing.assert_close(
        parts(source.images).scores, whole(source.images).scores, rtol=1e-3, atol=0
    )
    assert told == [(done, 96, "fitting") for done in (17, 34, 51, 68, 85, 96)]
    assert parts.references.paths == whole.references.paths


def test_a_network_in_batches_too_large_for_memory_sees_one_image_at_a_time(
    detector: Detector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oddone.detector.view_embedder.PIXELS_AT_ONCE", 1)
    assert detector.batch_size == 1


def test_only_some_images_are_the_same_as_a_source_of_those(
    trained: TrainedNetwork, source: ImageSet
) -> None:
    some = np.array([5, 3, 40, 41, 42, 60, 61, 62, 7, 8, 9, 10])
    ours = Detector.fit(trained, source, indices=some)
    theirs = Detector.fit(trained, subset(source, some))
    assert torch.equal(ours.gaussians.mean, theirs.gaussians.mean)
    assert torch.equal(ours.gaussians.whitening, theirs.gaussians.whitening)
    assert ours.references.paths == theirs.references.paths
    assert ours.references.thumbnails == theirs.references.thumbnails
    assert torch.equal(ours.references.embeddings, theirs.references.embeddings)


@pytest.mark.usefixtures("as_shipped")
def test_numbers_of_images_that_are_not_there_are_refused(
    detector: Detector, source: ImageSet
) -> None:
    for numbers, message in (
        (np.array([3, 96]), "indices hold 96, and the 96 images are numbered from 0"),
        (np.array([-1]), "indices hold -1"),
        (source.labels == 0, "indices are bool; give the numbers"),
    ):
        with pytest.raises(SettingsError, match=message):
            Detector.fit(detector.embedder.trained, source, indices=numbers)
        with pytest.raises(SettingsError, match=message):
            detector.calibrate(source, indices=numbers)


@pytest.mark.usefixtures("as_shipped")
def test_what_is_no_image_is_named_by_its_place_and_kind(detector: Detector) -> None:
    tensors = [torch.zeros(3, 16, 16)] * 2
    with pytest.raises(SettingsError, match=r"image 0 is a Tensor; .* batch \(torch.stack"):
        detector(tensors)  # type: ignore[arg-type]
    for source in (torch.stack(tensors), [(tensors[0], 1)], iter(tensors)):
        with pytest.raises(SettingsError, match="image 0 is a (Tensor|tuple); give files, PIL im"):
            list(detector.score(source))  # type: ignore[arg-type]


def test_images_that_were_learned_are_not_taken_for_new_ones_without_a_warning(
    detector: Detector, source: ImageSet
) -> None:
    with pytest.warns(DataWarning, match="100% of these 9. images .* trained on.*take new ones$"):
        detector.standardise(source)
    with pytest.warns(DataWarning, match="100% of these 9. images .* trained on.*take new ones$"):
        detector.calibrate(source, false_alarms=0.2)


def test_some_images_that_were_learned_are_noticed_under_any_name(
    trained: TrainedNetwork, source: ImageSet
) -> None:
    detector, new = Detector.fit(trained, source, indices=FITTED), tiny_source(images=80, seed=9)
    assert detector.share_learned(subset(source, HELD_OUT)) == 0
    mixed = replace(
        new,
        images=np.concatenate([new.images, source.images[FITTED[:20]]]),
        labels=np.concatenate([new.labels, source.labels[FITTED[:20]]]),
        paths=[f"copy {number}" for number in range(100)],
        fingerprint="another",
    )
    assert detector.share_learned(mixed) == 0.2
    with pytest.warns(DataWarning, match="20% of these 100 images are some that the detector was"):
        detector.calibrate(mixed, false_alarms=0.2)


def test_what_is_remembered_belongs_together(
    trained: TrainedNetwork, source: ImageSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Embedding, label, path and thumbnail are those of one image, whatever the order."""
    monkeypatch.setattr("oddone.detector.detector.MOST_REFERENCES", 20)
    monkeypatch.setattr("oddone.detector.fitting.IMAGES_PER_MOMENTS", 13)
    twice = np.random.default_rng(0).permutation(np.repeat(FITTED, 2))
    references = Detector.fit(trained, source, indices=twice).references
    assert len(references) == 20
    assert references.labels.bincount().tolist() in ([7, 7, 6], [7, 6, 7], [6, 7, 7])
    for embedding, label, path in zip(
        references.embeddings, references.labels, references.paths, strict=True
    ):
        number = source.paths.index(path)
        assert label == source.labels[number]
        expected = embed_slowly(trained, source.images[number], (False, 0), "head")
        np.testing.assert_allclose(embedding, expected, atol=2e-3)


def test_bytes_floats_arrays_and_tensors_are_the_same_images(
    detector: Detector, source: ImageSet
) -> None:
    pixels = source.images[:9]
    expected = detector(pixels).scores
    locked = pixels.copy()
    locked.flags.writeable = False
    backwards = np.ascontiguousarray(pixels[:, :, :, ::-1])[:, :, :, ::-1]
    for images in (
        torch.from_numpy(pixels),
        torch.from_numpy(pixels) / 255,
        torch.from_numpy(pixels).double() / 255,
        (pixels / 255).astype(np.float32),
        locked,
        backwards,
    ):
        torch.testing.assert_close(detector(images).scores, expected, rtol=1e-5, atol=0)


@pytest.mark.usefixtures("as_shipped")
@pytest.mark.parametrize(
    ("images", "message"),
    [
        (torch.zeros(2, 3, 32, 32), r"shape \(2, 3, 32, 32\); this network takes \[images, 3, 16"),
        (torch.zeros(2, 1, 16, 16), r"shape \(2, 1, 16, 16\)"),
        (torch.zeros(3, 16, 16), r"shape \(3, 16, 16\)"),
        (np.zeros((9, 9, 9, 9)), r"shape \(9, 9, 9, 9\)"),
        (np.zeros(()), r"an image has shape \(\); pass \[height, width, 3\]"),
        (np.zeros((9, 9, 4)), r"an image has shape \(9, 9, 4\)"),
        (np.zeros((9, 0, 3)), r"an image is float64 of shape \(9, 0, 3\)"),
        (np.full((9, 9, 3), 2.0), "an image is float64 .*pass uint8, or floats from 0 to 1"),
        (torch.zeros(2, 3, 16, 16, dtype=torch.int64), "images are torch.int64; pass uint8"),
        (torch.zeros(2, 3, 16, 16, dtype=torch.bool), "images are torch.bool"),
        (np.zeros((2, 3, 16, 16), dtype=object), "images are object"),
        (np.zeros((2, 3, 16, 16), dtype=">f4"), "images are >f4"),
        (torch.full((2, 3, 16, 16), 255.0), "images range from 255 to 255; pass floats from 0"),
        (torch.full((2, 3, 16, 16), -0.5), "images range from -0.5 to -0.5"),
        (torch.full((2, 3, 16, 16), math.nan), "images range from nan to nan"),
    ],
)
def test_what_are_no_images_of_the_right_size_and_range_is_refused(
    detector: Detector, images: torch.Tensor | np.ndarray, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        detector(images)
    with pytest.raises(DataError, match=message):
        detector.explain(images)


def test_no_images_get_no_verdicts(detector: Detector, source: ImageSet) -> None:
    for nothing in (source.images[:0], []):
        verdicts = detector(nothing)
        assert len(verdicts) == len(verdicts.labels) == 0
        assert list(verdicts) == detector.explain(nothing) == []


@pytest.mark.parametrize("use", ["augmentation", "none"])
def test_poses_that_the_encoder_was_not_taught_are_warned_of(
    trained: TrainedNetwork, source: ImageSet, use: Rotations
) -> None:
    untaught = replace(trained, rotations=use)
    with pytest.warns(SettingsWarning, match=f"rotations='{use}'.* views=rotations will make"):
        Detector.fit(untaught, source, DetectorSettings(views=rotations))
    assert Detector.fit(untaught, source).embedder.views is one_view


def test_an_explanation_is_the_verdict_taken_apart(detector: Detector, source: ImageSet) -> None:
    images = source.images[[0, 1, 70]]
    verdicts = detector(images)
    explanations = detector.explain(images, neighbours=4)
    for image, explanation in enumerate(explanations):
        assert explanation.verdict[:4] == verdicts[image][:4]
        assert explanation.distances.shape == (8, 3)
        fused = detector.fuse(explanation.distances[:, None])
        torch.testing.assert_close(fused[0].min(), verdicts.scores[image])
        similarities = [neighbour.similarity for neighbour in explanation.neighbours]
        assert len(similarities) == 4
        assert similarities == sorted(similarities, reverse=True)
        for neighbour in explanation.neighbours:
            assert neighbour.label == source.labels[source.paths.index(neighbour.path)]
    for image in (0, 1):  # the detector was fitted on these
        nearest_one = explanations[image].neighbours[0]
        assert nearest_one.similarity > 0.999
        picture = source.images[image].transpose(1, 2, 0)
        assert np.abs(nearest_one.thumbnail - picture.astype(int)).mean() < 40


def test_a_detector_without_a_threshold_has_no_p_values(
    trained: TrainedNetwork, source: ImageSet
) -> None:
    verdict = Detector.fit(trained, source).explain(source.images[:1])[0].verdict
    assert (verdict.p_value, verdict.anomalous) == (None, None)


def test_images_of_other_classes_are_refused(trained: TrainedNetwork, source: ImageSet) -> None:
    swapped = replace(source, classes=("class 1", "class 0", "class 2"))
    with pytest.raises(
        DataError, match="images are class 1, class 0, class 2, and .* on class 0, class 1, class 2"
    ):
        Detector.fit(trained, swapped)
    many = replace(source, classes=tuple(map(str, range(12))))
    with pytest.raises(DataError, match="are 0, 1, 2, 3, 4 and 7 more"):
        Detector.fit(trained, many)
    with pytest.raises(DataError, match="are none, and the encoder"):
        Detector.fit(trained, replace(source, classes=(), labels=np.full(len(source), -1)))


def test_images_without_labels_or_without_company_are_refused(
    trained: TrainedNetwork, source: ImageSet
) -> None:
    half = replace(source, labels=np.where(source.labels == 1, -1, source.labels))
    with pytest.raises(DataError, match="32 of 96 images have no label of the 3 classes"):
        Detector.fit(trained, half)
    with pytest.raises(DataError, match="0 images are too few"):
        Detector.fit(trained, source, indices=np.arange(0))
    settings = DetectorSettings(views=rotations)
    with pytest.raises(DataError, match="group 'class 1' has 1 image and a Gaussian needs"):
        Detector.fit(trained, source, settings, indices=np.array([0, 3, 1, 2, 5]))
    with pytest.raises(DataError, match="0 were given"):
        Detector.fit(trained, source).calibrate(source, indices=np.arange(0))


def test_calibrating_tells_how_far_it_is(detector: Detector, source: ImageSet) -> None:
    told: list[tuple[int, int, str]] = []
    detector.calibrate(
        source, false_alarms=0.3, indices=HELD_OUT, progress=lambda *news: told.append(news)
    )
    assert told == [(36, 36, "calibrating")]


def test_a_detector_on_another_device_is_the_same(detector: Detector, source: ImageSet) -> None:
    moved = detector.to("cpu")
    assert torch.equal(moved(source.images).scores, detector(source.images).scores)
    assert moved.calibration is detector.calibration
    elsewhere = detector.to("meta")
    assert elsewhere.embedder.device.type == elsewhere.gaussians.mean.device.type == "meta"
    assert detector.embedder.device.type == "cpu"  # and works as before
    assert torch.equal(moved(source.images).scores, detector(source.images).scores)


def test_a_detector_is_fitted_on_what_a_source_names(
    trained: TrainedNetwork, source: ImageSet, tmp_path: Path
) -> None:
    path = tmp_path / "tiny.npz"
    np.savez(path, images=source.images, labels=source.labels, classes=source.classes)
    named, given = Detector.fit(trained, str(path)), Detector.fit(trained, source)
    assert torch.equal(named.gaussians.mean, given.gaussians.mean)


def test_one_image_of_any_kind_is_resized_and_scored(
    detector: Detector, source: ImageSet, tmp_path: Path
) -> None:
    pixels = source.images[7].transpose(1, 2, 0)
    picture, path = Image.fromarray(pixels), tmp_path / "seven.png"
    picture.save(path)
    expected = detector(source.images[7:8]).scores
    for image in (path, str(path), picture, pixels, pixels / 255, [path], [picture, pixels]):
        scores, count = detector(image).scores, len(image) if isinstance(image, list) else 1
        torch.testing.assert_close(scores, expected.expand(count), rtol=1e-5, atol=0)
    several = np.stack([pixels, pixels[::-1]])
    assert torch.equal(detector(several).scores, detector(list(several)).scores)


def test_an_image_of_another_size_is_resized_as_files_are(
    detector: Detector, tmp_path: Path
) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 25, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "large.png")
    resized = decode(tmp_path / "large.png", 16)
    for image in (tmp_path / "large.png", Image.fromarray(pixels), pixels):
        assert torch.equal(detector(image).scores, detector(resized[None]).scores)


def test_a_damaged_picture_is_named(detector: Detector, tmp_path: Path) -> None:
    Image.new("RGB", (20, 20)).save(tmp_path / "cut.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "cut.png").read_bytes()[:45])
    with pytest.raises(DataError, match="cut.png cannot be read as an image: truncated"):
        detector(tmp_path / "cut.png")
    with (
        Image.open(tmp_path / "cut.png") as picture,
        pytest.raises(DataError, match="a PIL image cannot be read: truncated; leave it out"),
    ):
        detector(picture)


def test_a_grey_image_and_a_transparent_one_are_images_too(detector: Detector) -> None:
    grey = np.arange(256, dtype=np.uint8).reshape(16, 16)
    as_colour = np.repeat(grey[:, :, None], 3, axis=2)
    clear = Image.new("RGBA", (20, 20), (0, 0, 0, 0))
    white = Image.new("RGB", (20, 20), "white")
    assert torch.equal(detector(grey).scores, detector(as_colour).scores)
    assert torch.equal(detector(clear).scores, detector(white).scores)


def test_files_that_are_no_images_are_named(detector: Detector, tmp_path: Path) -> None:
    (tmp_path / "text.jpg").write_text("no image")
    with pytest.raises(DataError, match="text.jpg cannot be read as an image: not an image of"):
        detector(tmp_path / "text.jpg")
    with pytest.raises(DataError, match="none.jpg cannot be read as an image: no such file"):
        detector(["none.jpg"])
    with pytest.raises(DataError, match=r"is a folder; score all .* detector.score\(folder\)"):
        detector(tmp_path)


@pytest.mark.usefixtures("as_shipped")
@pytest.mark.parametrize("choice", [{"space": "tail"}, {"classifier": "forest"}])
def test_a_choice_that_does_not_exist_is_refused(choice: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match="='(tail|forest)': choose '(head|linear)' or"):
        DetectorSettings(**choice)  # type: ignore[arg-type]


def test_of_large_images_one_view_is_in_work_at_a_time(
    detector: Detector, source: ImageSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = torch.from_numpy(source.images[:1])
    at_once = detector.embedder(images)
    seen: list[int] = []
    hook = detector.embedder.network.register_forward_pre_hook(
        lambda _, given: seen.append(len(given[0]))
    )
    monkeypatch.setattr("oddone.detector.view_embedder.PIXELS_AT_ONCE", 3 * 16**2)
    one_by_one = detector.embedder(images)
    hook.remove()
    assert seen == [3, 3, 2]
    for ours, theirs in zip(at_once[:2], one_by_one[:2], strict=True):  # there are no logits
        assert torch.allclose(ours, theirs, atol=1e-5)


def test_images_larger_than_any_are_refused_before_there_is_a_network() -> None:
    with pytest.raises(SettingsError, match="image_size=1025: choose 1 to 1024 pixels"):
        frozen_network(torch.nn.Flatten(), 1025, ("a", "b"), "x")
