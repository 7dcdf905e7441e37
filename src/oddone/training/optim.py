"""The optimiser, and how its learning rate follows the length of a run."""

import math
from typing import Any

import torch

from oddone.encoders import Network
from oddone.training.muon import Muon
from oddone.training.settings import OptimiserSettings

SECOND_BETA = 0.999
"""The share of the squared gradients before that AdamW keeps."""


def build_optimiser(network: Network, settings: OptimiserSettings) -> torch.optim.Optimizer:
    """Return an optimiser of all weights that are not frozen; those of the encoder are a group."""
    encoder = {id(weight) for weight in network.encoder.parameters()}
    trained = [weight for weight in network.parameters() if weight.requires_grad]
    groups: list[dict[str, Any]] = [
        {
            "params": [weight for weight in trained if (id(weight) in encoder) == in_encoder],
            "share": settings.encoder_share if in_encoder else 1.0,
        }
        for in_encoder in (True, False)
    ]
    groups = [group for group in groups if group["params"]]
    if settings.method == "muon":
        return Muon(
            groups,
            lr=settings.learning_rate,
            momentum=settings.momentum,
            weight_decay=settings.weight_decay,
        )
    # Fused: one pass over the weights instead of one for every operation.
    if settings.method == "adamw":
        return torch.optim.AdamW(
            groups,
            lr=settings.learning_rate,
            betas=(settings.momentum, SECOND_BETA),
            weight_decay=settings.weight_decay,
            fused=True,
        )
    return torch.optim.SGD(
        groups,
        lr=settings.learning_rate,
        momentum=settings.momentum,
        nesterov=settings.nesterov,
        weight_decay=settings.weight_decay,
        fused=True,
    )


def set_learning_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate; the encoder has its share of it."""
    for group in optimiser.param_groups:
        group["lr"] = rate * group["share"]


def learning_rate(settings: OptimiserSettings, share: float) -> float:
    """Return the learning rate when this share of the run is done.

    It rises in a line during the warm-up, then falls by a cosine.
    """
    share, warm_up = min(share, 1.0), settings.warm_up
    if share < warm_up:
        return settings.learning_rate * share / warm_up
    falling = (1 + math.cos(math.pi * (share - warm_up) / (1 - warm_up))) / 2
    left = settings.final_share + (1 - settings.final_share) * falling
    return settings.learning_rate * left
