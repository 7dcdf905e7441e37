"""The finished encoder in one file: weights and JSON, nothing that could run."""

import json
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import nn

from oddone import __version__
from oddone.data import ImageSet
from oddone.encoders import build_encoder
from oddone.errors import DataError
from oddone.training.files import write_tensors
from oddone.training.objective import Network
from oddone.training.settings import Training
from oddone.training.settings_file import as_tables, from_tables

FORMAT = 1


@dataclass(frozen=True, eq=False)
class TrainedNetwork:
    """A network out of training, in evaluation mode, with what it was trained on."""

    network: Network
    settings: Training
    classes: tuple[str, ...]
    image_size: int
    data_fingerprint: str


def save_network(path: Path, network: Network, settings: Training, source: ImageSet) -> None:
    """Write the network with its settings, its classes and its image size."""
    about = {
        "format": FORMAT,
        "oddone": __version__,
        "settings": as_tables(settings),
        "classes": source.classes,
        "image_size": source.images.shape[-1],
        "data_fingerprint": source.fingerprint,
    }
    write_tensors(path, network.state_dict(), about)


def load_network(path: Path, *, body: nn.Module | None = None) -> TrainedNetwork:
    """Return the network in a file that `save_network` wrote.

    One that was trained with a `body` of your own needs such a body again.
    """
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, FileNotFoundError) as error:
        raise DataError(f"{path} is not a finished encoder: {error}") from error
    if json.loads(header.get("format", "0")) != FORMAT:
        raise DataError(f"{path} is not an encoder that this version of oddone can read")
    about = {name: json.loads(value) for name, value in header.items()}
    settings = from_tables(Training, about["settings"], where=str(path))
    encoder = build_encoder(
        settings.model.encoder if body is None else body,
        image_size=about["image_size"],
        head_hidden=settings.model.head_hidden,
        head_dim=settings.model.head_dim,
    )
    network = Network(encoder, max(1, len(about["classes"])), settings)
    network.load_state_dict(tensors)
    return TrainedNetwork(
        network.eval(),
        settings,
        tuple(about["classes"]),
        about["image_size"],
        about["data_fingerprint"],
    )
