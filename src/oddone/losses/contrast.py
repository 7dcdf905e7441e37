"""The one primitive under every contrastive loss here: pull the attracted, push the others.

Most pairs of rows in a batch are strangers: they do not attract each other, and they repel at
1/temperature. Only kin (rows of one class, say) need masks. So the rows are sorted by kin and
taken in blocks; the kin of a block's rows then lie in one window of columns:

              all rows, sorted by kin
            ┌───────────┬──────────┬─────────────┐
      block │ strangers │  window  │  strangers  │
            └───────────┴──────────┴─────────────┘

Masks are made for the window alone, and no more than one block's similarities are ever held, so
memory grows with rows, not with rows x rows. The derivative of a block's losses with respect to
its similarities has a closed form (the paper's Appendix A), and is multiplied out at once.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from oddone.losses.masks import Masks, working_dtype

Denominator = Literal["printed", "softmax"]

MaskMaker = Callable[[Int[Tensor, " block"], Int[Tensor, " window"]], Sequence[Masks]]
"""From the row numbers of a block and of its window to one `Masks` per term of the loss."""

# Large enough for efficient matrix products, small enough for a CPU's caches.
CPU_BLOCK_ROWS = 256
DEVICE_BLOCK_ROWS = 2048

# How far below a row's highest logit an absent row's is put: exp(-80) of the denominator is
# nothing even in float64, and unlike exp(-inf) it leaves no NaN where every row is absent.
FAR = 80.0

# The authors' code clamps similarities here, so that negative ones get no gradient.
CLAMP = 1e-7


class Contrast(NamedTuple):
    """A contrastive loss: its terms, each a mean over all rows, and their weighted sum."""

    total: Float[Tensor, ""]
    terms: Float[Tensor, " terms"]


def masked_contrast(
    embeddings: Float[Tensor, "rows dim"],
    kin: Int[Tensor, " rows"],
    masks: MaskMaker,
    temperature: float,
    *,
    weights: Sequence[float] = (1.0,),
    denominator: Denominator = "printed",
    clamp: bool = False,
) -> Contrast:
    """Return the mean over all rows of push minus pull, for each term and as a weighted sum.

    Rows that differ in `kin` are strangers. Among kin, `masks(block, window)` says who attracts
    and who repels whom; it returns one `Masks` per term, and the terms share the similarities.

    With `denominator="printed"` each attracted row pushes as `repel` says, as in the paper, and
    the loss may be negative. With "softmax" the attracted row's own term in the denominator has
    the weight 1/temperature, which makes each pair's loss a cross-entropy.

    The gradient of the total comes along with the loss, that of a single term costs as much
    again. Second derivatives are not available.
    """
    sweep = _Sweep(kin, masks, temperature, denominator, clamp)
    contrast = cast("Callable[..., tuple[Tensor, Tensor]]", _SweptContrast.apply)
    return Contrast(*contrast(normalised(embeddings), sweep, tuple(weights)))


def normalised(embeddings: Float[Tensor, "rows dim"]) -> Float[Tensor, "rows dim"]:
    """Return the embeddings at unit length, in float32 or better.

    A row too short to have a direction in its own precision is passed on as it is, so that its
    gradient stays finite.
    """
    rows = embeddings.to(working_dtype(embeddings))
    length: Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return rows / length.where(length > torch.finfo(embeddings.dtype).tiny, 1.0)


class _SweptContrast(torch.autograd.Function):
    """The sweep as a differentiable function of the unit rows."""

    @staticmethod
    def forward(
        ctx: Any, unit: Tensor, sweep: "_Sweep", weights: tuple[float, ...]
    ) -> tuple[Tensor, Tensor]:
        weighting = unit.new_tensor(weights)
        terms, gradient = sweep(unit, weighting, with_gradient=ctx.needs_input_grad[0])
        ctx.save_for_backward(unit, gradient)
        ctx.sweep = sweep
        ctx.set_materialize_grads(False)
        return (weighting * terms).sum(), terms

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(
        ctx: Any, total_upstream: Tensor | None, terms_upstream: Tensor | None
    ) -> tuple[Tensor | None, None, None]:
        unit, gradient = ctx.saved_tensors
        downstream = None if total_upstream is None else total_upstream * gradient
        if terms_upstream is not None:
            of_terms = ctx.sweep(unit, terms_upstream, with_gradient=True)[1]
            downstream = of_terms if downstream is None else downstream + of_terms
        return downstream, None, None


@dataclass(frozen=True)
class _Sweep:
    """One pass over the blocks of rows."""

    kin: Int[Tensor, " rows"]
    masks: MaskMaker
    temperature: float
    denominator: Denominator
    clamp: bool

    def __call__(
        self,
        unit: Float[Tensor, "rows dim"],
        weights: Float[Tensor, " terms"],
        *,
        with_gradient: bool,
    ) -> tuple[Float[Tensor, " terms"], Float[Tensor, "rows dim"] | None]:
        """Return the terms and the gradient of their weighted sum with respect to the rows."""
        order = self.kin.argsort()
        unit = unit[order]
        losses = unit.new_zeros(len(weights), len(unit))
        gradient = torch.zeros_like(unit) if with_gradient else None
        # Autocast would compute the similarities in half precision.
        with torch.autocast(unit.device.type, enabled=False):
            for block, window in _blocks_and_windows(self.kin[order]):
                logits = (unit[block] / self.temperature) @ unit.mT
                masks = self.masks(order[block], order[window])
                losses[:, block], slopes = self._contrast(logits, window, masks, weights)
                if gradient is not None:
                    gradient[block].addmm_(slopes, unit, alpha=1 / len(unit))
                    gradient.addmm_(slopes.mT, unit[block], alpha=1 / len(unit))
        terms = losses.sum(dim=1) / max(1, len(unit))
        return terms, None if gradient is None else gradient[order.argsort()]

    def _contrast(
        self,
        logits: Float[Tensor, "block rows"],
        window: slice,
        masks: Sequence[Masks],
        weights: Float[Tensor, " terms"],
    ) -> tuple[Float[Tensor, "terms block"], Float[Tensor, "block rows"]]:
        """Return the losses of a block of rows for each term, and the slope of their weighted sum.

        The slope is the derivative with respect to the similarities. It takes the place of the
        logits, which are the similarities over the temperature.
        """
        negative = logits <= CLAMP / self.temperature if self.clamp else None
        if self.clamp:
            logits.clamp_(min=CLAMP / self.temperature)
        similarity = logits[:, window] * self.temperature
        strangers = _strangers(logits, window, lowest=-1 / self.temperature)
        contrast = _printed if self.denominator == "printed" else _softmax

        losses, strain, slope = [], torch.zeros_like(strangers.peak), torch.zeros_like(similarity)
        for mask, weight in zip(masks, weights, strict=True):
            push, p = _push(similarity, mask, self.temperature, strangers.push)
            term = contrast(similarity, mask, self.temperature, push, p)
            losses.append(term.losses)
            strain += weight * term.pressure * (strangers.peak - push).exp() / self.temperature
            slope += term.slope.mul_(weight)
        slopes = strangers.shares.mul_(strain[:, None])
        slopes[:, window] = slope
        if negative is not None:
            slopes.masked_fill_(negative, 0)
        return torch.stack(losses), slopes


def _blocks_and_windows(kin: Int[Tensor, " rows"]) -> Iterator[tuple[slice, slice]]:
    """Yield blocks of the sorted rows, each with the slice that holds all kin of its rows.

    A block ends between two families of kin where it can: the window is then no wider than it.
    """
    _, run, sizes = torch.unique_consecutive(kin, return_inverse=True, return_counts=True)
    ends = sizes.cumsum(dim=0)
    first, last = (ends - sizes)[run].tolist(), ends[run].tolist()
    step = CPU_BLOCK_ROWS if kin.device.type == "cpu" else DEVICE_BLOCK_ROWS
    start = 0
    while start < len(kin):
        end = min(start + step, len(kin))
        if end < len(kin) and first[end] > start:
            end = first[end]
        yield slice(start, end), slice(first[start], last[end - 1])
        start = end


class _Strangers(NamedTuple):
    push: Float[Tensor, " block"]
    """The logarithm of the strangers' part of each row's denominator."""
    shares: Float[Tensor, "block rows"]
    """Each stranger's term in the denominator, over exp(peak); zero in the window."""
    peak: Float[Tensor, " block"]


