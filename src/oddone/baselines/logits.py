"""The logits of a network that was trained with cross-entropy."""

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from oddone.detector import ViewEncoder
from oddone.detector.view_encoder import batches_of
from oddone.errors import SettingsError
from oddone.training import TrainedNetwork
from oddone.transforms import one_view


@torch.no_grad()
def logits_of(
    trained: TrainedNetwork, images: UInt8[np.ndarray, "images 3 height width"]
) -> Float[Tensor, "images classes"]:
    """Return the logits of the classifier for images of the network's size."""
    classifier = trained.network.classifier
    if classifier is None:
        raise SettingsError(
            f"a network trained with objective={trained.settings.objective!r} has no classifier; "
            f"train one with objective='cross-entropy'"
        )
    encoder = ViewEncoder(trained, one_view, "features")
    parts = [torch.empty(0, len(trained.classes))]
    for _, batch in batches_of(images, np.arange(len(images)), encoder.images_at_once):
        rows = encoder.prepared(batch).contiguous(memory_format=torch.channels_last)
        parts.append(classifier(trained.network(rows).features).cpu())
    return torch.cat(parts)
