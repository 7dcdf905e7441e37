import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load, save
from torch import nn

from oddone.data import ImageSet
from oddone.encoders import Network, TrainedNetwork, load_network, save_network
from oddone.encoders.network import Centre
from oddone.encoders.network_file import impossible_numbers
from oddone.errors import ArtifactError
from oddone.tensor_file import write_tensors
from oddone.training import TrainSettings
from oddone.training.initialise import initial_network
from runs import tiny_settings, tiny_source


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the file of an encoder that has yet to learn anything."""
    source, settings = tiny_source(), tiny_settings()
    path = tmp_path / "encoder.safetensors"
    save_network(path, trained_like(source, settings))
    return path


def trained_like(source: ImageSet, settings: TrainSettings) -> TrainedNetwork:
    """Return a network of these settings that has yet to learn anything."""
    return TrainedNetwork(
        initial_network(source, settings),
        settings.model,
        settings.rotations,
        source.classes,
        source.images.shape[-1],
        source.fingerprint,
    )


def about(path: Path) -> dict[str, str]:
    with safe_open(path, framework="pt") as content:
        return content.metadata()


def test_an_encoder_comes_back_as_it_was(file: Path) -> None:
    trained = load_network(file)
    assert trained.model == tiny_settings().model
    assert trained.rotations == "task"
    assert trained.classes == ("class 0", "class 1", "class 2")
    assert (trained.image_size, trained.data_fingerprint) == (16, "tiny0")
    assert not trained.network.training
    weights = initial_network(tiny_source(), tiny_settings()).state_dict()
    loaded = trained.network.state_dict()
    assert loaded.keys() == weights.keys()
    assert all(torch.equal(loaded[name], weights[name]) for name in weights)
    assert trained.network.encoder.stem[0].weight.requires_grad


def test_the_encoder_file_says_what_it_is(file: Path) -> None:
    assert json.loads(about(file)["classes"]) == ["class 0", "class 1", "class 2"]
    assert json.loads(about(file)["model"])["encoder_name"] == "resnet10-w16"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "encoder.safetensors is cut short: it has 0 bytes"),
        (b"not tensors", "encoder.safetensors is no safetensors file"),
        ((100).to_bytes(8, "little") + b"{}" * 50, "encoder.safetensors is damaged"),
        (save({"weight": torch.zeros(2)}), "is not an encoder that this version"),
        (save({}, {"kind": '"encoder"', "format": "4"}), "is not an encoder that this version"),
        (save({}, {"kind": '"encoder"', "format": "2"}), "missing required field `model`"),
    ],
    ids=["empty", "text", "header", "tensors", "newer", "settings"],  # headers have no fixed order
)
def test_a_file_that_is_no_encoder_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "encoder.safetensors"
    path.write_bytes(content)
    with pytest.raises(ArtifactError, match=message):
        load_network(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="none.safetensors does not exist"):
        load_network(tmp_path / "none.safetensors")


def test_weights_that_do_not_fit_are_refused(file: Path) -> None:
    tensors = load(file.read_bytes())
    tensors["head.0.bias"] = torch.zeros(5)
    del tensors["head.2.bias"]
    entries = {name: json.loads(text) for name, text in about(file).items() if name != "digest"}
    write_tensors(file, tensors, entries)
    with pytest.raises(ArtifactError, match=r"do not fit .* \(2 differ, such as 'head.0.bias'\)"):
        load_network(file)


class Masked(nn.Module):
    """An encoder with a mask of some attention, of which a file holds what is infinite."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 5)
        self.register_buffer("mask", torch.tensor([0.0, -torch.inf]))


def test_a_mask_may_be_infinite_but_is_made_of_numbers() -> None:
    encoder = Masked()
    network = Network(encoder, Centre(5), 5)
    assert list(impossible_numbers(network, network.state_dict())) == []
    encoder.mask[0] = torch.nan
    network.head.mean[0] = torch.inf
    encoder.layer.bias.data[0] = -torch.inf
    assert sorted(impossible_numbers(network, network.state_dict())) == [
        "encoder.layer.bias has numbers that are not finite",
        "encoder.mask has numbers that are not finite",
        "head.mean has numbers that are not finite",
    ]


def test_an_encoder_of_the_format_before_has_no_digest_and_is_read(file: Path) -> None:
    entries = {name: text for name, text in about(file).items() if name != "digest"}
    tensors = load(file.read_bytes())
    file.write_bytes(save(tensors, entries))
    with pytest.raises(ArtifactError, match="altered after it was written"):
        load_network(file)
    file.write_bytes(save(tensors, entries | {"format": "2"}))
    assert load_network(file).image_size == 16
