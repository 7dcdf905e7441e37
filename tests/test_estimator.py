from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from oddone.errors import DataError, SettingsError
from oddone.estimator import OddOneClassifier
from runs import tiny_settings, tiny_source

pytestmark = pytest.mark.filterwarnings("ignore::oddone.errors.DataWarning")  # few are held out

NAMES = np.array(["red", "green", "blue"])


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    return tiny_source(images=60).images.transpose(0, 2, 3, 1)


@pytest.fixture(scope="module")
def names() -> np.ndarray:
    return NAMES[tiny_source(images=60).labels]


@pytest.fixture(scope="module")
def fitted(images: np.ndarray, names: np.ndarray) -> OddOneClassifier:
    settings = tiny_settings(steps=20, held_out=0.3)
    return OddOneClassifier(settings=settings, odd_label="none").fit(images, names)


def test_signs_are_those_of_scikit_learn(fitted: OddOneClassifier, images: np.ndarray) -> None:
    noise = np.random.default_rng(0).integers(0, 256, images.shape, dtype=np.uint8)
    together = np.concatenate([images, noise])
    verdicts = fitted.detector_(together.transpose(0, 3, 1, 2))
    np.testing.assert_array_equal(fitted.score_samples(together), -verdicts.scores.double().numpy())
    inside = fitted.decision_function(together)
    np.testing.assert_array_equal(inside < 0, verdicts.anomalous.numpy())
    np.testing.assert_allclose(inside, fitted.score_samples(together) - fitted.offset_)
    assert inside[: len(images)].mean() > inside[len(images) :].mean()


def test_predict_answers_in_the_words_of_y_and_odd_label(
    fitted: OddOneClassifier, images: np.ndarray, names: np.ndarray
) -> None:
    answers = fitted.predict(images)
    odd = fitted.decision_function(images) < 0
    assert set(answers[~odd]) <= set(NAMES)
    assert (answers[odd] == "none").all()
    plain = clone(fitted).set_params(odd_label=None)
    assert plain.get_params()["settings"] == fitted.settings
    assert not hasattr(plain, "detector_")
    assert fitted.score(images[~odd], names[~odd]) == np.mean(answers[~odd] == names[~odd])


def test_layouts_and_floats_make_no_difference(
    fitted: OddOneClassifier, images: np.ndarray
) -> None:
    expected = fitted.score_samples(images)
    for same in (images.transpose(0, 3, 1, 2), images / 255):
        np.testing.assert_allclose(fitted.score_samples(same), expected, rtol=1e-5)


def test_a_run_that_is_named_is_kept(tmp_path: Path, images: np.ndarray, names: np.ndarray) -> None:
    settings = tiny_settings(held_out=0.3)
    OddOneClassifier(settings=settings, run=tmp_path / "run").fit(images, names)
    assert (tmp_path / "run" / "encoder.safetensors").is_file()


def test_it_is_not_fitted_before_fit(images: np.ndarray) -> None:
    with pytest.raises(NotFittedError):
        OddOneClassifier().predict(images)


def test_what_cannot_be_learned_is_said(images: np.ndarray, names: np.ndarray) -> None:
    settings = tiny_settings(held_out=0.0)
    with pytest.raises(DataError, match="X has 60 images and y has shape"):
        OddOneClassifier(settings=settings).fit(images, names[:-1])
    with pytest.raises(DataError, match="y has 1 class only"):
        OddOneClassifier(settings=settings).fit(images, ["red"] * 60)
    with pytest.raises(DataError, match="images of X have shape"):
        OddOneClassifier(settings=settings).fit(images[0, 0], ["a", "b"] * 8)
    with pytest.raises(SettingsError, match="held_out=0 keeps none of 60 images aside"):
        OddOneClassifier(settings=settings).fit(images, names)
