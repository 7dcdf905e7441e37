import pytest
import torch
from torch import Tensor, nn

from oddone.encoders import ModelSettings
from oddone.encoders.network import build_network
from oddone.training.muon import SGD_SHARE, Muon, is_filters, orthogonalise
from oddone.training.optim import BIAS_SHARE, build_optimiser, set_learning_rate
from oddone.training.settings import OptimiserMethod, OptimiserSettings


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def stepped(weight: nn.Parameter, gradient: Tensor, steps: int = 1, **choices: float) -> Tensor:
    settings = {"lr": 0.1, "momentum": 0.6, "weight_decay": 0.0, **choices}
    optimiser = Muon([weight], **settings)  # type: ignore[arg-type]
    for _ in range(steps):
        weight.grad = gradient.clone()
        optimiser.step()
    return weight.detach()


@pytest.mark.parametrize("shape", [(8, 30), (30, 8), (12, 12)])
def test_a_matrix_keeps_its_directions_and_gets_singular_values_near_one(
    shape: tuple[int, int],
) -> None:
    left, _, right = torch.linalg.svd(random(*shape).double(), full_matrices=False)
    values = torch.linspace(1, 0.2, min(shape), dtype=torch.float64)
    found = left.mT @ orthogonalise((left * values) @ right) @ right.mT
    torch.testing.assert_close(found, found.diagonal().diag(), rtol=0, atol=1e-9)
    assert (found.diagonal() > 0.6).all()
    assert (found.diagonal() < 1.3).all()


def test_the_length_of_a_gradient_does_not_matter() -> None:
    gradient = random(8, 30)
    torch.testing.assert_close(orthogonalise(gradient), orthogonalise(1e3 * gradient))


def test_no_gradient_is_no_direction() -> None:
    assert torch.equal(orthogonalise(torch.zeros(3, 5)), torch.zeros(3, 5))


def test_filters_turn_against_the_gradient_and_keep_their_length() -> None:
    before, gradient = random(8, 4, 3, 3), random(8, 4, 3, 3, seed=1)
    after = stepped(nn.Parameter(before.clone()), gradient)
    direction = orthogonalise(gradient.flatten(1)).view_as(before)
    expected = before - 0.1 * direction
    torch.testing.assert_close(after, expected * before.norm() / expected.norm())
    assert (after * gradient).sum() < (before * gradient).sum()
    torch.testing.assert_close(after.norm(), before.norm())


@pytest.mark.parametrize("shape", [(6,), (6, 5), (6, 1, 3, 3)])
def test_other_weights_are_changed_as_by_sgd_with_nesterov(shape: tuple[int, ...]) -> None:
    before, gradient = random(*shape), random(*shape, seed=1)
    found = stepped(nn.Parameter(before.clone()), gradient, steps=3, weight_decay=0.0)
    weight = nn.Parameter(before.clone())
    peer = torch.optim.SGD([weight], lr=0.1 * SGD_SHARE, momentum=0.6, nesterov=True)
    for _ in range(3):
        weight.grad = gradient.clone()
        peer.step()
    torch.testing.assert_close(found, weight.detach())
    assert not is_filters(weight)


@pytest.mark.parametrize(
    ("shape", "decays"), [((6, 5), True), ((6,), False), ((6, 5, 3, 3), False)]
)
def test_only_matrices_that_are_no_filters_decay(shape: tuple[int, ...], *, decays: bool) -> None:
    before = random(*shape)
    after = stepped(nn.Parameter(before.clone()), torch.zeros(shape), weight_decay=0.5)
    expected = before * (1 - 0.1 * SGD_SHARE * 0.5 * 1.6) if decays else before
    torch.testing.assert_close(after, expected)


def test_weights_without_a_gradient_stay() -> None:
    weight = nn.Parameter(random(4, 4, 3, 3))
    before = weight.detach().clone()
    Muon([weight], lr=0.1, momentum=0.6, weight_decay=0.1).step()
    assert torch.equal(weight, before)
    with pytest.raises(TypeError, match="without a closure"):
        Muon([weight], lr=0.1, momentum=0.6, weight_decay=0.1).step(lambda: 0.0)


@pytest.mark.parametrize(("method", "faster"), [("muon", BIAS_SHARE), ("sgd", 1.0)])
def test_beside_muon_the_biases_of_batch_norm_learn_faster(
    method: OptimiserMethod, faster: float
) -> None:
    network = build_network("poolnet", ModelSettings(head_hidden=8, head_dim=4), 16)
    settings = OptimiserSettings(
        method=method, learning_rate=1.0, encoder_share=0.5, momentum=0.0, weight_decay=0.0
    )
    optimiser = build_optimiser(network, settings)
    set_learning_rate(optimiser, 0.01)
    before = {name: weight.detach().clone() for name, weight in network.named_parameters()}
    for weight in network.parameters():
        weight.grad = torch.ones_like(weight)
    optimiser.step()
    step = 0.01 * (SGD_SHARE if method == "muon" else 1.0)
    assert isinstance(network.get_submodule("encoder.blocks.0.2"), nn.BatchNorm2d)
    for name, expected in (
        ("encoder.blocks.0.2.bias", 0.5 * step * faster),
        ("encoder.blocks.0.2.weight", 0.5 * step),
        ("head.0.bias", step),
        ("head.0.weight", step),
    ):
        change = before[name] - network.get_parameter(name)
        torch.testing.assert_close(change, torch.full_like(change, expected))
