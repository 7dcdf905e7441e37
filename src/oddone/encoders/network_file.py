"""A trained network in one file: weights and JSON, nothing that could run."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import torch
from torch import Tensor, nn

from oddone import __version__
from oddone.data.class_names import class_name_faults
from oddone.encoders.by_name import LARGEST_IMAGE_SIZE, feature_shape_of
from oddone.encoders.network import Centre, ModelSettings, Network, TrainedNetwork, build_network
from oddone.encoders.transformers_encoder import (
    PREFIX,
    TransformersArchitecture,
    TransformersEncoder,
    build_transformers_encoder,
)
from oddone.errors import ArtifactError, SettingsError
from oddone.tensor_file import DIGEST, NOT_FINITE, TensorFile, write_tensors
from oddone.transforms import Rotations

KIND = "encoder"
FORMAT = 3
WITHOUT_DIGEST = 2
"""The format before, which this version reads too."""
LARGEST_LAYER = 2**30
"""The weights between two such layers are still as many as 64 bits can count."""
OWN_ENCODER = "own:"
"""How the name of an encoder begins that is a user's own and in no file, but for its weights."""


def own_name(encoder: nn.Module) -> str:
    """Return what a user's own encoder is called."""
    return f"{OWN_ENCODER}{type(encoder).__name__}"


def save_network(path: Path, trained: TrainedNetwork) -> None:
    """Write a network with its architecture, its classes and its image size."""
    header = {"kind": KIND, "format": FORMAT, "oddone": __version__, **network_header(trained)}
    write_tensors(path, trained.network.state_dict(), header)


def load_network(
    path: Path, *, encoder: nn.Module | None = None, sha256: str | None = None
) -> TrainedNetwork:
    """Return the network in a file that `save_network` wrote, on the CPU.

    One that was trained with an `encoder` of your own needs such an encoder again. With `sha256`, a
    file of another SHA-256 is refused.
    """
    file = TensorFile.read(path, sha256=sha256)
    kind, written = file.kind_and_format()
    if kind == "detector":
        raise ArtifactError(
            f"{path} is a detector, not an encoder; the network in it is "
            f"Detector.load(path).embedder.trained"
        )
    if kind != KIND or written not in {WITHOUT_DIGEST, FORMAT}:
        raise ArtifactError(f"{path} is not an encoder that this version of oddone can read")
    if written == FORMAT or DIGEST in file.header:
        file.check_digest()
    return rebuild_network(file, file.tensors, encoder=encoder)


@dataclass(frozen=True, kw_only=True)
class NetworkHeader:
    """What a file must say of a network, beside its weights."""

    model: ModelSettings
    rotations: Rotations
    classes: tuple[str, ...]
    # Images are resized to the size that a file names, so it must not be any number.
    image_size: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_IMAGE_SIZE)]
    data_fingerprint: str
    transformers: TransformersArchitecture | None = None
    """What the encoder is, if it is a model of transformers."""


def network_header(trained: TrainedNetwork) -> dict[str, Any]:
    """Return what `rebuild_network` reads of a file's header."""
    encoder = trained.network.encoder
    header = NetworkHeader(
        model=trained.model,
        rotations=trained.rotations,
        classes=trained.classes,
        image_size=trained.image_size,
        data_fingerprint=trained.data_fingerprint,
        transformers=encoder.architecture if isinstance(encoder, TransformersEncoder) else None,
    )
    return asdict(header)


def rebuild_network(
    file: TensorFile, weights: Mapping[str, Tensor], *, encoder: nn.Module | None = None
) -> TrainedNetwork:
    """Return the network that a file describes, on the CPU.

    It takes no memory until it is given the weights, and those must fit it. So no number in the
    file can ask for more memory than the file itself.
    """
    header = file.header_as(NetworkHeader)
    model = header.model
    if max(model.head_hidden, model.head_dim or 0) > LARGEST_LAYER:
        raise file.inconsistent(f"its head is too large ({model})")
    for fault in class_name_faults(header.classes):
        raise file.inconsistent(fault)
    try:
        network = build_network(
            _encoder_of(file, header, len(weights)) if encoder is None else encoder,
            model,
            header.image_size,
            n_classes=max(1, len(header.classes)) if "classifier.weight" in weights else None,
            predict_poses="pose_classifier.weight" in weights,
            device="meta",
        )
    except SettingsError as error:
        raise _not_rebuilt(file, error) from error
    _load_weights(file, network, weights, model, own=encoder is not None)
    if isinstance(network.encoder, TransformersEncoder):
        try:
            network.encoder.compute_buffers()
        except Exception as error:  # as in `_encoder_of`
            raise _not_rebuilt(file, error) from error
    network.to("cpu", memory_format=torch.channels_last)  # type: ignore[call-overload]
    return TrainedNetwork(
        network.eval(),
        model,
        header.rotations,
        header.classes,
        header.image_size,
        header.data_fingerprint,
    )