def _strangers(logits: Float[Tensor, "block rows"], window: slice, lowest: float) -> _Strangers:
    """Return what the rows outside the window add to the denominators. Overwrites the logits."""
    logits[:, window] = lowest  # no higher than any stranger's
    peak = logits.amax(dim=1)
    shares = logits.sub_(peak[:, None]).exp_()
    shares[:, window] = 0
    return _Strangers(peak + shares.sum(dim=1).log(), shares, peak)


def _push(
    similarity: Float[Tensor, "block window"],
    masks: Masks,
    temperature: float,
    stranger_push: Float[Tensor, " block"],
) -> tuple[Float[Tensor, " block"], Float[Tensor, "block window"]]:
    """Return the logarithm of each row's denominator, and the share of it that is each kin's."""
    # No two logits are further apart than 2/temperature.
    logits = (similarity * masks.repel).sub_(masks.absent, alpha=FAR + 2 / temperature)
    peak = logits.amax(dim=1)
    terms = logits.sub_(peak[:, None]).exp_()
    push = torch.logaddexp(peak + terms.sum(dim=1).log(), stranger_push)
    return push, terms.mul_((peak - push).exp()[:, None])


class _Term(NamedTuple):
    losses: Float[Tensor, " block"]
    pressure: Float[Tensor, " block"]
    """The derivative of each row's loss with respect to its push."""
    slope: Float[Tensor, "block window"]
    """The derivative of each row's loss with respect to its similarities in the window."""


