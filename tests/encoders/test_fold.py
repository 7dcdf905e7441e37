from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from oddone.encoders import resnet10
from oddone.encoders.fold import fold_batch_norm


def _trained_norms(network: nn.Module) -> nn.Module:
    """Return the network with statistics, scales and shifts as if it had been trained."""
    generator = torch.Generator().manual_seed(0)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            for tensor in (module.running_mean, module.weight.data, module.bias.data):
                tensor.normal_(generator=generator)
            module.running_var.uniform_(0.5, 2, generator=generator)
    return network


def _count(network: nn.Module) -> int:
    return sum(isinstance(module, nn.BatchNorm2d) for module in network.modules())


def test_folding_changes_no_feature() -> None:
    network = _trained_norms(resnet10(8)).double().eval()
    images = torch.rand(3, 3, 32, 32, dtype=torch.float64)
    folded = fold_batch_norm(network, 32)
    assert _count(folded) == 0
    torch.testing.assert_close(folded(images), network(images), rtol=1e-9, atol=1e-9)


def test_the_network_itself_keeps_its_norms_and_its_mode() -> None:
    network = _trained_norms(resnet10(8)).train()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    fold_batch_norm(network, 32)(torch.rand(2, 3, 32, 32))
    assert network.training
    assert _count(network) > 0
    assert all(torch.equal(before[name], now) for name, now in network.state_dict().items())


def test_a_norm_that_takes_the_statistics_of_each_batch_is_kept() -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, track_running_stats=False))
    images = torch.rand(2, 3, 8, 8)
    folded = fold_batch_norm(network, 8)
    assert _count(folded) == 1
    assert torch.equal(folded(images), network(images))


def test_a_norm_that_follows_only_in_the_code_of_a_module_is_kept() -> None:
    class Before(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolution, self.norm = nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.convolution(self.norm(images))

    network = _trained_norms(Before()).eval()
    images = torch.rand(2, 3, 8, 8)
    assert torch.equal(fold_batch_norm(network, 8)(images), network(images))


class Standardised(nn.Conv2d):
    """A convolution that computes its weights first."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        weight = self.weight / self.weight.std(dim=(1, 2, 3), keepdim=True)
        return self._conv_forward(images, weight, self.bias)


class Backwards(nn.Sequential):
    """Layers in another order than they stand in."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        convolution, norm = self
        return convolution(norm(images))


class Walked(nn.Module):
    """Layers that are taken one by one, and all of whose outputs count."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        seen = [images]
        for layer in self.layers:
            seen.append(layer(seen[-1]))
        return torch.cat(seen, dim=1)


def hooked() -> nn.Sequential:
    layers = nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3))
    layers[0].register_forward_hook(lambda _module, _given, output: 2 * output)
    return layers


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Sequential(Standardised(3, 3, 1), nn.BatchNorm2d(3)),
        lambda: Backwards(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)),
        Walked,
        hooked,
        lambda: nn.Sequential(weight_norm(nn.Conv2d(3, 3, 1)), nn.BatchNorm2d(3)),
    ],
)
def test_modules_of_others_say_what_they_would_unfolded(make: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    network = _trained_norms(make()).eval()
    images = torch.rand(2, 3, 8, 8)
    assert torch.equal(fold_batch_norm(network, 8)(images), network(images))
