"""The optimiser, and how its learning rate follows the length of a run."""

import math

import torch
from torch import nn

from oddone.training.settings import OptimiserSettings


def build_optimiser(network: nn.Module, settings: OptimiserSettings) -> torch.optim.SGD:
    """Return SGD on every parameter of the network."""
    return torch.optim.SGD(
        network.parameters(),
        lr=settings.learning_rate,
        momentum=settings.momentum,
        nesterov=settings.nesterov,
        weight_decay=settings.weight_decay,
        fused=True,  # one pass over the weights instead of one for every operation
    )


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
