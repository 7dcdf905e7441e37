"""Self-Ensemble Inference: the distances of an image's views become one distance per class."""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor

from oddone.verdicts import Verdicts, exceeds

PerView = Float[Tensor, "views images classes"]
PerImage = Float[Tensor, "images classes"]
Fuse = Callable[[PerView], PerImage]


def average(distances: PerView) -> PerImage:
    """Return the mean over the views (Eq. 17).

    Parameters
    ----------
    distances
        How far each view of each image is from each class.

    Examples
    --------
    >>> import torch
    >>> distances = torch.tensor([[[1.0, 4.0]], [[3.0, 4.0]]])  # two views, one image, two classes
    >>> average(distances)
    tensor([[2., 4.]])

    """
    return distances.mean(dim=0)


def nearest(distances: PerView) -> PerImage:
    """Return the distance of the nearest view, the highest score of the paper's max (Eq. 18).

    Parameters
    ----------
    distances
        How far each view of each image is from each class.

    Examples
    --------
    >>> import torch
    >>> distances = torch.tensor([[[1.0, 4.0]], [[3.0, 4.0]]])  # two views, one image, two classes
    >>> nearest(distances)
    tensor([[1., 4.]])

    """
    return distances.amin(dim=0)


def harmonic(distances: PerView) -> PerImage:
    """Return the harmonic mean over the views, per class: one close view looks familiar.

    This is the weighted average of the authors' code; near views weigh more. A view at distance
    zero makes the mean zero.

    Parameters
    ----------
    distances
        How far each view of each image is from each class.

    Examples
    --------
    >>> import torch
    >>> distances = torch.tensor([[[1.0, 4.0]], [[3.0, 4.0]]])  # two views, one image, two classes
    >>> harmonic(distances)
    tensor([[1.5000, 4.0000]])

    """
    return len(distances) / distances.reciprocal().sum(dim=0)


def view_weighted(distances: PerView) -> PerImage:
    """Return the mean over the views, each weighted by its harmonic mean over classes (Eq. 19, 20).

    This is the weighted average as the paper prints it; far views weigh more. A view that touches
    a class (distance zero) has weight zero; where all views do, they weigh the same.

    Parameters
    ----------
    distances
        How far each view of each image is from each class.

    Examples
    --------
    >>> import torch
    >>> distances = torch.tensor([[[1.0, 4.0]], [[3.0, 4.0]]])  # two views, one image, two classes
    >>> view_weighted(distances)
    tensor([[2.3636, 4.0000]])

    """
    weights = 1 / distances.reciprocal().sum(dim=2, keepdim=True)
    weights = weights.where((weights > 0).any(dim=0), 1.0)
    return (weights * distances).sum(dim=0) / weights.sum(dim=0)


FUSIONS: dict[str, Fuse] = {
    fuse.__name__: fuse for fuse in (average, nearest, harmonic, view_weighted)
}


def decide(distances: PerImage, threshold: float | None = None) -> Verdicts:
    """Return how far the nearest class is, which class that is, and whether that is too far.

    The anomaly score is the distance itself. Without a threshold, nothing is decided about it.

    Parameters
    ----------
    distances
        How far each image is from each class.
    threshold
        The score above which an image is anomalous.

    Examples
    --------
    >>> import torch
    >>> decide(torch.tensor([[1.0, 4.0], [6.0, 5.0]]), threshold=2.0)[1]
    Verdict(score=5.0, label=1, anomalous=True, p_value=None, probabilities=None)

    """
    scores, labels = distances.min(dim=1)
    return Verdicts(scores, labels, None if threshold is None else exceeds(scores, threshold))
