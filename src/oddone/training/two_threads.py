"""The rows of a step in two halves, each taken through the network by a thread of its own.

Torch shares out every single operation among its threads and waits for the last of them, hundreds
of times a step. For a small network on a CPU much of the time is that waiting. Two threads that
take one half of the rows each, through all of the network, wait for each other twice a step.

The halves share the weights. Batch norm sees one half at a time (as it does on several GPUs), and
its running statistics are the means of both.
"""

import copy
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any, cast

import torch
from torch import Tensor

from oddone.encoders import Encoded, Network


class TwoThreadNetwork:
    """A network through which two threads take half of the rows each."""

    def __init__(
        self, network: Network, encode: Callable[[Network, Any], Encoded], workers: Executor
    ) -> None:
        self.networks = (network, _twin(network))
        self.encode = encode
        self.workers = workers

    def __call__(self, first: Any, second: Any) -> Encoded:
        """Return what `encode` makes of both halves; gradients flow back in halves too."""
        anchor = torch.empty(0, requires_grad=True)  # or torch would see nothing to differentiate
        both = cast("Callable[..., tuple[Tensor, Tensor]]", _BothThreads.apply)
        return Encoded(*both(anchor, (first, second), self))

    def backward(self, encoded: Sequence[Encoded], upstream: Sequence[Tensor | None]) -> None:
        """Let gradients flow from the halves of the rows to the weights."""
        given = {place: flow for place, flow in enumerate(upstream) if flow is not None}
        rows = [len(half.features) for half in encoded]
        parts = zip(*(flow.split(rows) for flow in given.values()), strict=True)

        def flow_back(half: Encoded, gradients: Sequence[Tensor]) -> None:
            outputs: list[Tensor] = []
            flows: list[Tensor] = []
            for place, gradient in zip(given, gradients, strict=True):
                if half[place].requires_grad:  # not the features of a frozen encoder
                    outputs.append(half[place])
                    flows.append(gradient)
            torch.autograd.backward(outputs, flows)

        list(self.workers.map(flow_back, encoded, parts))
        self._share_statistics()

    def _share_statistics(self) -> None:
        """Give both networks the mean of their running statistics, which no gradient needs now."""
        mine, other = (
            [numbers for numbers in network.buffers() if numbers.is_floating_point()]
            for network in self.networks
        )
        if mine:
            torch._foreach_lerp_(mine, other, 0.5)
            torch._foreach_copy_(other, mine)


class _BothThreads(torch.autograd.Function):
    """Both passes through both networks; gradients of the weights add up where they always do.

    Two numbers have the same sum in either order, so it does not matter which half is done first.
    """

    @staticmethod
    def forward(
        ctx: Any, _anchor: Tensor, parts: tuple[Any, Any], both: TwoThreadNetwork
    ) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.both = both
        ctx.encoded = list(both.workers.map(both.encode, both.networks, parts))
        features, embeddings = zip(*ctx.encoded, strict=True)
        return torch.cat(features), torch.cat(embeddings)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *upstream: Tensor | None) -> tuple[None, None, None]:
        ctx.both.backward(ctx.encoded, upstream)
        return None, None, None


def _twin(network: Network) -> Network:
    """Return a network with the same weights, not equal ones, and buffers of its own."""
    return copy.deepcopy(network, {id(weight): weight for weight in network.parameters()})
