import torch
from torch import nn

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
    folded = fold_batch_norm(network)
    assert _count(folded) == 0
    torch.testing.assert_close(folded(images), network(images), rtol=1e-9, atol=1e-9)


def test_the_network_itself_keeps_its_norms_and_its_mode() -> None:
    network = _trained_norms(resnet10(8)).train()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    fold_batch_norm(network)(torch.rand(2, 3, 32, 32))
    assert network.training
    assert _count(network) > 0
    assert all(torch.equal(before[name], now) for name, now in network.state_dict().items())


def test_a_norm_that_takes_the_statistics_of_each_batch_is_kept() -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, track_running_stats=False))
    images = torch.rand(2, 3, 8, 8)
    folded = fold_batch_norm(network)
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
    assert torch.equal(fold_batch_norm(network)(images), network(images))
