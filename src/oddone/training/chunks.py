"""Batches larger than memory: rows go through the network in chunks, twice.

The first time without what the gradient needs, to have the embeddings of all rows and the loss of
all of them. The second time chunk by chunk, to let the gradient of that loss flow back. Then there
is never more in memory than one chunk needs, and the embeddings (Gao, Zhang, Han and Callan,
"Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup", 2021: gradient cache).

Batch norm sees one chunk at a time, as with parts (`parts.py`), and its running statistics are the
means of all chunks: one step of `batch.chunk` is one of as many `batch.parts`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn

from oddone.device import release_freed_memory
from oddone.encoders import Encoded, Network
from oddone.training.parts import flow_back


class NetworkInChunks:
    """A network through which rows go one chunk after the other."""

    def __init__(self, network: Network, encode: Callable[[Network, Any], Encoded]) -> None:
        self.network = network
        self.encode = encode

    def __call__(self, chunks: Sequence[Any]) -> Encoded:
        """Return what `encode` makes of all chunks; gradients flow back through them in turn."""
        anchor = torch.empty(0, requires_grad=True)  # or torch would see nothing to differentiate
        one_by_one = cast("Callable[..., tuple[Tensor, Tensor]]", _OneByOne.apply)
        return Encoded(*one_by_one(anchor, chunks, self))


class _OneByOne(torch.autograd.Function):
    """All passes through the network; gradients of the weights add up where they always do."""

    @staticmethod
    def forward(
        ctx: Any, _anchor: Tensor, chunks: Sequence[Any], in_chunks: NetworkInChunks
    ) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.in_chunks, ctx.chunks, ctx.states = in_chunks, chunks, []
        statistics = _MeanStatistics(in_chunks.network)
        encoded = []
        for chunk in chunks:
            ctx.states.append(_RandomState.now())
            with statistics.of_chunk():
                encoded.append(in_chunks.encode(in_chunks.network, chunk))
        statistics.keep_mean()
        features, embeddings = zip(*encoded, strict=True)
        ctx.rows = [len(part) for part in features]
        return torch.cat(features), torch.cat(embeddings)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *upstream: Tensor | None) -> tuple[None, None, None]:
        given = {place: flow for place, flow in enumerate(upstream) if flow is not None}
        flows = zip(*(flow.split(ctx.rows) for flow in given.values()), strict=True)
        network = ctx.in_chunks.network
        kept = [numbers.clone() for numbers in network.buffers()]
        for chunk, state, gradients in zip(ctx.chunks, ctx.states, flows, strict=True):
            release_freed_memory()  # gaps that the chunk before has left, then those of this one
            with state.again(), torch.enable_grad():
                encoded = ctx.in_chunks.encode(network, chunk)
            release_freed_memory()
            flow_back(encoded, dict(zip(given, gradients, strict=True)))
        for numbers, before in zip(network.buffers(), kept, strict=True):
            numbers.copy_(before)  # the second passes are no news to batch norm
        return None, None, None


class _MeanStatistics:
    """The statistics of batch norm, which every chunk changes from where the step began.

    Buffers that no chunk changes stay as they are: they may be masks, which do not subtract.
    """

    def __init__(self, network: nn.Module) -> None:
        self.now = list(network.buffers())
        self.before = [numbers.clone() for numbers in self.now]
        self.changes: dict[int, Tensor] = {}
        """The sum of the changes of each buffer that was changed, by its place."""
        self.chunks = 0

    @contextmanager
    def of_chunk(self) -> Iterator[None]:
        """Note how a chunk changes the statistics, and undo it."""
        yield
        self.chunks += 1
        for place, (numbers, before) in enumerate(zip(self.now, self.before, strict=True)):
            if torch.equal(numbers, before):
                continue
            change = numbers - before
            if place in self.changes and numbers.is_floating_point():
                change += self.changes[place]
            self.changes[place] = change  # how many batches were seen: a step is one
            numbers.copy_(before)

    def keep_mean(self) -> None:
        """Let the statistics change by the mean of all chunks."""
        for place, change in self.changes.items():
            numbers = self.now[place]
            numbers.add_(change / self.chunks if numbers.is_floating_point() else change)


class _RandomState:
    """Where torch's generators are, so that dropout drops the same twice."""

    def __init__(self, cpu: Tensor, cuda: Sequence[Tensor]) -> None:
        self.cpu, self.cuda = cpu, cuda

    @staticmethod
    def now() -> "_RandomState":
        cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
        return _RandomState(torch.get_rng_state(), cuda)

    @contextmanager
    def again(self) -> Iterator[None]:
        """Go back there for a while."""
        with torch.random.fork_rng(devices=range(len(self.cuda))):
            torch.set_rng_state(self.cpu)
            if self.cuda:
                torch.cuda.set_rng_state_all(list(self.cuda))
            yield
