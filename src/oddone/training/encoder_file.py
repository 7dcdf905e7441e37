"""The finished encoder in one file: weights and JSON, nothing that could run."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from oddone import __version__
from oddone.data import ImageSet
from oddone.encoders import Encoder, build_encoder, projection_head
from oddone.errors import ArtifactError, SettingsError
from oddone.files import write_tensors
from oddone.tensor_file import TensorFile
from oddone.training.objective import Network
from oddone.training.settings import ModelSettings, TrainSettings
from oddone.training.settings_file import from_dict, to_dict

FORMAT = 1
LARGEST_IMAGE_SIZE = 4096
"""Pictures are resized to the size that a file names, so it must not be any number."""
LARGEST_LAYER = 2**30
"""The weights between two such layers are still as many as 64 bits can count."""


@dataclass(frozen=True, eq=False)
class TrainedNetwork:
    """A network out of training, in evaluation mode, with what it was trained on."""

    network: Network
    settings: TrainSettings
    classes: tuple[str, ...]
    image_size: int
    data_fingerprint: str


def save_network(path: Path, network: Network, settings: TrainSettings, source: ImageSet) -> None:
    """Write the network with its settings, its classes and its image size."""
    trained = TrainedNetwork(
        network, settings, source.classes, source.images.shape[-1], source.fingerprint
    )
    about = {"format": FORMAT, "oddone": __version__, **described(trained)}
    write_tensors(path, network.state_dict(), about)


def load_network(path: Path, *, body: nn.Module | None = None) -> TrainedNetwork:
    """Return the network in a file that `save_network` wrote.

    One that was trained with a `body` of your own needs such a body again.
    """
    file = TensorFile.read(path)
    if "kind" in file.header:
        raise ArtifactError(
            f"{path} is a {file.entry('kind', str)}, not an encoder; the encoder in it is "
            f"Detector.load(path).encoder.trained"
        )
    if "settings" not in file.header or file.entry("format", int) != FORMAT:
        raise ArtifactError(f"{path} is not an encoder that this version of oddone can read")
    return rebuilt(file, file.tensors, body=body)


def described(trained: TrainedNetwork) -> dict[str, Any]:
    """Return what a file must say of a network, beside its weights, for `rebuilt` to read."""
    return {
        "settings": to_dict(trained.settings),
        "classes": trained.classes,
        "image_size": trained.image_size,
        "data_fingerprint": trained.data_fingerprint,
    }


def rebuilt(
    file: TensorFile, weights: Mapping[str, Tensor], *, body: nn.Module | None = None
) -> TrainedNetwork:
    """Return the network that a file describes, on the CPU.

    It takes no memory until it is given the weights, and those must fit it. So no number in the
    file can ask for more memory than the file itself.
    """
    settings = _settings(file)
    classes = file.texts("classes")
    image_size = file.entry("image_size", int)
    if not 1 <= image_size <= LARGEST_IMAGE_SIZE:
        raise file.inconsistent(f"image_size={image_size} is not in 1..{LARGEST_IMAGE_SIZE}")
    encoder = _encoder(file, settings.model, image_size, body)
    with torch.device("meta"):
        network = Network(encoder, max(1, len(classes)), settings)
    wrong = misfits(network.state_dict(), weights)
    if wrong:
        into, hint = (
            (f"the encoder {settings.model.encoder!r}", "; with a body of your own, pass body=")
            if body is None
            else (f"the body {type(body).__name__}", "; pass the body that was trained")
        )
        raise ArtifactError(
            f"the weights in {file.path} do not fit {into} ({len(wrong)} differ, such as "
            f"{wrong[0]!r}){hint}"
        )
    network.load_state_dict(_tied_as_in(network, weights), assign=True)
    network.to("cpu", memory_format=torch.channels_last)  # type: ignore[call-overload]
    return TrainedNetwork(
        network.eval(), settings, classes, image_size, file.entry("data_fingerprint", str)
    )


def _settings(file: TensorFile) -> TrainSettings:
    tables = file.entry("settings", dict)
    try:
        settings = from_dict(tables, where="settings")
    except SettingsError as error:
        raise file.inconsistent(f"its settings are wrong ({error})") from error
    model = settings.model
    if max(model.head_hidden, model.head_dim) > LARGEST_LAYER:
        raise file.inconsistent(f"its settings are wrong ({model})")
    return settings


def _encoder(
    file: TensorFile, model: ModelSettings, image_size: int, body: nn.Module | None
) -> Encoder:
    """Return the encoder, without weights where the body is not the user's own."""
    try:
        with torch.device("meta") if body is None else nullcontext():
            encoder = build_encoder(
                model.encoder if body is None else body,
                image_size=image_size,
                head_hidden=1,
                head_dim=1,
            )
        with torch.device("meta"):
            head = projection_head(encoder.feature_dim, model.head_hidden, model.head_dim)
    except SettingsError as error:
        raise ArtifactError(f"the network in {file.path} cannot be rebuilt: {error}") from error
    encoder.head = head.to(dtype=next(encoder.head.parameters()).dtype)
    return encoder


def _tied_as_in(network: Network, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights, as one parameter where the network has one under several names."""
    old = network.state_dict(keep_vars=True)
    new = {
        parameter: nn.Parameter(weights[name], requires_grad=parameter.requires_grad)
        for name, parameter in old.items()
        if isinstance(parameter, nn.Parameter)
    }
    return {name: new.get(tensor, weights[name]) for name, tensor in old.items()}


def misfits(expected: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> list[str]:
    """Return the names of what the network expects and is not there as expected, or not at all."""
    wanted, there = (
        {name: (tensor.dtype, tensor.shape) for name, tensor in tensors.items()}
        for tensors in (expected, weights)
    )
    return sorted(
        name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name)
    )
