"""Scores from the logits of a classifier: maximum softmax probability, and free energy.

The network must have been trained with cross-entropy.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from oddone.baselines.scorer import BaselineScorer
from oddone.detector import ViewEmbedder
from oddone.encoders import TrainedNetwork
from oddone.errors import SettingsError
from oddone.losses.simclr import check_temperature
from oddone.scoring import ImageBatch
from oddone.transforms import one_view
from oddone.verdicts import Verdicts

Logits = Float[Tensor, "images classes"]


def msp(trained: TrainedNetwork) -> BaselineScorer:
    """Return the scorer by maximum softmax probability (Hendrycks and Gimpel, ICLR 2017).

    Parameters
    ----------
    trained
        A network that was trained with objective="cross-entropy".

    Examples
    --------
    >>> from dataclasses import replace
    >>> import oddone
    >>> from oddone.baselines import msp
    >>> from oddone.presets import smoke
    >>> from oddone.scoring import score_images
    >>> detector = oddone.train("fashion:known", replace(smoke(), objective="cross-entropy"))
    >>> scorer = msp(detector.embedder.trained)
    >>> len(score_images(scorer, oddone.load("fashion:unseen#test")).scores)
    400

    """
    return logit_scorer(trained, msp_scores)


def msp_scores(logits: Logits) -> Float64[Tensor, " images"]:
    """Return minus the highest softmax probability: how little a classifier trusts its guess.

    In float64, because in float32 the probabilities of all sure guesses would be the same 1.

    Parameters
    ----------
    logits
        What the classifier makes of each image.

    Examples
    --------
    >>> import torch
    >>> msp_scores(torch.tensor([[0.0, 0.0], [0.0, 99.0]]))
    tensor([-0.5000, -1.0000], dtype=torch.float64)

    """
    return -logits.double().softmax(dim=1).amax(dim=1)


def energy(trained: TrainedNetwork, temperature: float = 1.0) -> BaselineScorer:
    """Return the scorer by free energy (Liu, Wang, Owens and Li, NeurIPS 2020).

    Parameters
    ----------
    trained
        A network that was trained with objective="cross-entropy".
    temperature
        What logits are divided by.

    Examples
    --------
    >>> from dataclasses import replace
    >>> import oddone
    >>> from oddone.baselines import energy
    >>> from oddone.presets import smoke
    >>> from oddone.scoring import score_images
    >>> detector = oddone.train("fashion:known", replace(smoke(), objective="cross-entropy"))
    >>> scorer = energy(detector.embedder.trained)
    >>> len(score_images(scorer, oddone.load("fashion:unseen#test")).scores)
    400

    """
    check_temperature(temperature)
    return logit_scorer(trained, lambda logits: energy_scores(logits, temperature))


def energy_scores(logits: Logits, temperature: float = 1.0) -> Float[Tensor, " images"]:
    """Return the free energy of a classifier's logits: low where some logit is large.

    Unlike a softmax it keeps how large the logits are, not only how they differ.

    Parameters
    ----------
    logits
        What the classifier makes of each image.
    temperature
        What logits are divided by.

    Examples
    --------
    >>> import torch
    >>> energy_scores(torch.tensor([[0.0, 0.0], [0.0, 99.0]]))
    tensor([ -0.6931, -99.0000])

    """
    check_temperature(temperature)
    return -temperature * (logits / temperature).logsumexp(dim=1)


def logit_scorer(
    trained: TrainedNetwork, scores_of: Callable[[Logits], Float[Tensor, " images"]]
) -> BaselineScorer:
    """Return the scorer by a function of the logits; the label is that of the highest logit."""
    classifier = classifier_of(trained)
    embedder = ViewEmbedder(trained, one_view)

    @torch.no_grad()
    def score_batch(images: ImageBatch) -> Verdicts:
        features = trained.network(embedder.prepare(images)).features
        logits = classifier(features).cpu()
        return Verdicts(
            scores_of(logits), logits.argmax(dim=1), probabilities=logits.softmax(dim=1)
        )

    return BaselineScorer(score_batch, trained.image_size, embedder.batch_size)


def classifier_of(trained: TrainedNetwork) -> nn.Linear:
    """Return the layer that turns features into logits."""
    classifier = trained.network.classifier
    if classifier is None:
        raise SettingsError(
            "this network has no classifier; train one with objective='cross-entropy'"
        )
    return classifier
