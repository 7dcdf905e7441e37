"""The logits of a network that was trained with cross-entropy, and judges that need no more."""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from oddone.baselines.judging import Judge, Judged
from oddone.detector import ViewEmbedder
from oddone.detector.view_embedder import batches_of
from oddone.errors import SettingsError
from oddone.training import TrainedNetwork
from oddone.transforms import one_view


def classifier_of(trained: TrainedNetwork) -> nn.Linear:
    """Return the layer that turns features into logits."""
    classifier = trained.network.classifier
    if classifier is None:
        raise SettingsError(
            f"a network trained with objective={trained.settings.objective!r} has no classifier; "
            f"train one with objective='cross-entropy'"
        )
    return classifier


@torch.no_grad()
def logits_of(
    trained: TrainedNetwork, images: UInt8[np.ndarray, "images 3 height width"]
) -> Float[Tensor, "images classes"]:
    """Return the logits of the classifier for images of the network's size."""
    classifier = classifier_of(trained)
    encoder = ViewEmbedder(trained, one_view, "features")
    parts = [torch.empty(0, len(trained.classes))]
    for _, batch in batches_of(images, np.arange(len(images)), encoder.images_at_once):
        rows = encoder.prepared(batch)
        parts.append(classifier(trained.network(rows).features).cpu())
    return torch.cat(parts)


def by_logits(
    trained: TrainedNetwork,
    scores_of: Callable[[Float[Tensor, "images classes"]], Float[Tensor, " images"]],
) -> Judge:
    """Return the judge that scores an image by its logits; the label is the highest one's."""
    classifier_of(trained)  # which must be there before the first image is

    def judge(images: UInt8[np.ndarray, "images 3 height width"]) -> Judged:
        logits = logits_of(trained, images)
        return Judged(scores_of(logits), logits.argmax(dim=1))

    return judge


def check_temperature(temperature: float) -> None:
    """Raise a SettingsError unless logits can be divided by this temperature."""
    if not 0 < temperature < float("inf"):
        raise SettingsError(f"temperature={temperature:g}: choose it above 0, such as 1")