def _encoder_of(file: TensorFile, header: NetworkHeader, n_weights: int) -> str | nn.Module:
    """Return the name of the encoder in a file, or the encoder itself, without memory."""
    name, architecture = header.model.encoder_name, header.transformers
    if architecture is None:
        if name.startswith(PREFIX):  # and never let a file choose what is loaded from elsewhere
            raise file.inconsistent(f"it does not say what {name!r} is")
        if name.startswith(OWN_ENCODER):
            raise ArtifactError(
                f"{file.path} holds the weights of an encoder of your own, "
                f"{name.removeprefix(OWN_ENCODER)}; pass such a module as encoder="
            )
        return name
    try:
        with torch.device("meta"):
            encoder = build_transformers_encoder(architecture, most_weights=n_weights)
        feature_shape_of(encoder, header.image_size)
    except Exception as error:  # a configuration of somebody else may lead transformers to any
        raise _not_rebuilt(file, error) from error
    return encoder


def _not_rebuilt(file: TensorFile, error: Exception) -> ArtifactError:
    reason = str(error).partition("\n")[0] or type(error).__name__
    return ArtifactError(f"the network in {file.path} cannot be rebuilt: {reason}")


def mismatched_weights(expected: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> list[str]:
    """Return the names of weights that are missing, superfluous, or of another shape or dtype."""
    wanted, there = (
        {name: (tensor.dtype, tensor.shape) for name, tensor in tensors.items()}
        for tensors in (expected, weights)
    )
    return sorted(
        name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name)
    )


def impossible_numbers(network: nn.Module, weights: Mapping[str, Tensor]) -> Iterator[str]:
    """Yield what is wrong with numbers that no training leads to, for each tensor that has some."""
    masks = {
        name
        for place, module in network.named_modules()
        if not isinstance(module, Centre) and not hasattr(module, "running_var")
        for name, _ in module.named_buffers(place, recurse=False)
    }
    for name, tensor in weights.items():
        good = ~tensor.isnan() if name in masks else tensor.isfinite()  # a mask may be infinite
        if not good.all():
            yield f"{name} {NOT_FINITE}"
        elif name.endswith("running_var") and (tensor < 0).any():
            yield f"{name} has variances below 0"


def _load_weights(
    file: TensorFile,
    network: Network,
    weights: Mapping[str, Tensor],
    model: ModelSettings,
    *,
    own: bool,
) -> None:
    """Put the weights into a network that has none yet."""
    wrong = mismatched_weights(network.state_dict(), weights)
    if wrong:
        into, hint = (
            (f"your {type(network.encoder).__name__}", "; pass the encoder that was trained")
            if own
            else (f"the encoder {model.encoder_name!r}", "; one of your own is passed as encoder=")
        )
        raise ArtifactError(
            f"the weights in {file.path} do not fit {into} ({len(wrong)} differ, such as "
            f"{wrong[0]!r}){hint}"
        )
    for fault in impossible_numbers(network, weights):
        raise file.inconsistent(fault)
    network.load_state_dict(_tied_as_in(network, weights), assign=True)


def _tied_as_in(network: Network, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights, as one parameter where the network has one under several names."""
    old = network.state_dict(keep_vars=True)
    new = {
        parameter: nn.Parameter(weights[name], requires_grad=parameter.requires_grad)
        for name, parameter in old.items()
        if isinstance(parameter, nn.Parameter)
    }
    return {name: new.get(tensor, weights[name]) for name, tensor in old.items()}
