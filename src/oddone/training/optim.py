"""The optimiser, and how its learning rate follows the length of a run."""

import math
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from oddone.encoders import Network
from oddone.training.muon import Muon
from oddone.training.settings import OptimiserSettings

SECOND_BETA = 0.999
"""The share of the squared gradients before that AdamW keeps."""
BIAS_SHARE = 64.0
"""Beside Muon, how much faster the biases of batch norm learn than all else that SGD trains: they
decide which activations are cut off, and have to come as far as filters do. It is the factor of
Keller Jordan, "94% on CIFAR-10 in 3.29 Seconds on a Single GPU" (2024)."""


def build_optimiser(network: Network, settings: OptimiserSettings) -> torch.optim.Optimizer:
    """Return an optimiser of all weights that are not frozen, in groups of one learning rate."""
    groups = _groups(network, settings)
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


def _groups(network: Network, settings: OptimiserSettings) -> list[dict[str, Any]]:
    """Return the weights that are trained, by which share of the learning rate is theirs."""
    in_encoder = {id(weight) for weight in network.encoder.parameters()}
    biases = {id(module.bias) for module in network.modules() if isinstance(module, _BatchNorm)}
    by_share: dict[float, list[nn.Parameter]] = {}
    for weight in network.parameters():
        if weight.requires_grad:
            share = settings.encoder_share if id(weight) in in_encoder else 1.0
            if settings.method == "muon" and id(weight) in biases:
                share *= BIAS_SHARE
            by_share.setdefault(share, []).append(weight)
    return [{"params": weights, "share": share} for share, weights in by_share.items()]


def set_learning_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate; each group has its share of it."""
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