def _printed(
    similarity: Float[Tensor, "block window"],
    masks: Masks,
    temperature: float,
    push: Float[Tensor, " block"],
    p: Float[Tensor, "block window"],
) -> _Term:
    """Return push - pull with the denominator as printed (Eq. 4 and 8). Overwrites `p`."""
    pull = torch.linalg.vecdot(masks.attract, similarity) / temperature
    active = masks.attract.sum(dim=1)
    # Appendix A: the repulsion times p, minus the row's share of the attraction.
    slope = p.mul_(masks.repel).mul_(active[:, None]).sub_(masks.attract, alpha=1 / temperature)
    return _Term(active * push - pull, active, slope)


def _softmax(
    similarity: Float[Tensor, "block window"],
    masks: Masks,
    temperature: float,
    push: Float[Tensor, " block"],
    p: Float[Tensor, "block window"],
) -> _Term:
    """Return push - pull with each attracted row's own term at 1/temperature.

    The denominator then differs from pair to pair: that of the pair (i, j) is the printed one of
    row i times `1 - p_ij + exp(s_ij / temperature - push_i)`.
    """
    attracted = masks.attract > 0
    own = similarity / temperature - push[:, None]
    growth = torch.logaddexp(torch.log1p(-p.clamp(max=1)), own).where(attracted, 0.0)
    losses = torch.linalg.vecdot(masks.attract, push[:, None] + growth - similarity / temperature)
    # Each pair's weight over its own denominator, kept inside the floating point range.
    limit = math.log(torch.finfo(p.dtype).max) / 2
    weight = masks.attract * growth.neg().clamp(max=limit).exp()
    own_p = (own - growth).exp().where(attracted, 0.0)
    pressure = weight.sum(dim=1)
    slope = (pressure[:, None] - weight) * masks.repel * p
    slope += masks.attract * (own_p - 1) / temperature
    return _Term(losses, pressure, slope)
