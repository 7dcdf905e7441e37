"""The detector as scikit-learn sees it: a classifier, and an outlier detector on top of it."""

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, UInt8
from sklearn.base import BaseEstimator, ClassifierMixin, OutlierMixin, clone
from sklearn.utils import Tags, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from oddone.api import train
from oddone.data import ImageSet
from oddone.data.arrays import as_pixels, image_set
from oddone.detector import Detector
from oddone.errors import DataError, SettingsError
from oddone.presets import default
from oddone.training import TrainSettings, split_held_out

PerImage = Float64[np.ndarray, " images"]
PerClass = Float64[np.ndarray, "images classes"]


class _ClassifierVerdicts(NamedTuple):
    probabilities: PerClass
    scores: PerImage
    anomalous: Bool[np.ndarray, " images"]


class OddOneClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier of images that also knows how normal an image is.

    It follows scikit-learn's rules for classifiers: `decision_function` and `predict_proba` are
    about the classes, and `predict` answers with the likeliest class. How normal an image is, of
    whichever class, is `score_samples`: higher is more normal, the opposite sign of oddone's
    anomaly scores. `outlier_detector` turns that into 1 (normal) and -1 (anomalous).

    X are images of one size, uint8 from 0 to 255 or floats from 0 to 1, in one of four layouts:
    N x H x W (grey), N x H x W x 3, N x 3 x H x W, or flattened N x (H * W) where the images are
    grey and square, as in `sklearn.datasets.load_digits`. Flattened colour images are refused,
    as the order of their channels cannot be known.

    Parameters
    ----------
    settings : TrainSettings, optional
        How to train; by default what `oddone.train` chooses, ten minutes. In a search over
        many fits, choose `steps` or `epochs` instead of `minutes`: only those are repeatable.
    encoder : torch.nn.Module, optional
        A module of your own, from images to features, instead of the encoder that the settings
        name. A copy of it is trained.
    false_alarms : float
        The share of normal images that may be taken for anomalous, between 0 and 1.
    anomalous_label : optional
        What `predict` answers for anomalous images, a label of the type of y that is not in y. By
        default `predict` answers with the likeliest class for these, too.
    run : path, optional
        The directory to train in, which is kept; by default one that is removed after training.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels, as they were in y.
    detector_ : oddone.Detector
        What was trained: to explain, save or calibrate.
    n_features_in_ : int
        The number of values of an image, if `fit` got flattened images.
    feature_names_in_ : array of shape (n_features_in_,)
        The names of the columns, if `fit` got a data frame whose columns have names.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from oddone import OddOneClassifier
    >>> from oddone.presets import smoke
    >>> images, labels = load_digits(return_X_y=True)
    >>> images, known = images / 16, labels < 3
    >>> classifier = OddOneClassifier(settings=smoke(), false_alarms=0.1)
    >>> classifier.fit(images[known], labels[known]).classes_
    array([0, 1, 2])
    >>> classifier.predict(images[:3])
    array([0, 1, 2])
    >>> normality = classifier.score_samples(images)
    >>> bool(normality[known].mean() > normality[~known].mean())
    True

    """

    def __init__(
        self,
        *,
        settings: TrainSettings | None = None,
        encoder: nn.Module | None = None,
        false_alarms: float = 0.05,
        anomalous_label: object = None,
        run: str | Path | None = None,
    ) -> None:
        self.settings = settings
        self.encoder = encoder
        self.false_alarms = false_alarms
        self.anomalous_label = anomalous_label
        self.run = run

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn asks about an estimator before it uses it."""
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.positive_only = True
        tags.non_deterministic = self._settings.minutes is not None  # the clock decides
        return tags

    def fit(self, X: Any, y: Any) -> "OddOneClassifier":
        """Train on images and their labels, and return the fitted classifier.

        The share `settings.held_out` of every class is not trained on but used to find the score
        above which an image is anomalous.

        Parameters
        ----------
        X : array of images
            Of any layout that the class describes.
        y : array of shape (n_images,)
            The label of each image: integers or strings, of two classes or more.

        """
        self.__dict__.pop("n_features_in_", None)  # that of an earlier fit
        X, y = self._validated(X, y=y)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise DataError(f"y has {len(self.classes_)} class only, and a classifier needs two")
        self._check_anomalous_label()
        source = image_set(self._pixels(X), labels, [str(name) for name in self.classes_], "X")
        self._check_calibration(source)
        self.detector_ = self._trained(source)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the likeliest class of each image; `anomalous_label`, if set, for anomalous ones.

        Parameters
        ----------
        X : array of images
            Of any layout that the class describes, of the size of those in `fit`.

        """
        verdicts = self._verdicts(X)
        labels: np.ndarray = self.classes_[verdicts.probabilities.argmax(axis=1)]
        if self.anomalous_label is None:
            return labels
        self._check_anomalous_label()  # it may have been set after `fit`
        labels = labels.astype(np.result_type(labels, np.asarray(self.anomalous_label)))
        labels[verdicts.anomalous] = self.anomalous_label
        return labels

    def predict_proba(self, X: Any) -> PerClass:
        """Return how likely each class is, if the image is of one of them at all.

        Parameters
        ----------
        X : array of images
            Of any layout that the class describes, of the size of those in `fit`.

        """
        return self._verdicts(X).probabilities

    def decision_function(self, X: Any) -> PerClass | PerImage:
        """Return the log-probability of each class; of two classes, the log-odds of the second.

        Parameters
        ----------
        X : array of images
            Of any layout that the class describes, of the size of those in `fit`.

        """
        return _class_scores(self._verdicts(X).probabilities)

    def score_samples(self, X: Any) -> PerImage:
        """Return how normal each image is: the negative of its anomaly score.

        Parameters
        ----------
        X : array of images
            Of any layout that the class describes, of the size of those in `fit`.

        """
        return -self._verdicts(X).scores

    def outlier_detector(self) -> "OddOneOutlierDetector":
        """Return this fitted classifier as an outlier detector, without training again."""
        check_is_fitted(self)
        view = OddOneOutlierDetector(self)
        view.classifier_ = self
        return view

    @property
    def _settings(self) -> TrainSettings:
        if self.settings is not None:
            return self.settings
        return default(len(getattr(self, "classes_", ())))  # before `fit` there are none

    def _validated(self, X: Any, **how: Any) -> Any:
        """Return X, and y where it is given, as arrays that pass scikit-learn's own checks."""
        unflattened = np.asarray(X).ndim > 2  # such have no number of features to compare
        return validate_data(self, X, allow_nd=True, ensure_2d=not unflattened, **how)

    def _pixels(self, X: np.ndarray) -> UInt8[np.ndarray, "images 3 height width"]:
        if X.dtype.kind in "if" and (X < 0).any():
            raise DataError(
                "Negative values in data passed as X; give images as uint8 from 0 to 255 or as "
                "floats from 0 to 1"
            )
        if X.dtype.kind in "iu" and X.dtype != np.uint8 and (X <= 255).all():
            X = X.astype(np.uint8)  # bytes that were widened, as in a list
        return as_pixels(_unflattened(X) if X.ndim == 2 else X, "X")

    def _check_anomalous_label(self) -> None:
        label = self.anomalous_label
        if label is None:
            return
        if label in self.classes_.tolist():
            raise SettingsError(f"anomalous_label={label!r} is a class of y; choose another label")
        if isinstance(label, str) != isinstance(self.classes_[0], str):
            raise SettingsError(
                f"anomalous_label={label!r} is of type {type(label).__name__} and the labels in y "
                f"are of type {type(self.classes_[0]).__name__}; choose one of that type"
            )

    def _check_calibration(self, source: ImageSet) -> None:
        """Raise an error before the training for what the calibration would refuse after it."""
        if not 0 < self.false_alarms < 1:
            raise SettingsError(
                f"false_alarms={self.false_alarms:g}: choose a share above 0 and below 1"
            )
        if len(split_held_out(source, self._settings).held_out) == 0:
            raise SettingsError(
                f"held_out={self._settings.held_out:g} keeps none of {len(source)} images aside, "
                f"and a threshold needs some; raise settings.held_out or give more images"
            )

    def _trained(self, source: ImageSet) -> Detector:
        return train(
            source,
            self.settings,
            out=self.run,
            encoder=self.encoder,
            false_alarms=self.false_alarms,
        )

    def _verdicts(self, X: Any) -> _ClassifierVerdicts:
        """Return what the detector thinks of each image, as arrays of float64."""
        check_is_fitted(self)
        pixels = self._pixels(self._validated(X, reset=False))
        verdicts = self.detector_(pixels)
        probabilities = np.asarray(verdicts.probabilities, dtype=np.float64)
        anomalous = np.zeros(len(verdicts), dtype=bool)  # as none is without a threshold
        if verdicts.anomalous is not None:
            anomalous = verdicts.anomalous.numpy()
        return _ClassifierVerdicts(
            probabilities / probabilities.sum(axis=1, keepdims=True),
            verdicts.scores.double().numpy(),
            anomalous,
        )


