"""What gives labels: the network's own classifier, or a linear probe on its features."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits
from torch import Tensor

from oddone.detector.view_embedder import EmbeddedViews
from oddone.transforms import ViewSet

INVERSE_REGULARISATION = 30_000.0
"""What the mean loss of the rows weighs beside half the squared weights, for features of unit
length: scikit-learn's C is that of a sum. Were it the sum, logits would grow with the number of
rows, and the energies of a probe on four fifths of the images be those of another scale."""
STEPS = 200
TOLERANCE = 1e-4
"""The gradient at which the fit is done: scikit-learn's tol, for up to a hundred classes."""


@dataclass(frozen=True, eq=False)
class LinearProbe:
    """Weights from the features of a view to the logits of the classes, for each pose."""

    weight: Float[Tensor, "poses classes dim"]
    bias: Float[Tensor, "poses classes"]

    @staticmethod
    def fit(
        features: Float[Tensor, "views images dim"],
        views: ViewSet,
        labels: Int[Tensor, " images"],
        classes: int,
    ) -> "LinearProbe":
        """Return the logistic regressions of the labels on the features, one for each pose."""
        n_poses, poses = views.n_poses, torch.tensor(views.poses)
        if classes == 1:  # there is nothing to tell apart
            return LinearProbe(torch.zeros(n_poses, 1, features.shape[2]), torch.zeros(n_poses, 1))
        weights, biases = [], []
        for pose in range(n_poses):
            rows = features[poses == pose]
            fitted = _regression(rows.flatten(0, 1).numpy(), labels.repeat(len(rows)).numpy())
            weight, bias = fitted.coef_, fitted.intercept_
            if classes == 2:  # there is one logit, of the second class against the first
                weight = np.stack([-weight[0], weight[0]]) / 2
                bias = np.array([-bias[0], bias[0]]) / 2
            weights.append(torch.from_numpy(weight).float())
            biases.append(torch.from_numpy(bias).float())
        return LinearProbe(torch.stack(weights), torch.stack(biases))

    def to(self, device: torch.device | str) -> "LinearProbe":
        """Return this on another device."""
        return LinearProbe(self.weight.to(device), self.bias.to(device))

    def logits(
        self, features: Float[Tensor, "views images dim"], poses: Int[Tensor, " views"]
    ) -> Float[Tensor, "views images classes"]:
        """Return the logits of each view, by the classifier of its own pose."""
        logits = torch.einsum("vid,vcd->vic", features, self.weight[poses])
        return logits + self.bias[poses][:, None]


@dataclass(frozen=True)
class NetworkClassifier:
    """The classifier that was trained with the network. It has learned upright images only."""

    def to(self, _device: torch.device | str) -> "NetworkClassifier":
        """Return itself: its weights are the network's."""
        return self


def view_logits(
    classifier: LinearProbe | NetworkClassifier,
    embedded: EmbeddedViews,
    poses: Int[Tensor, " views"],
) -> Float[Tensor, "some images classes"]:
    """Return the logits of the views: of all, or of the upright ones where others say nothing."""
    if isinstance(classifier, LinearProbe):
        return classifier.logits(embedded.features, poses)
    assert embedded.logits is not None  # noqa: S101  (`Detector` and its file see to that)
    return embedded.logits[poses == 0]


def class_probabilities(
    logits: Float[Tensor, "views images classes"],
) -> Float[Tensor, "images classes"]:
    """Return how likely each class is: the views' probabilities multiplied, to their root."""
    return logits.log_softmax(dim=2).mean(dim=0).softmax(dim=1)


@contextmanager
def quiet_regressions() -> Iterator[None]:
    """Let scikit-learn use one thread, and warn of nothing.

    Both are settings of the whole process. Who fits probes in several threads sets them around all
    of these, or one thread may restore what another has set.
    """
    # The matrices are small; a second thread helps little, and beside a busy program waits long.
    with threadpool_limits(1), warnings.catch_warnings():
        # What the last steps would still change does not change a label.
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "The number of unique classes is greater than 50%")
        yield


def _regression(
    rows: Float[np.ndarray, "rows dim"], labels: Int[np.ndarray, " rows"]
) -> LogisticRegression:
    # The gradient of a class is a mean over all rows, so the more classes, the smaller it is: of
    # 500 classes in 1,280 dimensions it is below 1e-4 before the first step. (The cost of 500
    # classes of 2 images: 3 s of a core, and `oddone fit` fits 16 times.)
    tolerance = TOLERANCE * min(1.0, 100 / len(np.unique(labels)))
    inverse = INVERSE_REGULARISATION / len(rows)
    regression = LogisticRegression(C=inverse, max_iter=STEPS, tol=tolerance)
    with quiet_regressions():
        return regression.fit(rows, labels)
