"""Networks without training: an encoder that is used as it is."""

import torch
from torch import nn

from oddone.encoders.network import ModelSettings, TrainedNetwork, build_network
from oddone.encoders.network_file import own_name
from oddone.encoders.pretrained import pretrained_encoder
from oddone.errors import SettingsError


def frozen_network(
    encoder: str | nn.Module,
    image_size: int,
    classes: tuple[str, ...],
    data_fingerprint: str,
) -> TrainedNetwork:
    """Return a network whose features are those of an encoder, and which nothing changes any more.

    It has no projection head and knows nothing of rotations. The encoder is the name of a
    pretrained one, or a module of the user's own, from images to features. The network has a copy
    of that, on the same device; the module itself stays as it is.
    """
    if isinstance(encoder, str):
        name, encoder = encoder, pretrained_encoder(encoder)
    else:
        name = own_name(encoder)
        _check_dtype(encoder)
    model = ModelSettings(encoder_name=name, head_dim=None)
    network = build_network(encoder, model, image_size).eval().requires_grad_(requires_grad=False)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return TrainedNetwork(network, model, "none", classes, image_size, data_fingerprint)


def _check_dtype(encoder: nn.Module) -> None:
    for weight in encoder.parameters():
        if weight.dtype != torch.float32:
            raise SettingsError(
                f"the encoder {type(encoder).__name__} has weights in {weight.dtype} and images "
                f"are in torch.float32; pass it after encoder.float()"
            )
