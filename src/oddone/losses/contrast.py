"""Masked contrast: the one function under SimCLR, SupCLR and MCL, with its gradient.

**The loss.** For unit rows z_i the similarities are s_ik = z_i . z_k. Masks give each pair of rows
a weight of attraction a_ij and a factor of repulsion r_ik, and may leave k out of the sum. A_i is 1
if row i attracts any row and 0 if not; t is the temperature. Then

    D_i    = sum_k exp(r_ik s_ik)                           the denominator (Eq. 4 and 8)
    loss_i = sum_j a_ij (log D_i - s_ij / t)                minus log p (Eq. 5 and 9), averaged over
           = A_i log D_i - sum_j a_ij s_ij / t              the positives j of row i

and a term of the loss is the mean of loss_i over all rows (Eq. 2, 6, 10, 35).

**Its gradient.** With p_ik = exp(r_ik s_ik) / D_i, the share of row k in the denominator,

    d loss_i / d s_ik = A_i r_ik p_ik - a_ik / t

which is what Eq. 23 and 29 are meant to say (see docs/paper.md: as printed their p is another).
It is known as soon as the loss is, so it is multiplied out at once: with the matrix
G_ik = d loss_i / d s_ik / rows, and since s_ik holds both z_i and z_k, the gradient by the rows is
(G + G^T) z.

**Blocks and windows.** The caller names a partition of the rows, their classes for example. Rows of
different parts are plain negatives: a_ik = 0 and r_ik = 1/t, with no need of a mask. So the rows
are sorted by part and taken in blocks. All rows that share a part with a row of the block then lie
in one window of columns, and masks are made for the window alone:

              all rows, sorted by part
            ┌───────────┬──────────┬───────────┐
      block │ negatives │  window  │ negatives │     logits [block rows] = s_ik / t
            └───────────┴──────────┴───────────┘

    D_i = sum_{k outside} exp(s_ik / t) + sum_{k in window} exp(r_ik s_ik)

Never more than the similarities of one block are held, so memory grows with rows, not with
rows x rows.
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
    partition: Int[Tensor, " rows"],
    masks: MaskMaker,
    temperature: float,
    *,
    weights: Sequence[float] = (1.0,),
    denominator: Denominator = "printed",
    clamp: bool = False,
) -> Contrast:
    """Return the mean of loss_i over all rows, for each term and as a weighted sum of the terms.

    Rows with different numbers in `partition` are plain negatives: they do not attract each other
    and repel at 1/temperature. For all other pairs `masks(block, window)` says which rows attract
    and repel each other; it returns one `Masks` per term, and the terms share the similarities.

    With `denominator="printed"` an attracted row's own term in the denominator is as `repel` says,
    as in the paper, and the loss may be negative. With "softmax" that term has the factor
    1/temperature, which makes the loss of each pair a cross-entropy.

    The gradient of the total is computed together with the loss; that of a single term takes as
    long again. Second derivatives are not available.
    """
    blockwise = _BlockwiseLoss(partition, masks, temperature, denominator, clamp)
    contrast = cast("Callable[..., tuple[Tensor, Tensor]]", _ContrastFunction.apply)
    return Contrast(*contrast(normalised(embeddings), blockwise, tuple(weights)))


def normalised(embeddings: Float[Tensor, "rows dim"]) -> Float[Tensor, "rows dim"]:
    """Return the embeddings at unit length, in float32 or better.

    A row too short to have a direction in its own precision is passed on as it is, so that its
    gradient stays finite.
    """
    rows = embeddings.to(working_dtype(embeddings))
    length: Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return rows / length.where(length > torch.finfo(embeddings.dtype).tiny, 1.0)


class _ContrastFunction(torch.autograd.Function):
    """The loss as a differentiable function of the unit rows."""

    @staticmethod
    def forward(
        ctx: Any, unit: Tensor, blockwise: "_BlockwiseLoss", weights: tuple[float, ...]
    ) -> tuple[Tensor, Tensor]:
        term_weights = unit.new_tensor(weights)
        terms, gradient = blockwise(unit, term_weights, with_gradient=ctx.needs_input_grad[0])
        ctx.save_for_backward(unit, gradient)
        ctx.blockwise = blockwise
        ctx.set_materialize_grads(False)
        return (term_weights * terms).sum(), terms

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(
        ctx: Any, total_upstream: Tensor | None, terms_upstream: Tensor | None
    ) -> tuple[Tensor | None, None, None]:
        unit, gradient = ctx.saved_tensors
        downstream = None if total_upstream is None else total_upstream * gradient
        if terms_upstream is not None:
            of_terms = ctx.blockwise(unit, terms_upstream, with_gradient=True)[1]
            downstream = of_terms if downstream is None else downstream + of_terms
        return downstream, None, None


@dataclass(frozen=True)
class _BlockwiseLoss:
    """Loss and gradient of all rows, one block of rows after the other."""

    partition: Int[Tensor, " rows"]
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
        order = self.partition.argsort()
        unit = unit[order]
        losses = unit.new_zeros(len(weights), len(unit))
        gradient = torch.zeros_like(unit) if with_gradient else None
        # Autocast would compute the similarities in half precision.
        with torch.autocast(unit.device.type, enabled=False):
            for block, window in _blocks_and_windows(self.partition[order]):
                logits = (unit[block] / self.temperature) @ unit.mT  # s_ik / t  [block rows]
                masks = self.masks(order[block], order[window])
                losses[:, block], slopes = self._of_block(logits, window, masks, weights)
                if gradient is not None:  # (G + G^T) z, the block's part of it
                    gradient[block].addmm_(slopes, unit, alpha=1 / len(unit))
                    gradient.addmm_(slopes.mT, unit[block], alpha=1 / len(unit))
        terms = losses.sum(dim=1) / max(1, len(unit))
        return terms, None if gradient is None else gradient[order.argsort()]

    def _of_block(
        self,
        logits: Float[Tensor, "block rows"],
        window: slice,
        masks: Sequence[Masks],
        weights: Float[Tensor, " terms"],
    ) -> tuple[Float[Tensor, "terms block"], Float[Tensor, "block rows"]]:
        """Return loss_i for each term, and d loss_i / d s_ik for their weighted sum.

        The derivatives are written over the logits.
        """
        clamped = logits <= CLAMP / self.temperature if self.clamp else None
        if self.clamp:
            logits.clamp_(min=CLAMP / self.temperature)
        similarity = logits[:, window] * self.temperature  # s_ik  [block window]
        negatives = _negatives(logits, window, lowest=-1 / self.temperature)
        loss_of = _printed if self.denominator == "printed" else _softmax

        losses = []
        negative_factor = torch.zeros_like(negatives.peak)  # [block]
        window_slopes = torch.zeros_like(similarity)  # [block window]
        for mask, weight in zip(masks, weights, strict=True):
            pairs = _pairs(similarity, mask, self.temperature, negatives.log_sum)
            term = loss_of(pairs)
            losses.append(term.losses)
            window_slopes += term.slopes.mul_(weight)
            # By the chain rule a negative k has d loss_i / d log D_i times p_ik / t, where
            # p_ik = exp(s_ik / t) / D_i = terms_ik exp(peak_i - log D_i).
            share = (negatives.peak - pairs.log_denominator).exp()
            negative_factor += weight * term.denominator_slope * share / self.temperature
        slopes = negatives.terms.mul_(negative_factor[:, None])
        slopes[:, window] = window_slopes
        if clamped is not None:
            slopes.masked_fill_(clamped, 0)
        return torch.stack(losses), slopes


def _blocks_and_windows(partition: Int[Tensor, " rows"]) -> Iterator[tuple[slice, slice]]:
    """Yield blocks of the sorted rows, each with the slice that holds the parts of its rows.

    A block ends between two parts where it can: the window is then no wider than the block.
    """
    _, run, sizes = torch.unique_consecutive(partition, return_inverse=True, return_counts=True)
    ends = sizes.cumsum(dim=0)
    first, last = (ends - sizes)[run].tolist(), ends[run].tolist()
    step = CPU_BLOCK_ROWS if partition.device.type == "cpu" else DEVICE_BLOCK_ROWS
    start = 0
    while start < len(partition):
        end = min(start + step, len(partition))
        if end < len(partition) and first[end] > start:
            end = first[end]
        yield slice(start, end), slice(first[start], last[end - 1])
        start = end


class _Negatives(NamedTuple):
    """What the rows outside the window add to the denominators of a block."""

    log_sum: Float[Tensor, " block"]
    """log sum_k exp(s_ik / t) over the rows outside the window."""
    terms: Float[Tensor, "block rows"]
    """exp(s_ik / t - peak_i), and zero in the window."""
    peak: Float[Tensor, " block"]
    """At least the highest of a row's logits outside the window, so that nothing overflows."""


