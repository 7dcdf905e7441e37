"""Vision models of Hugging Face transformers as encoders: DINOv2, ConvNeXt, ViT and others.

A `TransformersArchitecture` is all that is needed to build such an encoder again, without the hub
and without the folder that it came from. It may come from a file of somebody else. So of its
configuration transformers sees only what shapes the network of one known model of images: nothing
that names code, a kernel, or another model to load.

The package transformers takes seconds to import. It is imported when it is needed.
"""

import inspect
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated, Any, Literal

import msgspec
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from oddone.errors import SettingsError
from oddone.rng import drawing_from, stream

PREFIX = "transformers:"
"""How the names of these encoders begin."""
LARGEST_CONFIGURATION = 2**20
"""What all whole numbers of a configuration may add up to: layers, widths, sizes."""
LARGEST_BUFFERS = 2**22
"""How many numbers a model may compute for itself beside its weights."""

FeatureSource = Literal["pooler", "first token", "mean"]
"""Which output of the model is the features: what it pools itself, its class token, or the mean
over all tokens or pixels."""
Channel = Annotated[float, msgspec.Meta(ge=-1e6, le=1e6)]


@dataclass(frozen=True, kw_only=True)
class TransformersArchitecture:
    """What an encoder is beside its weights."""

    config: dict[str, Any]
    """The model's configuration, with its `model_type`."""
    features: FeatureSource
    mean: tuple[Channel, Channel, Channel]
    """What is subtracted from red, green and blue, which go from 0 to 1."""
    std: tuple[Channel, Channel, Channel]
    """What they are divided by then."""
    image_size: int
    """Height and width that the model was made for."""

    def __post_init__(self) -> None:
        if min(map(abs, self.std)) == 0:
            raise SettingsError(f"std={self.std}: choose numbers other than 0")


