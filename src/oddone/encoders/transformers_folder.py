"""A model of transformers as its makers publish it, a folder or a name on the hub, as an encoder.

The weights are read from safetensors only, and no code that comes with a model is ever run.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn

from oddone.encoders.transformers_encoder import (
    PREFIX,
    FeatureSource,
    TransformersArchitecture,
    TransformersEncoder,
    check_transformers_installed,
    checked_config,
    plain_config,
)
from oddone.errors import SettingsError
from oddone.rng import drawing_from, stream

CONFIG = "config.json"
PREPROCESSOR = "preprocessor_config.json"
FILES = (CONFIG, PREPROCESSOR, "model*.safetensors", "model.safetensors.index.json")
HUB_SECONDS = 10.0

# What a preprocessor may do beside resizing, cropping and normalising, and we do not.
_UNUSUAL = ("do_flip_channel_order", "rescale_offset", "do_convert_grayscale", "do_color_quantize")


def load_transformers_encoder(encoder_name: str) -> TransformersEncoder:
    """Return a pretrained model by its name, such as "transformers:facebook/dinov2-small"."""
    folder = _folder_of(encoder_name)
    preprocessing = _read_preprocessing(folder)
    import transformers  # noqa: PLC0415  (seconds, and an extra)

    entries = _read_json(folder / CONFIG)
    try:
        config = checked_config(entries)
        with _quietly():
            model, report = transformers.AutoModel.from_pretrained(
                folder,
                config=config,
                dtype=torch.float32,
                local_files_only=True,
                output_loading_info=True,
                trust_remote_code=False,
                use_safetensors=True,
            )
    # What transformers and safetensors raise about a folder: a file is missing or damaged, or the
    # weights are not those of the configuration.
    except (OSError, ValueError, RuntimeError, ImportError, SafetensorError) as error:
        raise _unusable(folder, str(error).partition("\n")[0]) from error
    source = _feature_source(model, sorted(report["missing_keys"]), folder)
    architecture = TransformersArchitecture(
        config=plain_config(config), features=source, **preprocessing
    )
    encoder = TransformersEncoder(architecture, model)
    _check_repeatable(encoder, folder)
    return encoder.train()


def transformers_image_size(encoder_name: str) -> int:
    """Return the height and width that a pretrained model was made for."""
    size: int = _read_preprocessing(_folder_of(encoder_name))["image_size"]
    return size


def _folder_of(encoder_name: str) -> Path:
    """Return the folder that holds a model; one of the hub is downloaded the first time."""
    check_transformers_installed(encoder_name)
    name = encoder_name.removeprefix(PREFIX)
    folder = Path(name).expanduser()
    if name and folder.is_dir():
        return folder
    if not name or name.startswith((".", "/", "~")) or name.count("/") > 1 or "\\" in name:
        raise SettingsError(
            f"{encoder_name!r}: there is no folder {name!r}; name one, or a model of the hub"
        )
    return _snapshot(name)


def _snapshot(name: str) -> Path:
    """Return the folder in the hub's cache that holds a model, after downloading it if need be."""
    from huggingface_hub import HfApi, snapshot_download  # noqa: PLC0415
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError  # noqa: PLC0415

    try:
        cached = Path(snapshot_download(name, allow_patterns=FILES, local_files_only=True))
        if (cached / CONFIG).is_file() and any(cached.glob("model*.safetensors")):
            return cached
    except LocalEntryNotFoundError:
        pass  # it was never downloaded
    except HFValidationError as error:
        raise _unknown(name, str(error)) from error
    try:
        HfApi().model_info(name, timeout=HUB_SECONDS)  # fails at once; a download tries for long
        return Path(snapshot_download(name, allow_patterns=FILES))
    # Whatever the hub, its network and its disk say; the client's errors have no common class.
    except Exception as error:
        raise _unknown(name, str(error)) from error


def _unknown(name: str, reason: str) -> SettingsError:
    return SettingsError(
        f"{PREFIX}{name} is no folder, and the hub cannot give it "
        f"({reason.strip().partition(chr(10))[0]}); check the name and the connection, or name a "
        f"folder that holds the model"
    )