class OddOneOutlierDetector(OutlierMixin, BaseEstimator):  # type: ignore[misc]
    """An outlier detector for images that learns from classes of normal images.

    It is a view of an `OddOneClassifier` that asks only whether an image is normal, by
    scikit-learn's rules for outlier detectors. Unlike most of these it needs y in `fit`: it
    learns what is normal by telling classes apart. `OddOneClassifier.outlier_detector` returns
    one that is fitted already.

    Parameters
    ----------
    classifier : OddOneClassifier, optional
        The classifier to fit; by default one with its own defaults.

    Attributes
    ----------
    classifier_ : OddOneClassifier
        The fitted classifier.
    offset_ : float
        The normality below which an image is anomalous; the classifier's `false_alarms` sets it.
    n_features_in_, feature_names_in_
        Those of the classifier.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from oddone import OddOneClassifier, OddOneOutlierDetector
    >>> from oddone.presets import smoke
    >>> images, labels = load_digits(return_X_y=True)
    >>> images, known = images / 16, labels < 3
    >>> detector = OddOneOutlierDetector(OddOneClassifier(settings=smoke(), false_alarms=0.1))
    >>> normal = detector.fit(images[known], labels[known]).predict(images) == 1
    >>> bool(normal[known].mean() > normal[~known].mean())
    True

    """

    def __init__(self, classifier: OddOneClassifier | None = None) -> None:
        self.classifier = classifier

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn asks about an estimator before it uses it."""
        tags, inner = super().__sklearn_tags__(), get_tags(self._unfitted())
        tags.input_tags = inner.input_tags
        tags.target_tags = inner.target_tags
        tags.non_deterministic = inner.non_deterministic
        return tags

    def fit(self, X: Any, y: Any) -> "OddOneOutlierDetector":
        """Train on normal images and the classes they are of, and return the fitted detector.

        Parameters
        ----------
        X : array of images
            Of any layout that `OddOneClassifier` describes.
        y : array of shape (n_images,)
            The class of each image: integers or strings, of two classes or more.

        """
        self.classifier_ = self._unfitted().fit(X, y)
        return self

    def fit_predict(self, X: Any, y: Any) -> np.ndarray:
        """Return for each image of X, after training on them, 1 if it is normal and else -1.

        Parameters
        ----------
        X : array of images
            Of any layout that `OddOneClassifier` describes.
        y : array of shape (n_images,)
            The class of each image: integers or strings, of two classes or more.

        """
        return self.fit(X, y).predict(X)

    def predict(self, X: Any) -> np.ndarray:
        """Return for each image 1 if it is normal and -1 if it is anomalous.

        Parameters
        ----------
        X : array of images
            Of any layout that `OddOneClassifier` describes, of the size of those in `fit`.

        """
        return np.where(self.decision_function(X) >= 0, 1, -1)

    def decision_function(self, X: Any) -> PerImage:
        """Return `score_samples` minus `offset_`: below zero, an image is anomalous.

        One whose score is no number is below zero, as nothing is known of it.

        Parameters
        ----------
        X : array of images
            Of any layout that `OddOneClassifier` describes, of the size of those in `fit`.

        """
        normality = self.score_samples(X)
        differences = np.full_like(normality, -math.inf)
        np.subtract(normality, self.offset_, out=differences, where=np.isfinite(normality))
        return differences

    def score_samples(self, X: Any) -> PerImage:
        """Return how normal each image is: the negative of its anomaly score.

        Parameters
        ----------
        X : array of images
            Of any layout that `OddOneClassifier` describes, of the size of those in `fit`.

        """
        check_is_fitted(self)
        return self.classifier_.score_samples(X)

    @property
    def offset_(self) -> float:
        threshold = self.classifier_.detector_.threshold
        return -math.inf if threshold is None else -threshold

    @property
    def n_features_in_(self) -> int:
        return int(self.classifier_.n_features_in_)

    @property
    def feature_names_in_(self) -> np.ndarray:
        return np.asarray(self.classifier_.feature_names_in_)

    def _unfitted(self) -> OddOneClassifier:
        unfitted: OddOneClassifier = (
            OddOneClassifier() if self.classifier is None else clone(self.classifier)
        )
        return unfitted


def _class_scores(probabilities: PerClass) -> PerClass | PerImage:
    """Return log-probabilities; of two classes, the log-odds of the second."""
    # What float32 has rounded to zero would become minus infinity.
    logs: PerClass = np.log(probabilities.clip(min=np.finfo(np.float32).tiny))
    return logs[:, 1] - logs[:, 0] if logs.shape[1] == 2 else logs


def _unflattened(X: np.ndarray) -> np.ndarray:
    """Return rows of pixels as grey, square images."""
    images, features = X.shape
    side = math.isqrt(features)
    if side**2 != features:
        raise DataError(
            f"X has {features} feature(s) a row, which make no square grey image; give images as "
            f"N x H x W (grey), N x H x W x 3 or N x 3 x H x W"
        )
    return X.reshape(images, side, side)