def _negatives(logits: Float[Tensor, "block rows"], window: slice, lowest: float) -> _Negatives:
    """Return what the rows outside the window add to the denominators. Overwrites the logits."""
    logits[:, window] = lowest  # no higher than any other logit: it cannot become the peak
    peak = logits.amax(dim=1)
    terms = logits.sub_(peak[:, None]).exp_()
    terms[:, window] = 0
    return _Negatives(peak + terms.sum(dim=1).log(), terms, peak)


class _Pairs(NamedTuple):
    """The pairs of a block and its window in one term of the loss, with their denominators."""

    similarity: Float[Tensor, "block window"]
    """s_ik"""
    masks: Masks
    """a_ik and r_ik"""
    temperature: float
    log_denominator: Float[Tensor, " block"]
    """log D_i, the rows outside the window included."""
    p: Float[Tensor, "block window"]
    """exp(r_ik s_ik) / D_i"""


def _pairs(
    similarity: Float[Tensor, "block window"],
    masks: Masks,
    temperature: float,
    negatives_log_sum: Float[Tensor, " block"],
) -> _Pairs:
    """Return the pairs with D_i, the sum over the window and over the plain negatives."""
    # No two logits are further apart than 2/temperature.
    logits = (similarity * masks.repel).sub_(masks.absent, alpha=FAR + 2 / temperature)
    peak = logits.amax(dim=1)
    terms = logits.sub_(peak[:, None]).exp_()
    log_denominator = torch.logaddexp(peak + terms.sum(dim=1).log(), negatives_log_sum)
    p = terms.mul_((peak - log_denominator).exp()[:, None])
    return _Pairs(similarity, masks, temperature, log_denominator, p)


