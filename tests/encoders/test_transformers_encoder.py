"""Models of transformers in our files: rebuilt without their folder, and not trusted."""

import copy
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from oddone.detector import Detector
from oddone.encoders import TrainedNetwork, frozen_network, load_network, save_network
from oddone.errors import ArtifactError
from oddone.tensor_file import DIGEST, content_digest
from runs import tiny_source

pytest.importorskip("transformers", reason="needs oddone[transformers]")
from tiny_transformers import CONFIGS, PREPROCESSOR, save_model, tiny_model

RELIABLE = [model_type for model_type in CONFIGS if model_type not in {"vit_mae", "convnext"}]


def some_images(rows: int = 3, size: int = 28) -> Tensor:
    return torch.rand(rows, 3, size, size, generator=torch.Generator().manual_seed(0))


def frozen(folder: Path, model_type: str = "dinov2", size: int = 28) -> TrainedNetwork:
    name = save_model(folder, tiny_model(model_type), {**PREPROCESSOR, "crop_size": size})
    return frozen_network(name, size, ("cat", "dog"), "data")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of a network whose encoder is a tiny DINOv2, the folder of which is gone."""
    folder = tmp_path_factory.mktemp("saved")
    trained = frozen(folder / "dinov2")
    save_network(folder / "encoder.safetensors", trained)
    shutil.rmtree(folder / "dinov2")
    return folder / "encoder.safetensors"


def forged(file: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """Return a file with another header, in which every entry has been parsed."""
    with safe_open(file, framework="pt") as content:
        header = {name: json.loads(entry) for name, entry in content.metadata().items()}
    change(header)
    path, tensors = tmp_path / "forged.safetensors", load_file(file)
    entries = {name: json.dumps(entry) for name, entry in header.items() if name != DIGEST}
    entries[DIGEST] = json.dumps(content_digest(tensors, entries))
    save_file(tensors, path, entries)
    return path


def with_config(**entries: object) -> Callable[[dict[str, Any]], None]:
    return lambda header: header["transformers"]["config"].update(entries)


@pytest.mark.parametrize("model_type", RELIABLE)
@torch.no_grad()
def test_a_network_is_rebuilt_without_the_folder_of_its_encoder(
    tmp_path: Path, model_type: str
) -> None:
    trained = frozen(tmp_path / model_type, model_type)
    save_network(tmp_path / "encoder.safetensors", trained)
    shutil.rmtree(tmp_path / model_type)
    before = torch.random.get_rng_state()
    loaded = load_network(tmp_path / "encoder.safetensors")
    assert torch.equal(torch.random.get_rng_state(), before)
    expected = trained.network(some_images()).features
    torch.testing.assert_close(loaded.network(some_images()).features, expected)
    assert loaded.model == trained.model
    assert loaded.network.encoder.architecture == trained.network.encoder.architecture
    assert not any(tensor.is_meta for tensor in loaded.network.buffers())


def test_a_convnext_is_rebuilt_too(tmp_path: Path) -> None:
    trained = frozen(tmp_path / "convnext", "convnext", size=32)
    save_network(tmp_path / "encoder.safetensors", trained)
    loaded = load_network(tmp_path / "encoder.safetensors")
    images = some_images(size=32)
    with torch.no_grad():
        torch.testing.assert_close(loaded.network(images), trained.network(images))


def test_a_detector_on_dinov2_is_whole_in_its_file(tmp_path: Path) -> None:
    source = tiny_source(images=60, size=28)
    name = save_model(tmp_path / "dinov2", tiny_model("dinov2"))
    detector = Detector.fit(frozen_network(name, 28, source.classes, "tiny"), source)
    detector.save(tmp_path / "a.oddone")
    shutil.rmtree(tmp_path / "dinov2")
    loaded = Detector.load(tmp_path / "a.oddone")
    torch.testing.assert_close(loaded(source.images).scores, detector(source.images).scores)
    assert torch.equal(loaded(source.images).labels, detector(source.images).labels)


def test_an_encoder_from_a_folder_can_be_passed_as_a_module(tmp_path: Path) -> None:
    encoder = frozen(tmp_path / "dinov2").network.encoder
    trained = frozen_network(copy.deepcopy(encoder), 28, ("cat", "dog"), "data")
    save_network(tmp_path / "encoder.safetensors", trained)
    loaded = load_network(tmp_path / "encoder.safetensors")
    with torch.no_grad():
        torch.testing.assert_close(loaded.network(some_images()), trained.network(some_images()))


def test_the_file_says_nothing_that_names_code_or_labels(file: Path) -> None:
    with safe_open(file, framework="pt") as content:
        config = json.loads(content.metadata()["transformers"])["config"]
    assert config["model_type"] == "dinov2"
    assert config["hidden_size"] == 16
    assert not {"architectures", "id2label", "dtype", "transformers_version"} & config.keys()


def test_entries_that_name_code_are_left_out(file: Path, tmp_path: Path) -> None:
    change = with_config(
        auto_map={"AutoModel": "somebody/code--model.Model"},
        attn_implementation="somebody/kernels",
        _attn_implementation="somebody/kernels",
        quantization_config={"quant_method": "bitsandbytes"},
        return_dict=False,
    )
    loaded = load_network(forged(file, tmp_path, change))
    with torch.no_grad():
        assert loaded.network(some_images()).features.shape == (3, 16)
    assert not hasattr(loaded.network.encoder.model.config, "auto_map")
    assert loaded.network.encoder.model.config._attn_implementation in {"sdpa", "eager"}


def test_a_name_alone_is_not_looked_up(file: Path, tmp_path: Path) -> None:
    def forget(header: dict[str, Any]) -> None:
        header["transformers"] = None
        header["model"]["encoder_name"] = "transformers:facebook/dinov2-small"

    with pytest.raises(ArtifactError, match="does not say what 'transformers:facebook/dinov2-sma"):
        load_network(forged(file, tmp_path, forget))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_config(model_type="dinov9"), "knows no model_type 'dinov9'"),
        (with_config(model_type="bert"), "bert is no model of images alone"),
        (with_config(model_type="detr"), "detr is a model around another one"),
        (with_config(hidden_size=10**9), "configuration of dinov2 is too large"),
        (with_config(num_hidden_layers=10**9), "configuration of dinov2 is too large"),
        (with_config(num_hidden_layers=500_000), "more than the .* tensors that there are"),
        (with_config(mlp_ratio=2), "do not fit the encoder"),
        (with_config(hidden_size=500_000, image_size=400_000), "do not fit the encoder"),
        (with_config(hidden_act="nothing"), "cannot be rebuilt: "),
        (with_config(hidden_size="large"), "cannot be rebuilt: "),
        (with_config(patch_size=0), "cannot be rebuilt: "),
        (with_config(patch_size=27), "sees patches of 27 x 27"),
        (with_config(num_attention_heads=0), "cannot be rebuilt: "),
        (with_config(num_channels=1), "cannot be rebuilt: "),
        (lambda header: header["transformers"].update(std=[1.0, 0.0, 1.0]), "std="),
        (lambda header: header["transformers"].update(mean=[1.0]), "Expected `array` of length 3"),
        (lambda header: header["transformers"].update(mean=[1e9, 0, 0]), "Expected `float` <= "),
        (lambda header: header["transformers"].update(features="last"), "Invalid enum value"),
        (lambda header: header["transformers"].update(config=[]), "Expected `object`"),
        (lambda header: header.update(transformers="dinov2"), "Expected `object"),
    ],
)
@pytest.mark.usefixtures("as_shipped")
def test_an_architecture_that_makes_no_sense_is_refused_at_once(
    file: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None], message: str
) -> None:
    path = forged(file, tmp_path, change)
    began = time.monotonic()
    with pytest.raises(ArtifactError, match=message) as caught:
        load_network(path)
    assert "\n" not in str(caught.value)
    assert time.monotonic() - began < 20


def test_the_missing_extra_is_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oddone.encoders.transformers_encoder.find_spec", lambda _package: None)
    with pytest.raises(ArtifactError, match=r"rebuilt: .*pip install 'oddone\[transformers\]'"):
        load_network(file)


def test_importing_the_encoders_does_not_import_transformers(
    run_python: Callable[[str], str],
) -> None:
    script = "import sys, oddone.encoders, oddone.detector; print('transformers' in sys.modules)"
    assert run_python(script) == "False"
