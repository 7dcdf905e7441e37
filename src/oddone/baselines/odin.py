"""ODIN: a high temperature and a perturbed image (Liang, Li and Srikant, ICLR 2018)."""

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from oddone.baselines.judging import Judge, Judged, in_batches
from oddone.baselines.logits import check_temperature, classifier_of
from oddone.baselines.msp import msp_scores
from oddone.baselines.perturbation import check_magnitude, images_at_once, perturbed
from oddone.detector import ViewEmbedder
from oddone.training import TrainedNetwork
from oddone.transforms import one_view


def odin(trained: TrainedNetwork, temperature: float = 1000.0, magnitude: float = 0.0014) -> Judge:
    """Return the judge by the softmax of f(x~) / T, where x~ = x - magnitude * sign(-grad log S).

    S is the highest softmax probability of f(x) / T. The defaults are the original's for CIFAR-10;
    it tunes the magnitude on OOD images, which we must not. The label is that of the image itself.
    """
    check_temperature(temperature)
    check_magnitude(magnitude)
    classifier = classifier_of(trained)
    encoder = ViewEmbedder(trained, one_view, "features")

    def logits_of_rows(rows: Float[Tensor, "rows 3 height width"]) -> Tensor:
        logits: Tensor = classifier(trained.network(rows).features)
        return logits

    def surprise(rows: Float[Tensor, "rows 3 height width"]) -> Float[Tensor, " rows"]:
        return -(logits_of_rows(rows) / temperature).log_softmax(dim=1).amax(dim=1)

    @torch.no_grad()
    def judge_batch(images: UInt8[Tensor, "images 3 height width"]) -> Judged:
        rows = encoder.prepared(images)
        labels = logits_of_rows(rows).argmax(dim=1)
        logits = logits_of_rows(perturbed(rows, surprise, magnitude)).cpu()
        return Judged(msp_scores(logits.double() / temperature), labels)

    return in_batches(judge_batch, images_at_once(encoder))
