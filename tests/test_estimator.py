import doctest
import math
from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
import torch
from scipy.special import expit, softmax
from sklearn.base import clone, is_classifier, is_outlier_detector
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import check_estimator
from torch import nn

import oddone.estimator
from oddone import OddOneClassifier, OddOneOutlierDetector
from oddone.data.fashion import read_fashion
from oddone.errors import DataError, SettingsError
from oddone.presets import cpu
from oddone.training import BatchSettings, TrainSettings
from runs import tiny_settings, tiny_source

pytestmark = pytest.mark.filterwarnings("ignore::oddone.errors.DataWarning")  # few are held out

NAMES = np.array(["red", "green", "blue"])

# `check_estimator` feeds tables of random numbers. These checks need a fit on one, and a table is
# no image: it has 2, 3, 5 or 10 columns, which make no square, or values below 0 or above 1.
NO_IMAGE = "a table of random numbers is no image"
NO_IMAGES = [
    "check_classifier_data_not_an_array",
    "check_dict_unchanged",
    "check_dont_overwrite_parameters",
    "check_dtype_object",
    "check_estimators_dtypes",
    "check_estimators_fit_returns_self",
    "check_estimators_nan_inf",
    "check_estimators_overwrite_params",
    "check_estimators_pickle",
    "check_f_contiguous_array_estimator",
    "check_fit2d_1feature",
    "check_fit2d_predict1d",
    "check_fit_check_is_fitted",
    "check_fit_idempotent",
    "check_fit_score_takes_y",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
    "check_pipeline_consistency",
    "check_readonly_memmap_input",
]
NO_IMAGES_TO_CLASSIFY = [
    "check_classifiers_classes",
    "check_classifiers_train",
    "check_decision_proba_consistency",
    "check_supervised_y_2d",
]
WITHOUT_LABELS = dict.fromkeys(
    ["check_outliers_fit_predict", "check_outliers_train"],
    "it learns what is normal by telling classes apart, so `fit` needs y",
)
ROUNDING = dict.fromkeys(
    ["check_methods_sample_order_invariance", "check_methods_subset_invariance"],
    "float32 convolutions differ in the seventh digit between batches of different sizes",
)


