"""ODIN: a high temperature and a perturbed image (Liang, Li and Srikant, ICLR 2018)."""

import torch
from jaxtyping import Float
from torch import Tensor

from oddone.baselines.logits import classifier_of, msp_scores
from oddone.baselines.perturbation import check_magnitude, gradient_batch_size, perturb
from oddone.baselines.scorer import BaselineScorer
from oddone.detector import ViewEmbedder
from oddone.encoders import TrainedNetwork
from oddone.losses.simclr import check_temperature
from oddone.scoring import ImageBatch
from oddone.transforms import one_view
from oddone.verdicts import Verdicts


def odin(
    trained: TrainedNetwork, temperature: float = 1000.0, magnitude: float = 0.0014
) -> BaselineScorer:
    """Return the scorer by the softmax of f(x~) / T with x~ = x - magnitude * sign(-grad log S).

    S is the highest softmax probability of f(x) / T. The defaults are the original's for CIFAR-10;
    it tunes the magnitude on OOD images, which we must not. The label is that of the image itself.

    Parameters
    ----------
    trained
        A network that was trained with objective="cross-entropy".
    temperature
        What logits are divided by.
    magnitude
        How far every pixel is moved.

    Examples
    --------
    >>> from dataclasses import replace
    >>> import oddone
    >>> from oddone.baselines import odin
    >>> from oddone.presets import smoke
    >>> from oddone.scoring import score_images
    >>> detector = oddone.train("fashion:known", replace(smoke(), objective="cross-entropy"))
    >>> scorer = odin(detector.embedder.trained)
    >>> len(score_images(scorer, oddone.load("fashion:unseen#test")).scores)
    400

    """
    check_temperature(temperature)
    check_magnitude(magnitude)
    classifier = classifier_of(trained)
    embedder = ViewEmbedder(trained, one_view)

    def logits_of_rows(rows: Float[Tensor, "rows 3 height width"]) -> Tensor:
        logits: Tensor = classifier(trained.network(rows).features)
        return logits

    def surprise(rows: Float[Tensor, "rows 3 height width"]) -> Float[Tensor, " rows"]:
        return -(logits_of_rows(rows) / temperature).log_softmax(dim=1).amax(dim=1)

    @torch.no_grad()
    def score_batch(images: ImageBatch) -> Verdicts:
        rows = embedder.prepare(images)
        labels = logits_of_rows(rows).argmax(dim=1)
        logits = logits_of_rows(perturb(rows, surprise, magnitude)).cpu()
        return Verdicts(msp_scores(logits.double() / temperature), labels)

    return BaselineScorer(score_batch, trained.image_size, gradient_batch_size(embedder))
