"""Batches larger than memory: chunk by chunk, with the gradient of the whole batch."""

import copy
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from comparing import assert_same_weights, begun, losses, train_until
from torch import Tensor, nn

from oddone.encoders import Encoded, ModelSettings, Network, build_network
from oddone.losses import MCLSettings, mcl_loss
from oddone.training import TrainSettings, train_network
from oddone.training.chunks import NetworkInChunks
from oddone.training.parts import NetworkInParts
from runs import tiny_settings, tiny_source


def a_network(encoder: str | nn.Module = "resnet10-w16") -> Network:
    torch.manual_seed(0)
    return build_network(encoder, ModelSettings(head_hidden=16, head_dim=8), 16).double()


def encode(network: Network, rows: Tensor) -> Encoded:
    encoded: Encoded = network(rows)
    return encoded


def images(rows: int = 22) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.rand(rows, 3, 16, 16, generator=generator, dtype=torch.float64)


def gradients_of(network: Network, encoded: Encoded) -> list[Tensor]:
    """Return the gradients of the MCL loss and of something of the features."""
    parents = torch.arange(len(encoded.embeddings) // 2).repeat(2)
    settings = MCLSettings(alpha=0.5)
    loss = mcl_loss(encoded.embeddings, parents % 3, parents % 4, parents, settings).total
    network.zero_grad()
    (loss + encoded.features.square().mean()).backward()
    return [weight.grad for weight in network.parameters() if weight.grad is not None]


def assert_same(found: list[Tensor], wanted: list[Tensor], most: float = 1e-9) -> None:
    assert len(found) == len(wanted) > 0
    for one, other in zip(found, wanted, strict=True):
        assert (one - other).norm() <= most * other.norm().clamp(min=1e-12)


@pytest.mark.parametrize("chunk", [4, 7, 22])
def test_with_batch_norm_in_evaluation_chunks_are_the_whole_batch(chunk: int) -> None:
    network = a_network().eval()
    wanted = gradients_of(network, network(images()))
    encoded = NetworkInChunks(network, encode)(images().split(chunk))
    torch.testing.assert_close(encoded.embeddings, network(images()).embeddings)
    assert_same(gradients_of(network, encoded), wanted)


def test_in_training_batch_norm_sees_a_chunk_at_a_time_as_it_sees_parts() -> None:
    network, oracle = a_network().train(), a_network().train()
    with ThreadPoolExecutor(1) as workers:
        in_parts = NetworkInParts(oracle, encode, workers, 4)
        wanted = gradients_of(oracle, in_parts(images().tensor_split(4)))
    encoded = NetworkInChunks(network, encode)(images().tensor_split(4))
    assert_same(gradients_of(network, encoded), wanted)
    for name, numbers in network.named_buffers():
        torch.testing.assert_close(numbers, dict(oracle.named_buffers())[name], rtol=1e-9, atol=0)


def test_what_is_dropped_is_dropped_again_in_the_second_pass() -> None:
    encoder = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(3 * 16 * 16, 10))
    network = a_network(encoder).train()
    torch.manual_seed(5)
    encoded = NetworkInChunks(network, encode)(images().split(5))
    found = [gradient.clone() for gradient in gradients_of(network, encoded)]
    torch.manual_seed(5)
    passes = [network(part) for part in images().split(5)]
    whole = Encoded(*(torch.cat(outputs) for outputs in zip(*passes, strict=True)))
    assert_same(found, gradients_of(network, whole))


class Masked(nn.Module):
    """An encoder with masks: buffers that no pass changes, and that do not subtract."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, 10), nn.BatchNorm1d(10))
        self.register_buffer("kept", torch.arange(10) > 2)
        self.register_buffer("blocked", torch.tensor([-torch.inf, 0.0]))

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.layers(images) * self.get_buffer("kept")
        return features


def test_masks_are_not_taken_for_statistics() -> None:
    network = a_network(Masked()).train()
    oracle = copy.deepcopy(network)
    with ThreadPoolExecutor(1) as workers:
        in_parts = NetworkInParts(oracle, encode, workers, 2)
        wanted = gradients_of(oracle, in_parts(images().tensor_split(2)))
    encoded = NetworkInChunks(network, encode)(images().tensor_split(2))
    assert_same(gradients_of(network, encoded), wanted)
    buffers = dict(network.named_buffers())
    assert buffers["encoder.kept"].tolist() == [False] * 3 + [True] * 7
    assert buffers["encoder.blocked"].tolist() == [-torch.inf, 0.0]
    assert buffers["encoder.layers.2.running_mean"].any()
    assert buffers["encoder.layers.2.num_batches_tracked"] == 1


def test_a_frozen_encoder_keeps_its_statistics_bit_for_bit() -> None:
    network = a_network()
    network.freeze_all_but("head")
    network.train()
    before = copy.deepcopy(dict(network.encoder.named_buffers()))
    gradients_of(network, NetworkInChunks(network, encode)(images().split(5)))
    for name, numbers in network.encoder.named_buffers():
        assert torch.equal(numbers, before[name])
    assert all(weight.grad is None for weight in network.encoder.parameters())


def chunked_settings(**changes: object) -> TrainSettings:
    settings = tiny_settings(**changes)
    return replace(settings, batch=replace(settings.batch, parts=1, chunk=6))


def test_a_run_in_chunks_is_one_in_as_many_parts(tmp_path: Path) -> None:
    chunked = begun(tmp_path / "chunks", chunked_settings(steps=2))
    settings = chunked_settings(steps=2)
    settings = replace(settings, batch=replace(settings.batch, parts=4, chunk=None))
    parts = begun(tmp_path / "parts", settings)
    for run in (chunked, parts):
        train_network(tiny_source(), run.settings, run)
    torch.testing.assert_close(losses(chunked), losses(parts), rtol=1e-4, atol=0)


def test_a_run_in_chunks_that_was_stopped_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    whole, stopped = (begun(tmp_path / name, chunked_settings(steps=3)) for name in ("a", "b"))
    train_network(tiny_source(), whole.settings, whole)
    train_until(1, tiny_source(), stopped)
    train_network(tiny_source(), stopped.settings, stopped)
    assert_same_weights(whole, stopped)


def test_in_chunks_features_that_no_classifier_needs_are_gone_before_the_second_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, remembered, kept = NetworkInChunks.__call__, [], []

    def encode_all(in_chunks: NetworkInChunks, chunks: Sequence[Any]) -> Encoded:
        encoded = call(in_chunks, chunks)
        remembered.append(weakref.ref(encoded.features))
        return encoded

    monkeypatch.setattr(NetworkInChunks, "__call__", encode_all)
    monkeypatch.setattr(
        "oddone.training.chunks.release_freed_memory",
        lambda: kept.append(remembered[-1]() is not None),
    )
    run = begun(tmp_path / "run", chunked_settings(steps=2))
    train_network(tiny_source(), run.settings, run)
    assert len(remembered) == 2
    assert not any(kept)
    assert kept