class TableClassifier(OddOneClassifier):
    """The classifier for the tables of `check_estimator`: a column becomes stripes of an image."""

    def __sklearn_tags__(self):  # noqa: ANN204  (as in scikit-learn)
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = False
        return tags

    def _pixels(self, X: np.ndarray) -> np.ndarray:  # noqa: N803
        grey = 127 + 127 * np.sin(X)
        stripes = np.repeat(grey, -(-8 // X.shape[1]), axis=1)[:, None, None, :8]
        return np.broadcast_to(stripes, (len(X), 3, 8, 8)).astype(np.uint8)


def fast_settings(**changes: object) -> TrainSettings:
    """Return settings for a training of some tenths of a second."""
    settings = replace(tiny_settings(), held_out=0.3, checkpoint_seconds=60.0)
    return replace(settings, **changes)  # type: ignore[arg-type]


def fastest_settings() -> TrainSettings:
    """Return settings for checks that are not about images, of one view each."""
    batch = BatchSettings(images=12, poses_per_image=1)
    return fast_settings(steps=1, rotations="none", batch=batch)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # faster for images this small
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    return tiny_source(images=60).images.transpose(0, 2, 3, 1)


@pytest.fixture(scope="module")
def names() -> np.ndarray:
    return NAMES[tiny_source(images=60).labels]


@pytest.fixture(scope="module")
def with_noise(images: np.ndarray) -> np.ndarray:
    noise = np.random.default_rng(0).integers(0, 256, images.shape, dtype=np.uint8)
    return np.concatenate([images, noise])


@pytest.fixture(scope="module")
def fitted(images: np.ndarray, names: np.ndarray) -> OddOneClassifier:
    return OddOneClassifier(settings=fast_settings(steps=20)).fit(images, names)


@pytest.fixture(scope="module")
def fitted_on_two(images: np.ndarray, names: np.ndarray) -> OddOneClassifier:
    settings = fast_settings(steps=20)
    return OddOneClassifier(settings=settings).fit(images, names == "red")


def garments(*classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return forty images of each of some garments, flattened, and their names."""
    source = read_fashion("", "train")
    chosen = np.concatenate([np.flatnonzero(source.labels == label)[:40] for label in classes])
    names = np.array(source.classes)[source.labels[chosen]]
    return source.images[chosen, 0].reshape(len(chosen), -1), names


def test_predictions_are_the_likeliest_of_the_detectors_classes(
    fitted: OddOneClassifier, with_noise: np.ndarray
) -> None:
    verdicts = fitted.detector_(with_noise.transpose(0, 3, 1, 2))
    probabilities = fitted.predict_proba(with_noise)
    np.testing.assert_array_equal(fitted.predict(with_noise), fitted.classes_[verdicts.labels])
    np.testing.assert_array_equal(probabilities.argmax(axis=1), verdicts.labels)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-12)


def test_class_scores_of_three_classes_are_logits_of_the_probabilities(
    fitted: OddOneClassifier, with_noise: np.ndarray
) -> None:
    scores = fitted.decision_function(with_noise)
    assert scores.shape == (len(with_noise), 3)
    np.testing.assert_allclose(softmax(scores, axis=1), fitted.predict_proba(with_noise))


def test_class_scores_of_two_classes_are_the_log_odds_of_the_second(
    fitted_on_two: OddOneClassifier, with_noise: np.ndarray
) -> None:
    scores = fitted_on_two.decision_function(with_noise)
    assert scores.shape == (len(with_noise),)
    np.testing.assert_allclose(expit(scores), fitted_on_two.predict_proba(with_noise)[:, 1])
    np.testing.assert_array_equal(fitted_on_two.predict(with_noise), scores > 0)


def test_class_scores_of_certain_images_are_finite() -> None:
    certain = np.array([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])
    scores = oddone.estimator._class_scores(certain)
    assert np.isfinite(scores).all()
    np.testing.assert_array_equal(scores.argmax(axis=1), [0, 1])
    odds = oddone.estimator._class_scores(certain[:, :2] / certain[:, :2].sum(axis=1)[:, None])
    np.testing.assert_array_equal(odds, [-odds[1], odds[1]])


def test_samples_score_as_normal_as_their_anomaly_score_is_low(
    fitted: OddOneClassifier, with_noise: np.ndarray
) -> None:
    verdicts = fitted.detector_(with_noise.transpose(0, 3, 1, 2))
    normality = fitted.score_samples(with_noise)
    np.testing.assert_array_equal(normality, -verdicts.scores.double().numpy())
    assert normality[:60].mean() > normality[60:].mean()


def test_the_outlier_detector_agrees_with_the_detector_and_its_offset(
    fitted: OddOneClassifier, with_noise: np.ndarray
) -> None:
    anomalous = fitted.detector_(with_noise.transpose(0, 3, 1, 2)).anomalous.numpy()
    assert 0 < anomalous.sum() < len(anomalous)
    view = fitted.outlier_detector()
    answers = view.predict(with_noise)
    np.testing.assert_array_equal(answers, np.where(anomalous, -1, 1))
    assert answers.dtype.kind == "i"
    normality = view.score_samples(with_noise)
    np.testing.assert_array_equal(normality, fitted.score_samples(with_noise))
    np.testing.assert_allclose(view.decision_function(with_noise), normality - view.offset_)
    assert view.offset_ == -fitted.detector_.threshold


def test_an_outlier_detector_fits_a_clone_of_its_classifier(
    images: np.ndarray, names: np.ndarray
) -> None:
    classifier = OddOneClassifier(settings=fastest_settings(), false_alarms=0.2)
    detector = OddOneOutlierDetector(classifier)
    answers = detector.fit_predict(images, names)
    assert not hasattr(classifier, "classes_")
    np.testing.assert_array_equal(detector.classifier_.classes_, ["blue", "green", "red"])
    np.testing.assert_array_equal(answers, detector.predict(images))


def test_anomalous_images_get_the_anomalous_label(
    fitted: OddOneClassifier, with_noise: np.ndarray
) -> None:
    likeliest = fitted.predict(with_noise)
    anomalous = fitted.outlier_detector().predict(with_noise) == -1
    twin = copy(fitted).set_params(anomalous_label="none of them")
    expected = np.where(anomalous, "none of them", likeliest)
    np.testing.assert_array_equal(twin.predict(with_noise), expected)
    with pytest.raises(SettingsError, match="anomalous_label=-1 is of type int"):
        twin.set_params(anomalous_label=-1).predict(with_noise)


@pytest.mark.parametrize(
    ("labels", "anomalous_label"),
    [
        (np.array([2, 7], dtype=np.uint8), -1),
        (np.array(["b", "a"], dtype=object), "anomalous"),
        (np.array([1.0, 2.0]), None),
        (np.array([False, True]), None),
    ],
    ids=["small integers", "objects", "floats", "booleans"],
)
def test_classes_are_as_in_y_whatever_its_type(
    images: np.ndarray, labels: np.ndarray, anomalous_label: object
) -> None:
    y = np.resize(labels, len(images))
    classifier = OddOneClassifier(
        settings=fastest_settings(), false_alarms=0.4, anomalous_label=anomalous_label
    ).fit(images, y)
    np.testing.assert_array_equal(classifier.classes_, np.unique(labels))
    assert classifier.classes_.dtype == labels.dtype
    answers = classifier.predict(images)
    assert set(answers.tolist()) <= {*labels.tolist(), anomalous_label}
    assert (anomalous_label in answers.tolist()) == (anomalous_label is not None)


def test_layouts_and_number_types_make_no_difference(
    fitted: OddOneClassifier, images: np.ndarray
) -> None:
    expected = fitted.score_samples(images)
    for same in (
        images.transpose(0, 3, 1, 2),
        images / 255,
        images.astype(np.int64),
        images.tolist(),
    ):
        np.testing.assert_allclose(fitted.score_samples(same), expected, rtol=1e-5)
    grey = images[..., 0]
    expected = fitted.score_samples(grey)
    for same in (grey[..., None], grey.reshape(len(grey), -1)):
        np.testing.assert_allclose(fitted.score_samples(same), expected, rtol=1e-5)


def test_flattened_images_have_features_and_others_have_not(
    images: np.ndarray, names: np.ndarray
) -> None:
    grey = images[..., 0]
    rows = grey.reshape(len(grey), -1)
    table = pa.table({f"pixel {pixel}": rows[:, pixel] for pixel in range(256)})
    detector = OddOneOutlierDetector(OddOneClassifier(settings=fastest_settings()))
    detector.fit(table, names)
    assert detector.n_features_in_ == detector.classifier_.n_features_in_ == 256
    assert detector.feature_names_in_[-1] == "pixel 255"
    with pytest.raises(ValueError, match="feature names should match"):
        detector.predict(table.select(range(64)))
    classifier = detector.classifier_.fit(grey, names)
    assert not hasattr(classifier, "n_features_in_")
    assert not hasattr(classifier, "feature_names_in_")
    with pytest.raises(DataError, match=r"this network takes \[images, 3, 16, 16\]"):
        classifier.predict(grey[:, :8, :8])


def test_tags_say_what_the_estimators_take() -> None:
    for estimator in (OddOneClassifier(), OddOneOutlierDetector()):
        tags = get_tags(estimator)
        assert tags.input_tags.two_d_array
        assert tags.input_tags.three_d_array
        assert tags.input_tags.positive_only
        assert not tags.input_tags.sparse
        assert tags.target_tags.required
        assert tags.non_deterministic  # the default trains by the clock
    assert is_classifier(OddOneClassifier())
    assert is_outlier_detector(OddOneOutlierDetector())
    by_steps = OddOneClassifier(settings=replace(cpu(), minutes=None, steps=5))
    assert not get_tags(by_steps).non_deterministic
    assert not get_tags(OddOneOutlierDetector(by_steps)).non_deterministic


@pytest.mark.usefixtures("as_shipped")  # the checks set parameters of any type
@pytest.mark.parametrize("view", [False, True], ids=["classifier", "outlier detector"])
def test_scikit_learns_checks_pass_but_for_tables_that_are_no_images(view: bool) -> None:
    classifier = OddOneClassifier(settings=fastest_settings())
    estimator = OddOneOutlierDetector(classifier) if view else classifier
    no_images = NO_IMAGES if view else NO_IMAGES + NO_IMAGES_TO_CLASSIFY
    expected = dict.fromkeys(no_images, NO_IMAGE) | (WITHOUT_LABELS if view else {})
    results = check_estimator(estimator, expected_failed_checks=expected, on_skip=None)
    failed = {result["check_name"] for result in results if result["status"] == "xfail"}
    assert failed == set(expected)
    for result in results:
        if result["check_name"] in no_images:  # and that is what is said of them
            assert "image" in str(result["exception"]), result["check_name"]


@pytest.mark.usefixtures("as_shipped")  # the checks set parameters of any type
@pytest.mark.parametrize("view", [False, True], ids=["classifier", "outlier detector"])
def test_scikit_learns_checks_pass_when_its_tables_are_made_images(view: bool) -> None:
    classifier = TableClassifier(settings=fastest_settings())
    estimator = OddOneOutlierDetector(classifier) if view else classifier
    expected = ROUNDING | (WITHOUT_LABELS if view else {})
    results = check_estimator(estimator, expected_failed_checks=expected, on_skip=None)
    skipped = {result["check_name"] for result in results if result["status"] == "skipped"}
    # The one needs SCIPY_ARRAY_API, the other, after arrays, pandas.
    assert skipped <= {"check_array_api_input", "check_classifier_data_not_an_array"}


def test_a_search_finds_settings_by_accuracy_and_roc_auc() -> None:
    images, names = garments(0, 1, 5)
    search = GridSearchCV(
        OddOneClassifier(),
        {"settings": [fast_settings(steps=1), fast_settings(steps=5)]},
        scoring=["accuracy", "roc_auc_ovr"],
        refit="roc_auc_ovr",
        cv=2,
        error_score="raise",
    ).fit(images, names)
    assert (search.cv_results_["mean_test_accuracy"] > 0.6).all()
    assert (search.cv_results_["mean_test_roc_auc_ovr"] > 0.8).all()
    assert search.best_estimator_.settings.steps in {1, 5}
    np.testing.assert_array_equal(search.classes_, ["sandal", "t-shirt", "trouser"])


def test_two_classes_have_a_roc_auc_far_above_chance() -> None:
    images, names = garments(1, 5)
    classifier = OddOneClassifier(settings=fast_settings())
    areas = cross_val_score(
        classifier, images, names == "sandal", cv=2, scoring="roc_auc", error_score="raise"
    )
    assert (areas > 0.8).all()


def test_clones_have_the_parameters_but_not_the_training(fitted: OddOneClassifier) -> None:
    twin = clone(fitted)
    assert twin.get_params() == fitted.get_params()
    assert not hasattr(twin, "detector_")


def test_an_encoder_of_ones_own_is_trained_and_cloned(
    images: np.ndarray, names: np.ndarray
) -> None:
    encoder = nn.Sequential(nn.AvgPool2d(4), nn.Flatten())
    classifier = clone(OddOneClassifier(settings=fastest_settings(), encoder=encoder))
    assert classifier.fit(images, names).score(images, names) > 0.6
    features = classifier.detector_.embedder.trained.network.feature_dim
    assert features == encoder(torch.zeros(1, *images.shape[1:]).movedim(3, 1)).shape[1]


def test_a_run_that_is_named_is_kept(tmp_path: Path, images: np.ndarray, names: np.ndarray) -> None:
    OddOneClassifier(settings=fastest_settings(), run=tmp_path / "run").fit(images, names)
    assert (tmp_path / "run" / "encoder.safetensors").is_file()


def test_nothing_is_answered_before_fit(images: np.ndarray) -> None:
    classifier, detector = OddOneClassifier(), OddOneOutlierDetector()
    for method in ("predict", "predict_proba", "decision_function", "score_samples"):
        with pytest.raises(NotFittedError):
            getattr(classifier, method)(images)
    for method in ("predict", "decision_function", "score_samples"):
        with pytest.raises(NotFittedError):
            getattr(detector, method)(images)
    with pytest.raises(NotFittedError):
        classifier.outlier_detector()


def test_images_that_cannot_be_learned_are_named(images: np.ndarray, names: np.ndarray) -> None:
    classifier = OddOneClassifier(settings=fastest_settings())
    for wrong, message in (
        (images.reshape(60, -1), "X has 768 feature.* no square grey image"),
        (images / 100, "floats from 0 to 2"),
        (images.astype(np.int64) + 100, "images of X are int64"),
        (images - 1.0, "Negative values"),
        (np.where(images > 100, np.nan, 0.5), "contains NaN"),
        (images[:, :, :, :, None], "images of X have shape"),
        (images[:, :0], "images of X have shape"),
        (images[:-1], "inconsistent numbers of samples"),
    ):
        with pytest.raises(ValueError, match=message):
            classifier.fit(wrong, names)


def test_labels_that_cannot_be_learned_are_named(images: np.ndarray) -> None:
    classifier = OddOneClassifier(settings=fastest_settings())
    with pytest.raises(DataError, match="y has 1 class only"):
        classifier.fit(images, ["red"] * 60)
    with pytest.raises(ValueError, match="continuous"):
        classifier.fit(images, np.linspace(0, 1, 60))
    with pytest.raises(ValueError, match="requires y to be passed"):
        classifier.fit(images, None)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"settings": fast_settings(held_out=0.0)}, "held_out=0 keeps none of 60 images aside"),
        ({"false_alarms": 1.5}, "false_alarms=1.5: choose a share"),
        ({"anomalous_label": "red"}, "anomalous_label='red' is a class of y"),
        ({"anomalous_label": -1}, "anomalous_label=-1 is of type int and .* are of type str"),
    ],
)
def test_wrong_parameters_are_named_before_training(
    tmp_path: Path,
    images: np.ndarray,
    names: np.ndarray,
    parameters: dict[str, object],
    message: str,
) -> None:
    run = tmp_path / "run"
    classifier = OddOneClassifier(run=run, **{"settings": fastest_settings(), **parameters})
    with pytest.raises(SettingsError, match=message):
        classifier.fit(images, names)
    assert not run.exists()


def test_the_examples_of_the_docstrings_run() -> None:
    outcome = doctest.testmod(oddone.estimator)
    assert outcome.attempted > 10
    assert outcome.failed == 0


@pytest.mark.parametrize("threshold", [2.0, None])
def test_an_image_whose_score_is_no_number_is_anomalous(
    monkeypatch: pytest.MonkeyPatch, threshold: float | None
) -> None:
    scores = np.array([1.0, math.nan, math.inf, -math.inf])
    classifier = OddOneClassifier()
    classifier.detector_ = SimpleNamespace(threshold=threshold)
    monkeypatch.setattr(OddOneClassifier, "score_samples", lambda *_: -scores)
    view = classifier.outlier_detector()
    assert view.predict(np.zeros((4, 64))).tolist() == [1, -1, -1, -1]
    assert (view.decision_function(np.zeros((4, 64))) >= 0).tolist() == [True, False, False, False]
