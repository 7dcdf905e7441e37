"""What a step costs, measured on a few rows: memory and time, before a long run begins."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from oddone.encoders import build_network
from oddone.rng import drawing_from, stream
from oddone.training.settings import TrainSettings

ROWS = 8
COPIES_OF_VIEWS = 6
"""How often the pixels of a view are in memory at a time, as floats: posed, cropped, coloured, and
in the next batch."""
SPARE = 1.5
"""What a step takes at its peak, by what it keeps for the gradient; the gradient itself and work
space of convolutions come on top. Measured: 1.47 (resnet10-w16) and 1.17 (efficientnet-lite0)."""


class RowCost(NamedTuple):
    """What each row of a batch costs."""

    bytes_per_row: float
    """Of memory, at the peak of a step."""
    seconds_per_row: float
    """On the CPU, there and back through the network."""


def measure_cost(
    settings: TrainSettings, image_size: int, encoder: nn.Module | None = None
) -> RowCost:
    """Return what a row of a batch costs, by taking a few of them through a new network.

    That is on the encoder which the settings name, or on a copy of one of the user's own.
    """
    with drawing_from(stream(0, "cost")):
        named_or_own = settings.model.encoder_name if encoder is None else encoder
        network = build_network(named_or_own, settings.model, image_size)
        images = torch.rand(ROWS, 3, image_size, image_size)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    network.freeze_all_but(settings.model.trained_part)
    network.train()
    images = images.contiguous(memory_format=torch.channels_last)
    with drawing_from(stream(0, "cost of a pass")):
        with _kept_for_gradient(network) as kept:
            network(images).embeddings.square().sum().backward()
        began = time.perf_counter()  # the second pass: the first one also has to ask for memory
        network(images).embeddings.square().sum().backward()
        seconds = time.perf_counter() - began
    views = 4 * images[0].numel() * COPIES_OF_VIEWS
    return RowCost(SPARE * (sum(kept.values()) / ROWS + views), seconds / ROWS)


@contextmanager
def _kept_for_gradient(network: nn.Module) -> Iterator[dict[int, int]]:
    """Yield the bytes of each memory block that is kept for the gradient, weights left out."""
    weights = {_block(weight) for weight in network.parameters()}
    kept: dict[int, int] = {}

    def pack(numbers: Tensor) -> Tensor:
        if _block(numbers) not in weights:
            kept[_block(numbers)] = numbers.untyped_storage().nbytes()
        return numbers

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda numbers: numbers):
        yield kept


def _block(numbers: Tensor) -> int:
    return numbers.untyped_storage().data_ptr()
