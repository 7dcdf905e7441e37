"""The weights that a run begins with: drawn by its seed, pretrained, or of another network."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from oddone.data import ImageSet
from oddone.encoders import (
    ModelSettings,
    Network,
    PoolNet,
    TrainedNetwork,
    build_network,
    is_pretrained,
    pretrained_encoder,
)
from oddone.encoders.network_file import mismatched_weights
from oddone.errors import DataError, SettingsError
from oddone.rng import drawing_from, stream
from oddone.training.batches import split_held_out
from oddone.training.settings import TrainSettings

PIXELS_TO_WHITEN = 2**19
"""Of how many pixels' neighbourhoods the first layer of a PoolNet is made."""


def initial_network(
    source: ImageSet,
    settings: TrainSettings,
    *,
    encoder: nn.Module | None = None,
    start: TrainedNetwork | None = None,
) -> Network:
    """Return a new network with weights that follow from the seed.

    A pretrained encoder has the weights that it comes with, and a copy of one of the user's
    own has its weights. With `start`, encoder and head have the weights of that network. The first
    layer of a new PoolNet whitens the images that are trained on.
    """
    name = settings.model.encoder_name
    if encoder is None and start is None and is_pretrained(name):
        encoder = pretrained_encoder(name)
    part = settings.model.trained_part
    if encoder is None and start is None and part != "all":
        raise SettingsError(
            f"model.trained_part={part!r} leaves the random weights of {name} as they are; choose "
            f"a pretrained encoder such as efficientnet-lite0, start from another run, or train all"
        )
    network = untrained_network(source, settings, encoder=encoder)
    if encoder is None and isinstance(network.encoder, PoolNet):
        network.encoder.whiten(_some_images(source, settings))
    if start is not None:
        _copy_weights(start, network, settings.model, source.images.shape[-1])
    return network


def untrained_network(
    source: ImageSet, settings: TrainSettings, *, encoder: nn.Module | None = None
) -> Network:
    """Return a new network with random weights that follow from the seed.

    To resume a run this is enough, as all weights are in its checkpoint.
    """
    with drawing_from(stream(settings.seed, "weights")):
        return build_network(
            settings.model.encoder_name if encoder is None else encoder,
            settings.model,
            source.images.shape[-1],
            n_classes=max(1, len(source.classes)) if settings.has_classifier else None,
            predict_poses=settings.predicts_poses,
        )


def _some_images(source: ImageSet, settings: TrainSettings) -> Float[Tensor, "some 3 height width"]:
    """Return some of the images that are trained on, as floats from 0 to 1."""
    training = split_held_out(source, settings).training
    enough = max(1, PIXELS_TO_WHITEN // source.images[0, 0].size)
    shuffled = torch.randperm(len(training), generator=stream(settings.seed, "whitening"))
    chosen = training[shuffled[:enough].numpy()]
    return torch.from_numpy(np.ascontiguousarray(source.images[np.sort(chosen)])).float().div_(255)


def _copy_weights(
    start: TrainedNetwork, network: Network, model: ModelSettings, image_size: int
) -> None:
    """Copy encoder and head of a trained network into one that has yet to learn."""
    if start.image_size != image_size:
        raise DataError(
            f"the network to start from was trained on images of {start.image_size} x "
            f"{start.image_size} pixels and these have {image_size} x {image_size}; set "
            f"model.image_size={start.image_size}"
        )
    for name in ("encoder", "head"):
        part, target = getattr(start.network, name), getattr(network, name)
        weights = {} if part is None else part.state_dict()
        different = mismatched_weights(target.state_dict(), weights)
        if different:
            raise SettingsError(
                f"the network to start from is {_describe(start.model)} and this run trains "
                f"{_describe(model)} ({len(different)} weights of the {name} differ, such as "
                f"{different[0]!r}); choose the same model.encoder_name (or encoder), "
                f"model.head_hidden and model.head_dim"
            )
        target.load_state_dict(weights)


def _describe(model: ModelSettings) -> str:
    if model.head_dim is None:
        return f"{model.encoder_name} without a head"
    return f"{model.encoder_name} with a head of {model.head_hidden} and {model.head_dim}"