class _Term(NamedTuple):
    """One term of the loss for the rows of a block, and its derivatives."""

    losses: Float[Tensor, " block"]
    """loss_i"""
    denominator_slope: Float[Tensor, " block"]
    """d loss_i / d log D_i"""
    slopes: Float[Tensor, "block window"]
    """d loss_i / d s_ik"""


def _printed(pairs: _Pairs) -> _Term:
    """Return the loss with the denominator as printed (Eq. 4 and 8). Overwrites `pairs.p`."""
    similarity, masks, temperature, log_denominator, p = pairs
    attraction = torch.linalg.vecdot(masks.attract, similarity) / temperature
    active = masks.attract.sum(dim=1)  # A_i
    losses = active * log_denominator - attraction
    # A_i r_ik p_ik - a_ik / t
    slopes = p.mul_(masks.repel).mul_(active[:, None]).sub_(masks.attract, alpha=1 / temperature)
    return _Term(losses, active, slopes)


def _softmax(pairs: _Pairs) -> _Term:
    """Return the loss with each attracted row's own term at 1/temperature.

    The denominator then differs from pair to pair:

        D_ij = D_i - exp(r_ij s_ij) + exp(s_ij / t) = D_i exp(g_ij)
        g_ij = log(1 - p_ij + exp(s_ij / t) / D_i)

    so that loss_i = sum_j a_ij (log D_i + g_ij - s_ij / t). A row k is in the denominators of all
    pairs (i, j), with r_ik in those where k is not j, and with 1/t in its own:

        d loss_i / d s_ik = r_ik p_ik sum_{j not k} a_ij exp(-g_ij)
                            + a_ik (exp(s_ik / t) / D_ik - 1) / t
    """
    similarity, masks, temperature, log_denominator, p = pairs
    attracted = masks.attract > 0
    own = similarity / temperature - log_denominator[:, None]  # log(exp(s_ij / t) / D_i)
    g = torch.logaddexp(torch.log1p(-p.clamp(max=1)), own).where(attracted, 0.0)
    pair_losses = log_denominator[:, None] + g - similarity / temperature
    losses = torch.linalg.vecdot(masks.attract, pair_losses)
    # a_ij exp(-g_ij), kept inside the floating point range
    limit = math.log(torch.finfo(p.dtype).max) / 2
    weights = masks.attract * g.neg().clamp(max=limit).exp()
    own_p = (own - g).exp().where(attracted, 0.0)  # exp(s_ij / t) / D_ij
    weight_sum = weights.sum(dim=1)
    slopes = (weight_sum[:, None] - weights) * masks.repel * p
    slopes += masks.attract * (own_p - 1) / temperature
    return _Term(losses, weight_sum, slopes)
