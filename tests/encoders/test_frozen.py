import threading
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from oddone.encoders import (
    ModelSettings,
    TrainedNetwork,
    build_network,
    frozen_network,
    is_installed,
    load_network,
    pretrained_encoder,
    save_network,
)
from oddone.errors import ArtifactError, SettingsError
from oddone.training import TrainSettings
from oddone.training.initialise import initial_network
from runs import tiny_settings, tiny_source

CLASSES = ("cat", "dog")
with_weights = pytest.mark.skipif(
    not is_installed("efficientnet-lite0"), reason="needs oddone[pretrained]"
)


class OwnPretrained(nn.Module):
    """A user's own encoder, with weights, modes and statistics that are worth something."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 5, 3)
        self.norm = nn.BatchNorm2d(5)
        self.dropout = nn.Dropout(0.5)
        self.evaluated = nn.BatchNorm2d(5).eval()

    def forward(self, images: Tensor) -> Tensor:
        maps = self.evaluated(self.dropout(self.norm(self.convolution(images))))
        return maps.mean(dim=(2, 3))  # type: ignore[no-any-return]


def images(rows: int = 4, size: int = 16) -> Tensor:
    return torch.rand(rows, 3, size, size, generator=torch.Generator().manual_seed(0))


def state_of(module: nn.Module) -> tuple[dict[str, Tensor], list[bool], list[bool]]:
    return (
        {name: tensor.clone() for name, tensor in module.state_dict().items()},
        [part.training for part in module.modules()],
        [weight.requires_grad for weight in module.parameters()],
    )


def assert_unchanged(module: nn.Module, before: tuple[dict[str, Tensor], object, object]) -> None:
    after = state_of(module)
    assert after[1:] == before[1:]
    assert all(torch.equal(after[0][name], tensor) for name, tensor in before[0].items())


def test_the_embeddings_of_a_frozen_network_are_the_directions_of_its_features_from_a_mean() -> (
    None
):
    encoder = OwnPretrained()
    frozen = frozen_network(encoder, 16, CLASSES, "data")
    features, embeddings = frozen.network(images())
    torch.testing.assert_close(features, encoder.eval()(images()))
    torch.testing.assert_close(embeddings, normalize(features, dim=1))
    mean = embeddings[0] / 2
    frozen.network.head.mean.copy_(mean)
    expected = normalize(embeddings - mean, dim=1)
    torch.testing.assert_close(frozen.network(images()).embeddings, expected)
    assert (frozen.network.feature_dim, frozen.embedding_dim) == (5, 5)
    assert (frozen.rotations, frozen.classes, frozen.image_size) == ("none", CLASSES, 16)
    assert frozen.data_fingerprint == "data"


def test_a_frozen_network_is_in_evaluation_mode_and_needs_no_gradient() -> None:
    network = frozen_network(OwnPretrained(), 16, CLASSES, "data").network
    assert not any(module.training for module in network.modules())
    assert not any(weight.requires_grad for weight in network.parameters())


def test_a_users_own_module_stays_as_it_was() -> None:
    encoder = OwnPretrained()
    before = state_of(encoder)
    frozen = frozen_network(encoder, 16, CLASSES, "data")
    frozen.network.train()(images())  # what is done to the copy
    assert_unchanged(encoder, before)


def test_loading_leaves_the_module_that_is_passed_as_it_was(tmp_path: Path) -> None:
    frozen = frozen_network(OwnPretrained(), 16, CLASSES, "data")
    save_network(tmp_path / "own.safetensors", frozen)
    other = OwnPretrained()
    before = state_of(other)
    loaded = load_network(tmp_path / "own.safetensors", encoder=other)
    assert_unchanged(other, before)
    torch.testing.assert_close(loaded.network(images()), frozen.network(images()))
    assert loaded.model == frozen.model
    assert loaded.embedding_dim == 5


def test_a_file_says_that_it_needs_the_users_own_module(tmp_path: Path) -> None:
    save_network(tmp_path / "own.safetensors", frozen_network(OwnPretrained(), 16, CLASSES, "data"))
    message = "own.safetensors holds the weights of an encoder of your own, OwnPretrained; pass"
    with pytest.raises(ArtifactError, match=message):
        load_network(tmp_path / "own.safetensors")


@with_weights
def test_a_frozen_network_by_name_has_the_pretrained_weights(tmp_path: Path) -> None:
    frozen = frozen_network("efficientnet-lite0", 32, CLASSES, "data")
    expected = pretrained_encoder("efficientnet-lite0").eval()
    save_network(tmp_path / "lite0.safetensors", frozen)
    loaded = load_network(tmp_path / "lite0.safetensors")
    with torch.no_grad():
        for trained in (frozen, loaded):
            features = trained.network(images(size=32)).features
            torch.testing.assert_close(features, expected(images(size=32)))


def test_an_encoder_without_weights_cannot_be_frozen() -> None:
    with pytest.raises(SettingsError, match="no pretrained encoder 'resnet18'"):
        frozen_network("resnet18", 32, CLASSES, "data")


def test_a_module_without_weights_is_an_encoder_too() -> None:
    frozen = frozen_network(nn.Flatten(), 2, CLASSES, "data")
    assert frozen.device == torch.device("cpu")
    assert frozen.to("cpu") is frozen
    assert frozen.network(images(size=2)).embeddings.shape == (4, 12)


def test_weights_in_another_precision_are_refused() -> None:
    with pytest.raises(SettingsError, match="OwnPretrained has weights in torch.float64 .*float()"):
        frozen_network(OwnPretrained().double(), 16, CLASSES, "data")


def test_a_size_that_an_encoder_does_not_take_is_refused() -> None:
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 4))
    with pytest.raises(SettingsError, match="Sequential does not take images of 16 x 16 pixels: "):
        frozen_network(encoder, 16, CLASSES, "data")


def test_a_module_that_cannot_be_copied_is_refused() -> None:
    encoder = OwnPretrained()
    encoder.lock = threading.Lock()  # type: ignore[assignment]
    with pytest.raises(SettingsError, match=r"OwnPretrained cannot be copied \(.*lock"):
        frozen_network(encoder, 16, CLASSES, "data")


def test_a_network_without_a_head_is_not_trained() -> None:
    with pytest.raises(SettingsError, match="model.head_dim=None: a network without a head"):
        TrainSettings(steps=1, model=ModelSettings(head_dim=None))


def test_a_run_cannot_start_from_a_network_without_a_head() -> None:
    source, settings = tiny_source(), tiny_settings()
    model = ModelSettings(encoder_name="resnet10-w16", head_dim=None)
    network = build_network("resnet10-w16", model, 16)
    start = TrainedNetwork(network, model, "none", source.classes, 16, "data")
    with pytest.raises(SettingsError, match="resnet10-w16 without a head and this run trains"):
        initial_network(source, settings, start=start)
