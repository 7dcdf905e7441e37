"""The rows of a step in parts, which threads take through the network side by side.

Torch shares out every single operation among its threads and waits for the last of them, hundreds
of times a step. For a small network on a CPU much of the time is that waiting. Threads that take a
part of the rows each, through all of the network, wait for each other twice a step.

The parts share the weights. Batch norm sees one part at a time (as it does on several GPUs), and
its running statistics are the means of all. How many parts there are is a setting of the run: on
any number of cores the result is the same. A network with dropout draws of the one generator that
torch has for all threads, so its parts go one after the other.
"""

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, cast

import torch
from torch import Tensor, nn

from oddone.encoders import Encoded, Network


class NetworkInParts:
    """A network through which threads take parts of the rows."""

    def __init__(
        self,
        network: Network,
        encode: Callable[[Network, Any], Encoded],
        workers: Executor,
        n_parts: int,
    ) -> None:
        self.networks = (network, *(_twin(network) for _ in range(n_parts - 1)))
        self.encode = encode
        self.workers = workers

    def __call__(self, parts: Sequence[Any], *, in_turn: bool = False) -> Encoded:
        """Return what `encode` makes of all parts; gradients flow back in parts too.

        `in_turn`, this thread takes one part after the other: with the same result, unless the
        network draws random numbers.
        """
        anchor = torch.empty(0, requires_grad=True)  # or torch would see nothing to differentiate
        apply = cast("Callable[..., tuple[Tensor, Tensor]]", _SideBySide.apply)
        return Encoded(*apply(anchor, parts, self, map if in_turn else self.workers.map))

    def backward(self, encoded: Sequence[Encoded], upstream: Sequence[Tensor | None]) -> None:
        """Let gradients flow from the parts of the rows to the weights."""
        given = {place: flow for place, flow in enumerate(upstream) if flow is not None}
        rows = [len(part.features) for part in encoded]
        parts = zip(*(flow.split(rows) for flow in given.values()), strict=True)

        def through_part(part: Encoded, gradients: Sequence[Tensor]) -> None:
            flow_back(part, dict(zip(given, gradients, strict=True)))

        list(self.workers.map(through_part, encoded, parts))
        self._add_gradients()
        self._share_statistics(len(encoded))

    @torch.no_grad()
    def _add_gradients(self) -> None:
        """Add up the gradients of all parts, always in the same order, whoever was first."""
        for own, *others in zip(*(each.parameters() for each in self.networks), strict=True):
            for other in others:
                if other.grad is not None:
                    own.grad = other.grad if own.grad is None else own.grad.add_(other.grad)
                    other.grad = None

    def _share_statistics(self, n_parts: int) -> None:
        """Give all networks the mean of the running statistics of those that saw a part."""
        mine, *others = (
            [numbers for numbers in network.buffers() if numbers.is_floating_point()]
            for network in self.networks
        )
        if not mine:
            return
        for other in others[: n_parts - 1]:
            torch._foreach_add_(mine, other)
        torch._foreach_div_(mine, n_parts)
        for other in others:
            torch._foreach_copy_(other, mine)


def flow_back(encoded: Encoded, gradients: Mapping[int, Tensor]) -> None:
    """Let the gradients of some outputs, by their places, flow to the weights."""
    # Not of the features of a frozen encoder.
    learned = [place for place in gradients if encoded[place].requires_grad]
    torch.autograd.backward(
        [encoded[place] for place in learned], [gradients[place] for place in learned]
    )


class _SideBySide(torch.autograd.Function):
    """All passes through the networks; gradients of the weights add up where they always do."""

    @staticmethod
    def forward(
        ctx: Any,
        _anchor: Tensor,
        parts: Sequence[Any],
        in_parts: NetworkInParts,
        map_parts: Callable[..., Iterable[Encoded]],
    ) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.in_parts = in_parts
        with torch.enable_grad():  # as in the workers' threads
            ctx.encoded = list(map_parts(in_parts.encode, in_parts.networks, parts))
        features, embeddings = zip(*ctx.encoded, strict=True)
        return torch.cat(features), torch.cat(embeddings)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *upstream: Tensor | None) -> tuple[None, None, None, None]:
        ctx.in_parts.backward(ctx.encoded, upstream)
        return None, None, None, None


def _twin(network: Network) -> Network:
    """Return a network whose weights lie in the same memory, with gradients and buffers apart."""
    shared = {
        id(weight): nn.Parameter(weight.detach(), requires_grad=weight.requires_grad)
        for weight in network.parameters()
    }
    return copy.deepcopy(network, cast("dict[int, Any]", shared))
