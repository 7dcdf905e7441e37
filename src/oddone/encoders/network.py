"""A network: an encoder, mostly SimCLR's projection head, and perhaps classifiers."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import normalize

from oddone.encoders.by_name import build_encoder, feature_shape_of
from oddone.errors import SettingsError
from oddone.transforms import POSES, Rotations

TrainedPart = Literal["all", "last", "head"]
SMALLEST_IMAGE = 8  # pixels on a side


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """Which network is trained."""

    encoder_name: str = "resnet34"
    """One of `oddone.encoders.ENCODERS`, or `transformers:NAME_OR_FOLDER`."""
    image_size: int | None = None
    """Height and width of the images it sees; by default those of the data."""
    head_hidden: int = 2048
    """Width of the projection head between its two layers."""
    head_dim: int | None = 128
    """How many numbers the projection head makes of the features. None: there is no head, as for an
    encoder that is used as it is; only a network with a head can be trained."""
    centred: bool = False
    """Whether the head sees where features point from their mean, instead of the features. Heads
    that `oddone fit` trains do."""
    trained_part: TrainedPart = "all"
    """What is trained: everything, the last stage of the encoder and the head, or the head alone,
    for an encoder that has learned from other images. What is not trained stays as it is."""

    def __post_init__(self) -> None:
        if self.image_size is not None and self.image_size < SMALLEST_IMAGE:
            raise SettingsError(
                f"model.image_size={self.image_size}: choose at least {SMALLEST_IMAGE} pixels"
            )
        if self.head_hidden < 1 or (self.head_dim is not None and self.head_dim < 1):
            raise SettingsError(
                f"model.head_hidden={self.head_hidden}, model.head_dim={self.head_dim}: "
                f"both must be at least 1"
            )
        if self.trained_part not in get_args(TrainedPart):
            raise SettingsError(
                f"model.trained_part={self.trained_part!r}: choose one of "
                f"{', '.join(get_args(TrainedPart))}"
            )


class Encoded(NamedTuple):
    """What a network makes of images."""

    features: Float[Tensor, "rows feature_dim"]
    """The output of the encoder."""
    embeddings: Float[Tensor, "rows dim"]
    """The output of the head, of any length: the losses normalise it."""


class Centre(nn.Module):
    """The direction of features as seen from their mean: in place of a head, or before its layers.

    The features of an encoder that others have trained all point to one side. What tells images
    apart is where they point from the mean (docs/decisions/0012-rules-by-leaving-classes-out.md).
    """

    mean: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(dim))

    def forward(self, features: Float[Tensor, "rows dim"]) -> Float[Tensor, "rows dim"]:
        return normalize(normalize(features, dim=1) - self.mean, dim=1)


class Network(nn.Module):
    """An encoder with a projection head and, for losses with a cross-entropy, classifiers."""

    def __init__(
        self,
        encoder: nn.Module,
        head: nn.Sequential | Centre,
        feature_dim: int,
        classifier: nn.Linear | None = None,
        pose_classifier: nn.Linear | None = None,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head
        self.feature_dim = feature_dim
        """How many numbers the encoder makes of an image."""
        self.classifier = classifier
        self.pose_classifier = pose_classifier

    def forward(self, images: Float[Tensor, "rows 3 height width"]) -> Encoded:
        features: Tensor = self.encoder(images)
        return Encoded(features, self.head(features))

    def train(self, mode: bool = True) -> "Network":
        """Put the network into training mode, but for the parts whose weights are frozen.

        Their batch norm goes on with the statistics that it has.
        """
        super().train(mode)
        for module in self.encoder.modules():
            weights = list(module.parameters())
            if weights and not any(weight.requires_grad for weight in weights):
                module.eval()
        return self

    def freeze_all_but(self, part: TrainedPart) -> None:
        """Let only the weights of this part be trained; others that are frozen stay so."""
        if part == "all":
            return
        last = _last_stage(self.encoder) if part == "last" else []
        trained = {id(weight) for module in last for weight in module.parameters()}
        for weight in self.encoder.parameters():
            weight.requires_grad_(weight.requires_grad and id(weight) in trained)


@dataclass(frozen=True, eq=False)
class TrainedNetwork:
    """A network that is ready for use, in evaluation mode, and what it was made for.

    It was trained on images of these classes, or is used on them as it is.
    """

    network: Network
    model: ModelSettings
    rotations: Rotations
    """What rotations were to it in training: with "task" it can tell poses apart."""
    classes: tuple[str, ...]
    image_size: int
    data_fingerprint: str

    @property
    def embedding_dim(self) -> int:
        """How many numbers an embedding has; without a head, as many as there are features."""
        head_dim = self.model.head_dim
        return self.network.feature_dim if head_dim is None else head_dim

    @property
    def device(self) -> torch.device:
        """Where the weights are; a network without any works on the CPU."""
        return next(self.network.parameters(), torch.empty(0)).device

    def to(self, device: torch.device | str) -> "TrainedNetwork":
        """Return a copy on another device; on the same device, the network itself."""
        if self.device == torch.device(device):
            return self
        return replace(self, network=copy.deepcopy(self.network).to(device))


def build_network(
    encoder: str | nn.Module,
    model: ModelSettings,
    image_size: int,
    *,
    n_classes: int | None = None,
    predict_poses: bool = False,
    device: str = "cpu",
) -> Network:
    """Return a network on an encoder with a new head, or without one if `head_dim` is None.

    The encoder is named, or the user's own; then the network has a copy of it, and that module
    stays as it is. With `n_classes` the network has a classifier, with `predict_poses` one of poses
    too. New weights come from torch's global generator.
    """
    if isinstance(encoder, str):
        with torch.device(device):
            encoder = build_encoder(encoder, image_size)
    else:
        encoder = _copied(encoder)
    dim, dtype = feature_shape_of(encoder, image_size)
    with torch.device(device):
        return Network(
            encoder,
            _head(dim, model).to(dtype),
            dim,
            None if n_classes is None else nn.Linear(dim, n_classes),
            nn.Linear(dim, POSES) if predict_poses else None,
        )


def _head(feature_dim: int, model: ModelSettings) -> nn.Sequential | Centre:
    if model.head_dim is None:
        return Centre(feature_dim)
    layers = projection_head(feature_dim, model.head_hidden, model.head_dim)
    return nn.Sequential(Centre(feature_dim), *layers) if model.centred else layers


def _last_stage(encoder: nn.Module) -> Sequence[nn.Module]:
    """Return the modules after the last maps of another size, as the encoder names them."""
    last_stage: Sequence[nn.Module] | None = getattr(encoder, "last_stage", None)
    if last_stage is None:
        raise SettingsError(
            f"model.trained_part='last': the encoder {type(encoder).__name__} does not say what "
            f"its last stage is; choose 'all' or 'head', or give it a list last_stage of modules"
        )
    return last_stage


def _copied(encoder: nn.Module) -> nn.Module:
    """Return a copy of an encoder with weights, statistics and modes of its own."""
    try:
        return copy.deepcopy(encoder)
    except (RuntimeError, TypeError) as error:  # tensors with a history; locks and open files
        raise SettingsError(
            f"the encoder {type(encoder).__name__} cannot be copied ({error}); make one that "
            f"copy.deepcopy takes"
        ) from error


def projection_head(feature_dim: int, hidden: int, dim: int) -> nn.Sequential:
    """Return SimCLR's head: two linear layers with a ReLU between them and no batch norm."""
    for name, number in (("feature_dim", feature_dim), ("head_hidden", hidden), ("head_dim", dim)):
        if number < 1:
            raise SettingsError(f"{name}={number}: choose at least 1")
    return nn.Sequential(
        nn.Linear(feature_dim, hidden), nn.ReLU(inplace=True), nn.Linear(hidden, dim)
    )