def _unusable(folder: Path, reason: str) -> SettingsError:
    return SettingsError(f"the model in {folder} cannot be used: {reason}")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise _unusable(path.parent, f"there is no {path.name}") from error
    except (OSError, ValueError, RecursionError) as error:
        raise _unusable(path.parent, f"{path.name} is no JSON ({error})") from error
    if not isinstance(entries, dict):
        raise _unusable(path.parent, f"{path.name} is no JSON object")
    return entries


def _read_preprocessing(folder: Path) -> dict[str, Any]:
    """Return mean, deviation and image size, for images whose pixels are from 0 to 1.

    We read the file ourselves, as transformers would want torchvision for it.
    """
    entries = _read_json(folder / PREPROCESSOR)
    for name in _UNUSUAL:
        if entries.get(name):
            raise _unusable(folder, f"{PREPROCESSOR} asks for {name}, which oddone does not do")
    # The model sees (pixel * factor - mean) / std, with pixels from 0 to 255.
    factor = float(entries.get("rescale_factor", 1 / 255)) if entries.get("do_rescale", True) else 1
    normalises = entries.get("do_normalize", True)
    mean = _per_channel(entries.get("image_mean") if normalises else 0.0, folder, "image_mean")
    std = _per_channel(entries.get("image_std") if normalises else 1.0, folder, "image_std")
    if min(map(abs, std)) == 0 or factor == 0:
        raise _unusable(folder, f"{PREPROCESSOR} divides by zero")
    return {
        "mean": tuple(number / (255 * factor) for number in mean),
        "std": tuple(number / (255 * factor) for number in std),
        "image_size": _image_size(entries, folder),
    }


def _per_channel(entry: object, folder: Path, name: str) -> list[float]:
    numbers = [entry] * 3 if isinstance(entry, int | float) else entry
    if (
        not isinstance(numbers, list)
        or len(numbers) != 3
        or not all(isinstance(number, int | float) for number in numbers)
    ):
        raise _unusable(folder, f"{PREPROCESSOR} has no three numbers as {name}")
    return [float(number) for number in numbers]


def _image_size(entries: dict[str, Any], folder: Path) -> int:
    """Return what images are cropped to, or else resized to."""
    crops = entries.get("do_center_crop") and entries.get("crop_size") is not None
    size = entries.get("crop_size") if crops else entries.get("size")
    if isinstance(size, dict):
        size = size.get("shortest_edge", size.get("height"))
    if not isinstance(size, int) or size < 1:
        raise _unusable(folder, f"{PREPROCESSOR} names no size of images")
    return size


def _feature_source(model: nn.Module, missing: list[str], folder: Path) -> FeatureSource:
    """Return which output of a model is the features, given the weights that no file has.

    A classifier is often published without the weights of the pooler, which it does not use.
    Transformers then makes up random ones.
    """
    lacking = [name for name in missing if not name.startswith("pooler.")]
    if lacking:
        raise _unusable(
            folder, f"{len(lacking)} weights are not in its files, such as {lacking[0]!r}"
        )
    config: Any = model.config
    size = config.image_size if isinstance(getattr(config, "image_size", None), int) else 224
    try:
        with torch.no_grad():
            output = model.eval()(pixel_values=torch.zeros(1, 3, size, size))
    except (RuntimeError, ValueError, TypeError) as error:
        reason = str(error).partition("\n")[0]
        raise _unusable(folder, f"it does not take images of {size} pixels: {reason}") from error
    if getattr(output, "pooler_output", None) is not None and not missing:
        return "pooler"
    if any(name.endswith("cls_token") for name, _ in model.named_parameters()):
        return "first token"
    return "mean"


@torch.no_grad()
def _check_repeatable(encoder: TransformersEncoder, folder: Path) -> None:
    """Refuse a model that sees something else of an image each time, as masked autoencoders do."""
    size = encoder.architecture.image_size
    images = torch.rand(2, 3, size, size, generator=torch.Generator().manual_seed(0))
    encoder.eval()
    try:
        with drawing_from(stream(0, "features of an image")):
            first, second = encoder(images), encoder(images)
    except (RuntimeError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise _unusable(folder, f"it does not take images of {size} pixels: {reason}") from error
    if not torch.equal(first, second):
        raise _unusable(folder, "the features of an image are different each time")


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep transformers from printing bars and reports; what matters of them becomes an error."""
    from transformers.utils import logging  # noqa: PLC0415

    verbosity, shows_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if shows_bars:
            logging.enable_progress_bar()
