import copy
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from oddone.encoders import Encoded, ModelSettings, Network, build_network
from oddone.errors import SettingsError
from oddone.training.parts import NetworkInParts
from runs import tiny_settings


@pytest.fixture
def workers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2, initializer=torch.set_num_threads, initargs=(1,)) as executor:
        yield executor


def a_network(encoder: str | nn.Module = "resnet10-w16") -> Network:
    torch.manual_seed(0)
    model = ModelSettings(head_hidden=16, head_dim=8)
    return build_network(encoder, model, 16, n_classes=3, predict_poses=True).train()


def images(rows: int = 12) -> Tensor:
    return torch.rand(rows, 3, 16, 16, generator=torch.Generator().manual_seed(1))


def encode(network: Network, rows: Tensor) -> Encoded:
    encoded: Encoded = network(rows)
    return encoded


def some_loss(encoded: Encoded) -> Tensor:
    """Return a number in which every row meets every other, as in a contrastive loss."""
    gram = encoded.embeddings @ encoded.embeddings.mT
    return gram.exp().mean() + encoded.features.square().mean()


def gradients(network: Network) -> dict[str, Tensor | None]:
    return {name: weight.grad for name, weight in network.named_parameters()}


@pytest.mark.parametrize("in_turn", [False, True])
@pytest.mark.parametrize(("rows", "n_parts"), [(12, 2), (7, 2), (13, 4)])
def test_the_parts_are_those_of_passes_one_after_the_other(
    workers: ThreadPoolExecutor, rows: int, n_parts: int, in_turn: bool
) -> None:
    network, oracle = a_network().double(), a_network().double()
    parts = images(rows).double().tensor_split(n_parts)
    encoded = NetworkInParts(network, encode, workers, n_parts)(parts, in_turn=in_turn)
    some_loss(encoded).backward()

    passes = [oracle(part) for part in parts]
    expected = Encoded(*(torch.cat(outputs) for outputs in zip(*passes, strict=True)))
    some_loss(expected).backward()
    torch.testing.assert_close(encoded.embeddings, expected.embeddings)
    torch.testing.assert_close(encoded.features, expected.features)
    for name, gradient in gradients(oracle).items():
        found = gradients(network)[name]
        if gradient is None:  # of the classifiers, which this loss does not have
            assert found is None
        else:
            assert found is not None
            torch.testing.assert_close(found, gradient)


def test_without_batch_norm_parts_are_the_whole(workers: ThreadPoolExecutor) -> None:
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, 10))
    network, whole = a_network(encoder), a_network(copy.deepcopy(encoder))
    whole.load_state_dict(network.state_dict())
    encoded, expected = (
        NetworkInParts(network, encode, workers, 3)(images().chunk(3)),
        whole(images()),
    )
    some_loss(encoded).backward()
    some_loss(expected).backward()
    torch.testing.assert_close(encoded.embeddings, expected.embeddings)
    for found, wanted in zip(network.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(found.grad, wanted.grad)


@pytest.mark.parametrize("n_networks", [2, 3])
def test_running_statistics_are_the_means_of_all_parts(
    workers: ThreadPoolExecutor, n_networks: int
) -> None:
    network = a_network()
    in_parts = NetworkInParts(network, encode, workers, n_networks)  # a third has no rows
    alone = [copy.deepcopy(network) for _ in range(2)]
    some_loss(in_parts(images().chunk(2))).backward()
    for one, part in zip(alone, images().chunk(2), strict=True):
        one(part)
    for name, found in network.named_buffers():
        if found.is_floating_point():
            parts = [dict(one.named_buffers())[name] for one in alone]
            torch.testing.assert_close(found, torch.stack(parts).mean(dim=0))
            assert not torch.equal(parts[0], parts[1])
    for mine, *others in zip(*(one.buffers() for one in in_parts.networks), strict=True):
        assert not mine.is_floating_point() or all(torch.equal(mine, other) for other in others)


def test_all_parts_see_weights_change(workers: ThreadPoolExecutor) -> None:
    network = a_network()
    in_parts = NetworkInParts(network, encode, workers, 2)
    before = in_parts(images().chunk(2)).embeddings
    with torch.no_grad():
        for weight in network.parameters():
            weight.mul_(1.1)
    changed = (in_parts(images().chunk(2)).embeddings - before).abs().amax(dim=1)
    assert (changed > 0).all()


def test_what_the_loss_does_not_use_gets_no_gradient(workers: ThreadPoolExecutor) -> None:
    network = a_network()
    NetworkInParts(network, encode, workers, 2)(images().chunk(2)).features.sum().backward()
    assert all(weight.grad is None for weight in network.head.parameters())
    assert all(weight.grad is not None for weight in network.encoder.parameters())


def test_an_error_in_a_part_is_raised(workers: ThreadPoolExecutor) -> None:
    def broken(_network: Network, rows: Tensor) -> Encoded:
        raise ValueError(f"{len(rows)} rows")

    with pytest.raises(ValueError, match="6 rows"):
        NetworkInParts(a_network(), broken, workers, 2)(images().chunk(2))


def test_gradients_of_a_second_step_do_not_hold_those_of_the_first(
    workers: ThreadPoolExecutor,
) -> None:
    network = a_network()
    in_parts = NetworkInParts(network, encode, workers, 3)
    found = []
    for _ in range(2):
        network.zero_grad()
        in_parts(images().chunk(3)).features.sum().backward()
        found.append([w.grad.clone() for w in network.parameters() if w.grad is not None])
    for first, second in zip(*found, strict=True):
        torch.testing.assert_close(first, second)


def test_a_compiled_network_sees_all_rows_at_once() -> None:
    with pytest.raises(SettingsError, match=r"compile and batch\.parts=2 cannot go together"):
        tiny_settings(compile=True)


@pytest.mark.parametrize("parts", [0, 13])
def test_there_are_at_most_as_many_parts_as_images(parts: int) -> None:
    with pytest.raises(SettingsError, match=rf"batch\.parts={parts}: choose 1 .*images=12"):
        replace(tiny_settings().batch, parts=parts)
