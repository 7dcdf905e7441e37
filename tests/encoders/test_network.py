import pytest
import torch
from torch import Tensor, nn

from oddone.encoders import ENCODERS, ModelSettings, Network, build_network, projection_head
from oddone.errors import SettingsError


class Flattened(nn.Module):
    """A user's own encoder, with parts whose behaviour depends on the mode."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(3)
        self.frozen = nn.BatchNorm2d(3).eval()
        self.linear = nn.Linear(3 * 8 * 8, 7)

    def forward(self, images: Tensor) -> Tensor:
        return self.linear(self.frozen(self.norm(images)).flatten(1))  # type: ignore[no-any-return]


def build(encoder: str | nn.Module, image_size: int = 32) -> Network:
    return build_network(encoder, ModelSettings(head_hidden=16, head_dim=5), image_size)


@pytest.mark.parametrize(
    ("name", "parameters"), [("resnet18", 12_481_728), ("resnet34", 22_589_888)]
)
def test_encoders_have_as_many_parameters_as_the_authors(name: str, parameters: int) -> None:
    network = build_network(name, ModelSettings(), 32)
    assert sum(p.numel() for p in network.parameters()) == parameters


@pytest.mark.parametrize("name", ENCODERS)
def test_every_name_builds_an_encoder_in_training_mode(name: str) -> None:
    network = build(name)
    assert all(module.training for module in network.modules())


def test_a_network_returns_features_and_unnormalised_embeddings() -> None:
    network = build("resnet10-w16").eval()
    images = torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    features, embeddings = network(images)
    assert features.shape == (3, 128)
    assert embeddings.shape == (3, 5)
    torch.testing.assert_close(embeddings, network.head(network.encoder(images)))
    assert not torch.allclose(embeddings.norm(dim=1), torch.ones(3), atol=1e-3)


def test_the_head_is_linear_relu_linear() -> None:
    head = projection_head(4, 6, 2)
    features = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    first, _, second = head
    expected = (features @ first.weight.T + first.bias).relu() @ second.weight.T + second.bias
    torch.testing.assert_close(head(features), expected)


def test_a_users_own_module_gets_a_head_that_fits() -> None:
    network = build(Flattened(), image_size=8)
    features, embeddings = network(torch.rand(3, 3, 8, 8))
    assert features.shape == (3, 7)
    assert embeddings.shape == (3, 5)


def test_measuring_a_users_module_leaves_it_as_it_was() -> None:
    module = Flattened()
    build(module, image_size=8)
    assert module.training
    assert module.norm.training
    assert not module.frozen.training
    assert module.norm.num_batches_tracked == 0


def test_a_head_follows_the_dtype_of_its_encoder() -> None:
    network = build(Flattened().double(), image_size=8)
    assert network(torch.rand(2, 3, 8, 8, dtype=torch.float64)).embeddings.dtype == torch.float64


def test_a_module_without_parameters_is_an_encoder_too() -> None:
    assert build(nn.Flatten(), image_size=2)(torch.rand(3, 3, 2, 2)).features.shape == (3, 12)


def test_a_module_that_returns_maps_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"Conv2d turns .*\[2, 4, 8, 8\].*must be \[rows, dim"):
        build(nn.Conv2d(3, 4, 1), image_size=8)


def test_a_module_that_returns_no_tensor_is_refused() -> None:
    class Pair(nn.Module):
        def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
            return images, images

    with pytest.raises(SettingsError, match="Pair turns .* an output of type tuple"):
        build(Pair())


@pytest.mark.parametrize(
    ("wrong", "suggestion"), [("resnet-18", "'resnet18'"), ("ResNet10_w32", "'resnet10-w32'")]
)
def test_an_unknown_name_is_answered_with_the_nearest(wrong: str, suggestion: str) -> None:
    with pytest.raises(SettingsError, match=f"no encoder {wrong!r}; did you mean {suggestion}"):
        build(wrong)


def test_a_name_like_no_other_is_answered_with_all_names() -> None:
    with pytest.raises(SettingsError, match=r"no encoder 'vit'; choose one of resnet18, resnet34"):
        build("vit")


def test_sizes_below_one_are_refused() -> None:
    with pytest.raises(SettingsError, match="image_size=0"):
        build("resnet18", image_size=0)
    with pytest.raises(SettingsError, match="head_dim=0"):
        projection_head(8, 16, 0)
