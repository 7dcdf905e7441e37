"""Encoders by name, or the user's own: images to features to embeddings."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from oddone.encoders.head import Encoded, Encoder, projection_head
from oddone.encoders.resnet import (
    BasicBlock,
    Bottleneck,
    ResNet,
    Stem,
    resnet18,
    resnet34,
    resnet50,
)
from oddone.encoders.small import small_resnet
from oddone.errors import SettingsError, did_you_mean

__all__ = [
    "ENCODERS",
    "BasicBlock",
    "Bottleneck",
    "Encoded",
    "Encoder",
    "ResNet",
    "build_encoder",
    "projection_head",
    "resnet18",
    "resnet34",
    "resnet50",
    "small_resnet",
    "stem_for",
]

LARGEST_FOR_SMALL_STEM = 64


def stem_for(image_size: int) -> Stem:
    """Return the stem for images of so many pixels: "small" up to 64, "large" above."""
    return "small" if image_size <= LARGEST_FOR_SMALL_STEM else "large"


ENCODERS: dict[str, Callable[[int], nn.Module]] = {
    "resnet18": lambda image_size: resnet18(stem_for(image_size)),
    "resnet34": lambda image_size: resnet34(stem_for(image_size)),
    "resnet50": lambda image_size: resnet50(stem_for(image_size)),
    "resnet10-w32": lambda _image_size: small_resnet(32),
    "resnet10-w16": lambda _image_size: small_resnet(16),
}
"""Bodies by name, made for an image size. Weights are drawn from torch's global generator."""


def build_encoder(
    name_or_module: str | nn.Module, *, image_size: int, head_hidden: int, head_dim: int
) -> Encoder:
    """Return an encoder: the named body, or the user's own module, with SimCLR's head on top.

    A module of the user's must map [rows, 3, image_size, image_size] to [rows, features]. How
    many features it has is found by running it once on zeros, in eval mode.
    """
    if image_size < 1:
        raise SettingsError(f"image_size={image_size}: choose at least 1 pixel")
    body = _named(name_or_module, image_size) if isinstance(name_or_module, str) else name_or_module
    features = _features_of_zeros(body, image_size)
    head = projection_head(features.shape[1], head_hidden, head_dim)
    return Encoder(body, head.to(features))


def _named(name: str, image_size: int) -> nn.Module:
    if name not in ENCODERS:
        choices = f"choose one of {', '.join(ENCODERS)}, or pass an nn.Module of your own"
        hint = did_you_mean(name, ENCODERS, otherwise=choices)
        raise SettingsError(f"there is no encoder {name!r}; {hint}")
    return ENCODERS[name](image_size)


def _features_of_zeros(body: nn.Module, image_size: int) -> Tensor:
    """Return what the body makes of two black images; its modes and statistics stay as they are."""
    like = next(body.parameters(), torch.empty(0))
    zeros = torch.zeros(2, 3, image_size, image_size, dtype=like.dtype, device=like.device)
    modes = {module: module.training for module in body.modules()}
    body.eval()
    try:
        with torch.no_grad():
            features = body(zeros)
    finally:
        for module, training in modes.items():
            module.training = training
    if not isinstance(features, Tensor) or features.ndim != 2 or len(features) != 2:
        given = (
            f"shape {list(features.shape)}"
            if isinstance(features, Tensor)
            else f"type {type(features).__name__}"
        )
        raise SettingsError(
            f"the encoder {type(body).__name__} turns images of shape {list(zeros.shape)} into "
            f"an output of {given}, but features must be [rows, dim], here [2, dim]; "
            f"pool and flatten what it returns"
        )
    return features
