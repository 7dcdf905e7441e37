"""Encoders by name: functions from an image size to a module that turns images into features."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from oddone.encoders.efficientnet_lite import (
    efficientnet_lite0,
    efficientnet_lite1,
    efficientnet_lite2,
)
from oddone.encoders.poolnet import PoolNet
from oddone.encoders.resnet import Stem, resnet10, resnet18, resnet34, resnet50
from oddone.encoders.transformers_encoder import PREFIX
from oddone.encoders.transformers_folder import load_transformers_encoder
from oddone.errors import SettingsError, did_you_mean

LARGEST_FOR_SMALL_STEM = 64
LARGEST_IMAGE_SIZE = 1024
"""A file says how large images are made, and must not choose any amount of memory by it."""


def stem_for(image_size: int) -> Stem:
    """Return the stem for images of so many pixels: "small" up to 64, "large" above."""
    return "small" if image_size <= LARGEST_FOR_SMALL_STEM else "large"


ENCODERS: dict[str, Callable[[int], nn.Module]] = {
    "resnet18": lambda image_size: resnet18(stem_for(image_size)),
    "resnet34": lambda image_size: resnet34(stem_for(image_size)),
    "resnet50": lambda image_size: resnet50(stem_for(image_size)),
    "resnet10-w32": lambda _image_size: resnet10(32),
    "resnet10-w16": lambda _image_size: resnet10(16),
    "poolnet": lambda _image_size: PoolNet(),
    "poolnet-wide": lambda _image_size: PoolNet((32, 128, 256)),
    "efficientnet-lite0": lambda _image_size: efficientnet_lite0(),
    "efficientnet-lite1": lambda _image_size: efficientnet_lite1(),
    "efficientnet-lite2": lambda _image_size: efficientnet_lite2(),
}
"""From an image size to an encoder. Its weights come from torch's global generator; some names have
others too, which `oddone.encoders.pretrained` reads."""


def build_encoder(name: str, image_size: int) -> nn.Module:
    """Return a new encoder of that name, made for images of that size.

    A model of transformers has the weights that it comes with, as its architecture is beside them.
    """
    if name.startswith(PREFIX):
        return load_transformers_encoder(name)
    if name not in ENCODERS:
        choices = (
            f"choose one of {', '.join(ENCODERS)}, {PREFIX}NAME_OR_FOLDER, or pass an nn.Module of "
            f"your own"
        )
        hint = did_you_mean(name, ENCODERS, otherwise=choices)
        raise SettingsError(f"there is no encoder {name!r}; {hint}")
    return ENCODERS[name](image_size)


class FeatureShape(NamedTuple):
    """What the features of an encoder are."""

    dim: int
    dtype: torch.dtype


def feature_shape_of(encoder: nn.Module, image_size: int) -> FeatureShape:
    """Return how many features an encoder makes of an image, by running it once on zeros.

    It must map [rows, 3, image_size, image_size] to [rows, features]. Its modes and statistics
    stay as they are.
    """
    if not 1 <= image_size <= LARGEST_IMAGE_SIZE:
        raise SettingsError(
            f"image_size={image_size}: choose 1 to {LARGEST_IMAGE_SIZE} pixels, to which images "
            f"are then resized"
        )
    features = _features_of_zeros(encoder, image_size)
    return FeatureShape(features.shape[1], features.dtype)


def _features_of_zeros(encoder: nn.Module, image_size: int) -> Tensor:
    """Return the features of two black images; the encoder's modes stay as they are."""
    like = next(encoder.parameters(), torch.empty(0))
    zeros = torch.zeros(2, 3, image_size, image_size, dtype=like.dtype, device=like.device)
    modes = {module: module.training for module in encoder.modules()}
    encoder.eval()
    try:
        with torch.no_grad():
            features = encoder(zeros)
    except (RuntimeError, ValueError) as error:  # what torch and transformers say of other sizes
        raise SettingsError(
            f"the encoder {type(encoder).__name__} does not take images of {image_size} x "
            f"{image_size} pixels: {str(error).partition(chr(10))[0]}"
        ) from error
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
            f"the encoder {type(encoder).__name__} turns images of shape {list(zeros.shape)} into "
            f"an output of {given}, but features must be [rows, dim], here [2, dim]; "
            f"pool and flatten what it returns"
        )
    return features
