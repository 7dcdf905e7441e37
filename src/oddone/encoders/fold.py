"""Batch norm made part of the convolution before it: the same features in less time."""

import copy
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

CHECKED_IMAGES = 2
LARGEST_DIFFERENCE = 1e-3
"""Of the largest feature. What is folded differs by rounding, a thousandth of this."""


def fold_batch_norm(network: nn.Module, image_size: int) -> nn.Module:
    """Return a copy for evaluation in which no batch norm directly follows a convolution.

    In evaluation mode batch norm multiplies and shifts each channel by fixed numbers. So can the
    convolution before it, at no cost. Only neighbours in an `nn.Sequential` are folded, because
    elsewhere a module's own code decides in which order they are used. Somebody's module may take
    even a Sequential's layers one by one; so the copy is tried on images of noise, and nothing is
    folded where it does not say the same.
    """
    unfolded = copy.deepcopy(network).eval()
    if not _neighbours(unfolded):
        return unfolded
    folded = copy.deepcopy(unfolded)
    for layers, place in _neighbours(folded):
        convolution, norm = (
            cast("nn.Conv2d", layers[place]),
            cast("nn.BatchNorm2d", layers[place + 1]),
        )
        layers[place] = fuse_conv_bn_eval(convolution, norm)
        layers[place + 1] = nn.Identity()
    return folded if _say_the_same(unfolded, folded, image_size) else unfolded


def _neighbours(network: nn.Module) -> list[tuple[nn.Sequential, int]]:
    """Return the places of convolutions that the batch norm behind them can be part of."""
    return [
        (layers, place)
        for layers in network.modules()
        if type(layers) is nn.Sequential
        for place, (layer, following) in enumerate(pairwise(layers))
        if _can_be_one(layer, following)
    ]


def _can_be_one(layer: nn.Module, following: nn.Module) -> bool:
    """Return whether these are a plain convolution and the batch norm of its output."""
    return (
        type(layer) is nn.Conv2d  # one that computes its weights first is of another type
        and type(following) is nn.BatchNorm2d
        and following.running_mean is not None  # else each batch has its own statistics
        and not any(
            hooks
            for module in (layer, following)
            for hooks in (module._forward_hooks, module._forward_pre_hooks)  # noqa: SLF001
        )
    )


@torch.no_grad()
def _say_the_same(one: nn.Module, other: nn.Module, image_size: int) -> bool:
    """Return whether two networks make the same of some images."""
    weight = next(one.parameters(), torch.empty(0))
    images = torch.rand(
        CHECKED_IMAGES, 3, image_size, image_size, generator=torch.Generator().manual_seed(0)
    ).to(weight)
    for ours, theirs in zip(_outputs(one(images)), _outputs(other(images)), strict=True):
        if not (ours - theirs).abs().max() <= LARGEST_DIFFERENCE * ours.abs().max():
            return False
    return True


def _outputs(given: Tensor | tuple[Tensor | None, ...]) -> list[Tensor]:
    several = given if isinstance(given, tuple) else (given,)
    return [output for output in several if isinstance(output, Tensor)]
