"""The detector as scikit-learn sees it."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from oddone.data import ImageSet
from oddone.data.arrays import as_pixels, image_set
from oddone.detector import Detector, detector_of_run
from oddone.errors import DataError, SettingsError
from oddone.fusion import Verdicts
from oddone.presets import cpu
from oddone.training import RunDirectory, TrainSettings, train


class OddOneClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier of images that can say "none of them".

    X are images, uint8 or floats from 0 to 1: N x H x W, N x H x W x 3 or N x 3 x H x W. The signs
    are scikit-learn's, and so the opposite of oddone's scores: `score_samples` is higher for
    *normal* images, and `decision_function` is below zero for those that are anomalous.

    Parameters
    ----------
    settings
        How to train; by default the preset `cpu`, ten minutes.
    false_alarms
        The share of normal images that may be taken for anomalous.
    odd_label
        What `predict` answers for anomalous images; by default it names the nearest class.
    run
        The directory to train in, kept; by default one that is removed after training.

    Attributes
    ----------
    classes_
        The labels, as they were in y.
    detector_
        The `Detector`, to explain, save or calibrate.
    offset_
        `decision_function` is `score_samples` minus this.

    """

    def __init__(
        self,
        *,
        settings: TrainSettings | None = None,
        false_alarms: float = 0.05,
        odd_label: object = None,
        run: str | Path | None = None,
    ) -> None:
        self.settings = settings
        self.false_alarms = false_alarms
        self.odd_label = odd_label
        self.run = run

    def fit(self, X: Any, y: Any) -> "OddOneClassifier":  # noqa: N803  (scikit-learn's name)
        """Train on images and their labels, keep a share aside, and calibrate on that."""
        source = self._labelled(X, y)
        settings = cpu() if self.settings is None else self.settings
        if self.run is not None:
            self.detector_ = self._trained(source, settings, Path(self.run))
        else:
            with tempfile.TemporaryDirectory() as folder:
                self.detector_ = self._trained(source, settings, Path(folder) / "run")
        self.offset_ = -self.detector_.threshold
        return self

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the label of each image, or `odd_label` for those that are anomalous."""
        verdicts = self._verdicts(X)
        labels: np.ndarray = self.classes_[verdicts.labels.numpy()]
        if self.odd_label is None:
            return labels
        labels = labels.astype(np.result_type(labels, np.asarray(self.odd_label)))
        labels[verdicts.anomalous.numpy()] = self.odd_label
        return labels

    def score_samples(self, X: Any) -> Float64[np.ndarray, " images"]:  # noqa: N803
        """Return how normal each image is: the negative of its anomaly score."""
        return -self._verdicts(X).scores.double().numpy()

    def decision_function(self, X: Any) -> Float64[np.ndarray, " images"]:  # noqa: N803
        """Return how far on the normal side of the threshold each image is; below 0: anomalous."""
        return self.score_samples(X) - self.offset_

    def _labelled(self, X: Any, y: Any) -> ImageSet:  # noqa: N803
        pixels = as_pixels(np.asarray(X), "X")
        self.classes_, labels = np.unique(np.asarray(y), return_inverse=True)
        if labels.shape != (len(pixels),):
            raise DataError(
                f"X has {len(pixels)} images and y has shape {np.shape(y)}; give one label each"
            )
        if len(self.classes_) < 2:
            raise DataError(f"y has {len(self.classes_)} class only, and a classifier needs two")
        return image_set(pixels, labels, [str(name) for name in self.classes_], "X")

    def _trained(self, source: ImageSet, settings: TrainSettings, folder: Path) -> Detector:
        run = RunDirectory.create(folder, settings, {"data": {"source": "X"}})
        train(source, settings, run)
        detector = detector_of_run(run, source, false_alarms=self.false_alarms)
        if detector.calibration is None:
            raise SettingsError(
                f"held_out={settings.held_out:g} keeps none of {len(source)} images aside, and a "
                f"threshold needs some; raise settings.held_out"
            )
        return detector

    def _verdicts(self, X: Any) -> Verdicts:  # noqa: N803
        check_is_fitted(self)
        return self.detector_(as_pixels(np.asarray(X), "X"))
