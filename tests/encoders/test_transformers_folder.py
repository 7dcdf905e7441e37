"""Models of transformers, from the folder that they are published in."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from oddone.encoders import (
    default_image_size,
    frozen_network,
    is_installed,
    is_pretrained,
    pretrained_encoder,
)
from oddone.encoders.transformers_encoder import TransformersEncoder
from oddone.errors import SettingsError
from oddone.training import RunDirectory, train_network
from oddone.training.initialise import initial_network
from runs import tiny_settings, tiny_source

pytest.importorskip("transformers", reason="needs oddone[transformers]")
import transformers

from tiny_transformers import PREPROCESSOR, save_model, tiny_model

MEAN, STD = (
    torch.tensor(PREPROCESSOR[name])[:, None, None] for name in ("image_mean", "image_std")
)


def some_images(rows: int = 3, size: int = 28) -> Tensor:
    return torch.rand(rows, 3, size, size, generator=torch.Generator().manual_seed(0))


def loaded(name: str) -> TransformersEncoder:
    encoder = pretrained_encoder(name)
    assert isinstance(encoder, TransformersEncoder)
    return encoder.eval()


@torch.no_grad()
def test_the_features_of_dinov2_are_its_class_token_after_the_layer_norm(tmp_path: Path) -> None:
    model = tiny_model("dinov2")
    encoder = loaded(save_model(tmp_path, model))
    output = model((some_images() - MEAN) / STD)
    torch.testing.assert_close(encoder(some_images()), output.last_hidden_state[:, 0])
    assert encoder.architecture.image_size == 28


@torch.no_grad()
def test_the_features_of_convnext_are_what_it_pools(tmp_path: Path) -> None:
    model = tiny_model("convnext")
    encoder = loaded(save_model(tmp_path, model, {**PREPROCESSOR, "crop_size": 32}))
    features = encoder(some_images(size=32))
    assert features.shape == (3, 24)
    torch.testing.assert_close(features, model((some_images(size=32) - MEAN) / STD).pooler_output)


@torch.no_grad()
def test_without_a_pooler_the_features_are_the_mean_over_the_patches(tmp_path: Path) -> None:
    model = tiny_model("ijepa")
    encoder = loaded(save_model(tmp_path, model))
    hidden = model((some_images() - MEAN) / STD).last_hidden_state
    torch.testing.assert_close(encoder(some_images()), hidden.mean(dim=1))


@torch.no_grad()
def test_maps_that_a_model_pools_become_rows(tmp_path: Path) -> None:
    encoder = loaded(save_model(tmp_path, tiny_model("resnet")))
    assert encoder(some_images()).shape == (3, 16)


@torch.no_grad()
def test_a_pooler_without_weights_is_not_used(tmp_path: Path) -> None:
    model = tiny_model("vit")
    classifier = transformers.ViTForImageClassification(model.config)  # has no pooler
    classifier.vit.load_state_dict(model.state_dict(), strict=False)
    encoder = loaded(save_model(tmp_path, classifier))
    hidden = model((some_images() - MEAN) / STD).last_hidden_state
    torch.testing.assert_close(encoder(some_images()), hidden[:, 0])
    assert not [name for name in encoder.state_dict() if "pooler" in name]


@torch.no_grad()
def test_a_model_sees_images_of_another_size_than_it_was_trained_on(tmp_path: Path) -> None:
    for model_type in ("dinov2", "vit", "swin"):
        encoder = loaded(save_model(tmp_path / model_type, tiny_model(model_type)))
        assert encoder(some_images(size=56)).shape[0] == 3


def test_a_size_that_is_no_whole_number_of_patches_is_refused(tmp_path: Path) -> None:
    name = save_model(tmp_path, tiny_model("dinov2"))
    message = "images of 32 x 32 pixels: it sees patches of 14 x 14; .* such as 28 or 42"
    with pytest.raises(SettingsError, match=message):
        frozen_network(name, 32, ("a",), "data")


def test_a_preprocessor_whose_size_the_model_does_not_take_is_refused(tmp_path: Path) -> None:
    name = save_model(tmp_path, tiny_model("dinov2"), {**PREPROCESSOR, "crop_size": 30})
    with pytest.raises(SettingsError, match="it does not take images of 30 pixels: it sees patch"):
        pretrained_encoder(name)


def test_pretrained_names_are_told_from_others(tmp_path: Path) -> None:
    name = save_model(tmp_path, tiny_model("dinov2"))
    assert is_pretrained(name)
    assert is_installed(name)
    assert default_image_size(name) == 28


@pytest.mark.parametrize(
    ("change", "size"),
    [
        ({"crop_size": 20}, 20),
        ({"do_center_crop": False}, 32),
        ({"do_center_crop": False, "size": 24}, 24),
        ({"do_center_crop": False, "size": {"height": 40, "width": 40}}, 40),
    ],
)
def test_the_image_size_is_what_images_are_cropped_or_else_resized_to(
    tmp_path: Path, change: dict[str, object], size: int
) -> None:
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({**PREPROCESSOR, **change}))
    assert default_image_size(f"transformers:{tmp_path}") == size


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        ({"do_normalize": False}, lambda images: images),
        ({"image_mean": 0.5, "image_std": 0.5}, lambda images: 2 * images - 1),
        ({"do_rescale": False}, lambda images: (255 * images - MEAN) / STD),
        ({"rescale_factor": 1 / 127.5}, lambda images: (2 * images - MEAN) / STD),
    ],
)
@torch.no_grad()
def test_pixels_are_scaled_as_the_preprocessor_says(
    tmp_path: Path, change: dict[str, object], seen: Callable[[Tensor], Tensor]
) -> None:
    model = tiny_model("dinov2")
    encoder = loaded(save_model(tmp_path, model, {**PREPROCESSOR, **change}))
    expected = model(seen(some_images())).pooler_output
    torch.testing.assert_close(encoder(some_images()), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"do_flip_channel_order": True}, "asks for do_flip_channel_order"),
        ({"image_mean": None}, "has no three numbers as image_mean"),
        ({"image_std": [1.0, "a", 1.0]}, "has no three numbers as image_std"),
        ({"image_std": [1.0, 0.0, 1.0]}, "divides by zero"),
        ({"crop_size": {"longest_edge": 3}}, "names no size of images"),
        ({"crop_size": 0}, "names no size of images"),
    ],
)
def test_a_preprocessor_that_we_do_not_understand_is_refused(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({**PREPROCESSOR, **change}))
    with pytest.raises(SettingsError, match=message):
        default_image_size(f"transformers:{tmp_path}")


def test_a_folder_without_a_preprocessor_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be used: there is no preprocessor_config.json"):
        pretrained_encoder(f"transformers:{tmp_path}")


def test_weights_that_are_missing_are_not_made_up(tmp_path: Path) -> None:
    name = save_model(tmp_path, tiny_model("dinov2"))
    weights = load_file(tmp_path / "model.safetensors")
    del weights["embeddings.cls_token"]
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(SettingsError, match="1 weights are not in its files, such as 'embeddings"):
        pretrained_encoder(name)


def test_weights_in_pickle_are_not_read(tmp_path: Path) -> None:
    name = save_model(tmp_path, tiny_model("dinov2"))
    (tmp_path / "model.safetensors").unlink()
    torch.save({}, tmp_path / "pytorch_model.bin")
    with pytest.raises(SettingsError, match=r"cannot be used: .*safetensors"):
        pretrained_encoder(name)


def test_damaged_weights_are_one_line(tmp_path: Path) -> None:
    name = save_model(tmp_path, tiny_model("dinov2"))
    (tmp_path / "model.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0{broken}")
    with pytest.raises(SettingsError, match="cannot be used: ") as caught:
        pretrained_encoder(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"model_type": "bert"}, "bert is no model of images alone"),
        ({"model_type": "clip"}, "clip is no model of images alone; .*save that part"),
        ({"model_type": "videomae"}, "videomae is no model of images alone"),
        ({"model_type": "detr"}, "detr is a model around another one"),
        ({"model_type": "timm_wrapper"}, "timm_wrapper is a model around another one"),
        ({"model_type": "dinov9"}, "knows no model_type 'dinov9'"),
        ({"model_type": ["dinov2"]}, "knows no model_type"),
    ],
)
def test_other_models_are_refused(tmp_path: Path, entry: dict[str, object], message: str) -> None:
    name = save_model(tmp_path, tiny_model("dinov2"))
    (tmp_path / "config.json").write_text(json.dumps(entry))
    with pytest.raises(SettingsError, match=message):
        pretrained_encoder(name)


def test_code_that_comes_with_a_model_is_not_run(tmp_path: Path) -> None:
    name = save_model(tmp_path, tiny_model("dinov2"))
    config = json.loads((tmp_path / "config.json").read_text())
    code = {"AutoConfig": "trap.Config", "AutoModel": "trap.Model"}
    config |= {"auto_map": code, "attn_implementation": "somebody/kernels"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "trap.py").write_text("raise AssertionError('this was run')")
    assert loaded(name)(some_images()).shape == (3, 16)


def test_a_model_whose_features_change_each_time_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="features of an image are different each time"):
        pretrained_encoder(save_model(tmp_path, tiny_model("vit_mae")))


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="there is no folder .*nowhere"):
        pretrained_encoder(f"transformers:{tmp_path / 'nowhere'}")
    with pytest.raises(SettingsError, match="there is no folder ''"):
        pretrained_encoder("transformers:")


def test_a_name_that_the_hub_cannot_give_is_one_line_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*_arguments: object, **_options: object) -> None:
        raise ConnectionError("Name or service not known\nmore of it")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", unreachable)
    began = time.monotonic()
    with pytest.raises(SettingsError, match="nobody/nothing is no folder, and the hub") as caught:
        pretrained_encoder("transformers:nobody/nothing")
    assert time.monotonic() - began < 20
    assert "(Name or service not known); check the name and the connection" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_name_that_no_model_can_have_is_refused() -> None:
    with pytest.raises(SettingsError, match="the hub cannot give it"):
        pretrained_encoder("transformers:no spaces please")


def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oddone.encoders.transformers_encoder.find_spec", lambda _package: None)
    assert not is_installed("transformers:facebook/dinov2-small")
    with pytest.raises(SettingsError, match=r"pip install 'oddone\[transformers\]'"):
        pretrained_encoder("transformers:facebook/dinov2-small")


def test_training_begins_with_the_weights_of_the_model(tmp_path: Path) -> None:
    name = save_model(tmp_path / "dinov2", tiny_model("dinov2"))
    source, settings = tiny_source(size=28), tiny_settings(steps=2)
    settings = replace(settings, model=replace(settings.model, encoder_name=name))
    weights = initial_network(source, settings).encoder.state_dict()
    expected = pretrained_encoder(name).state_dict()
    assert all(torch.equal(weights[key], expected[key]) for key in expected)
    run = RunDirectory.create(tmp_path / "run", settings, {})
    train_network(source, settings, run, stop=lambda: True)
    assert train_network(source, settings, run).finished