class TransformersEncoder(nn.Module):
    """A model of transformers, from images between 0 and 1 to features."""

    def __init__(self, architecture: TransformersArchitecture, model: nn.Module) -> None:
        super().__init__()
        self.architecture = architecture
        self.model = model
        if architecture.features != "pooler" and isinstance(
            getattr(model, "pooler", None), nn.Module
        ):
            model.pooler = None  # type: ignore[assignment]  # its weights are random
        self.takes_any_size = (
            "interpolate_pos_encoding" in inspect.signature(model.forward).parameters
        )

    def forward(
        self, images: Float[Tensor, "rows 3 height width"]
    ) -> Float[Tensor, "rows feature_dim"]:
        self._check_size(images.shape[-1])
        mean, std = (
            images.new_tensor(numbers)[:, None, None]
            for numbers in (self.architecture.mean, self.architecture.std)
        )
        options = {"interpolate_pos_encoding": True} if self.takes_any_size else {}
        output = self.model(pixel_values=(images - mean) / std, **options)
        if self.architecture.features == "pooler":
            return output.pooler_output.flatten(1)  # type: ignore[no-any-return]
        hidden: Tensor = output.last_hidden_state
        if self.architecture.features == "first token":
            return hidden[:, 0]
        return hidden.mean(dim=1) if hidden.ndim == 3 else hidden.mean(dim=(2, 3))

    def _check_size(self, image_size: int) -> None:
        """Refuse images that are no whole number of patches: the model would cut off the rest."""
        patch = self.architecture.config.get("patch_size")
        if isinstance(patch, int) and image_size % patch:
            smaller = max(1, image_size // patch) * patch
            raise SettingsError(
                f"it sees patches of {patch} x {patch}; choose a multiple of {patch}, such as "
                f"{smaller} or {smaller + patch}"
            )

    def compute_buffers(self) -> None:
        """Compute what a model knows beside its weights, where it has been built without memory.

        Most have tables of positions, which are in no file.
        """
        missing = {name: buffer for name, buffer in self.named_buffers() if buffer.is_meta}
        if not missing:
            return
        if sum(buffer.numel() for buffer in missing.values()) > LARGEST_BUFFERS:
            raise SettingsError(f"{self.architecture.config['model_type']} has tables too large")
        with drawing_from(stream(0, "tables of positions")), torch.device("cpu"):
            computed = dict(build_transformers_encoder(self.architecture).named_buffers())
        for name in missing:
            place, _, last = name.rpartition(".")
            self.get_submodule(place).register_buffer(last, computed[name], persistent=False)


def build_transformers_encoder(
    architecture: TransformersArchitecture, *, most_weights: int | None = None
) -> TransformersEncoder:
    """Return an encoder of this architecture with random weights.

    With more than `most_weights` tensors it is a SettingsError, before they take up memory.
    """
    check_transformers_installed(str(architecture.config.get("model_type")))
    import transformers  # noqa: PLC0415  (seconds, and an extra)

    config = checked_config(architecture.config)
    with _at_most(most_weights):
        model = transformers.AutoModel.from_config(config, trust_remote_code=False)
    return TransformersEncoder(architecture, model)


def checked_config(entries: Mapping[str, Any]) -> Any:
    """Return the configuration of a model of images, by what shapes its network.

    All other entries, such as those that name code, kernels, labels or outputs, are left out.
    """
    import transformers  # noqa: PLC0415
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING  # noqa: PLC0415
    from transformers.models.auto.modeling_auto import MODEL_MAPPING  # noqa: PLC0415

    model_type = entries.get("model_type")
    if not isinstance(model_type, str) or model_type not in CONFIG_MAPPING:
        raise SettingsError(
            f"transformers {transformers.__version__} knows no model_type {model_type!r}"
        )
    kind = CONFIG_MAPPING[model_type]
    known = kind().to_dict()
    if model_type.startswith("timm") or {"backbone", "backbone_config"} & known.keys():
        raise SettingsError(f"{model_type} is a model around another one; name the other one")
    of_videos = bool({"num_frames", "frames_per_clip", "tubelet_size"} & known.keys())
    model = MODEL_MAPPING.get(kind, None)
    if of_videos or getattr(model, "main_input_name", None) != "pixel_values":
        raise SettingsError(
            f"{model_type} is no model of images alone; of one with a vision part, save that part "
            f"into a folder"
        )
    shaping = known.keys() - transformers.PretrainedConfig().to_dict().keys()
    chosen = {name: entry for name, entry in entries.items() if name in shaping}
    if _sum_of_whole_numbers(chosen) > LARGEST_CONFIGURATION:
        raise SettingsError(f"the configuration of {model_type} is too large")
    return kind(**chosen)


def plain_config(config: Any) -> dict[str, Any]:
    """Return a configuration as JSON knows it, of which `checked_config` makes it again."""
    import transformers  # noqa: PLC0415

    everything = json.loads(config.to_json_string(use_diff=False))
    general = transformers.PretrainedConfig().to_dict().keys()
    shaping = {name: entry for name, entry in everything.items() if name not in general}
    return {**shaping, "model_type": config.model_type}


def transformers_installed() -> bool:
    """Return whether the package transformers is there, without importing it."""
    return find_spec("transformers") is not None


def check_transformers_installed(model_name: str) -> None:
    """Raise a SettingsError that says what to install for a model."""
    if not transformers_installed():
        raise SettingsError(
            f"{model_name} is a model of transformers; pip install 'oddone[transformers]'"
        )


def _sum_of_whole_numbers(entry: Any) -> int:
    """Return the sum of all whole numbers in JSON, regardless of their signs."""
    if isinstance(entry, Mapping):
        return sum(map(_sum_of_whole_numbers, entry.values()))
    if isinstance(entry, list | tuple):
        return sum(map(_sum_of_whole_numbers, entry))
    return abs(entry) if isinstance(entry, int) else 0


@contextmanager
def _at_most(most_weights: int | None) -> Iterator[None]:
    """Stop, in this thread, the building of a network of more tensors than these.

    A configuration may ask for a million layers. On the meta device their weights take no memory,
    but the layers themselves do.
    """
    if most_weights is None:
        yield
        return
    thread, built = threading.get_ident(), 0

    def count(_module: nn.Module, _name: str, weight: nn.Parameter | None) -> None:
        nonlocal built
        built += weight is not None and threading.get_ident() == thread
        if built > most_weights:
            raise SettingsError(f"it has more than the {most_weights} tensors that there are")

    handle = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        handle.remove()
