"""Batch norm over the rows of all processes, on CPUs too, which `nn.SyncBatchNorm` refuses."""

from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from oddone import distributed

if TYPE_CHECKING:
    from collections.abc import Callable


@distributed.when_several
def share_batch_norm(network: nn.Module) -> None:
    """Let the batch norm of a network see the rows of all processes."""
    for parent in list(network.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, _BatchNorm):
                parent.register_module(name, SharedBatchNorm(child))


class SharedBatchNorm(_BatchNorm):
    """Batch norm over the rows of all processes, with weights and statistics of another module."""

    def __init__(self, other: _BatchNorm) -> None:
        super().__init__(
            other.num_features,
            other.eps,
            other.momentum,
            other.affine,
            other.track_running_stats,
            device="meta",
        )
        self._parameters, self._buffers = other._parameters, other._buffers  # noqa: SLF001
        self.train(other.training)

    def forward(self, rows: Tensor) -> Tensor:
        """Return the rows normalised by the statistics of all, or in evaluation by those kept."""
        if not (self.training or self.running_mean is None):
            return super().forward(rows)
        weight, bias = self.weight, self.bias
        if weight is None:
            weight, bias = rows.new_ones(self.num_features), rows.new_zeros(self.num_features)
        of_all = cast("Callable[..., tuple[Tensor, ...]]", _BatchNormOfAll.apply)
        normalised, mean, variance, number = of_all(rows, weight, bias, self.eps)
        if self.training and self.running_mean is not None:
            self._update(mean, variance * number / (number - 1).clamp(min=1))
        return normalised

    def _check_input_dim(self, rows: Tensor) -> None:
        """Take rows of any shape: the module in whose place this is has checked nothing yet."""

    @torch.no_grad()
    def _update(self, mean: Tensor, variance: Tensor) -> None:
        assert self.running_mean is not None  # noqa: S101
        assert self.running_var is not None  # noqa: S101
        assert self.num_batches_tracked is not None  # noqa: S101
        self.num_batches_tracked.add_(1)
        share = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean), share)
        self.running_var.lerp_(variance.to(self.running_var), share)


class _BatchNormOfAll(torch.autograd.Function):
    """Batch norm with torch's kernels for given statistics, and what the statistics add to it."""

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor, eps: float
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        dims = [0, *range(2, rows.ndim)]
        wide = rows if rows.dtype == torch.float64 else rows.float()
        variance, mean = torch.var_mean(wide, dims, correction=0)
        own = torch.full_like(mean, rows.numel() / rows.shape[1])
        each = distributed.gather_rows(torch.stack([own, mean, variance])[None])
        numbers, means, variances = each.unbind(dim=1)
        number = numbers.sum(dim=0)
        mean = (numbers * means).sum(dim=0) / number
        variance = (numbers * (variances + (means - mean).square())).sum(dim=0) / number
        ctx.save_for_backward(rows, weight, mean, variance, number)
        ctx.eps = eps
        ctx.mark_non_differentiable(mean, variance, number)
        normalised = nn.functional.batch_norm(rows, mean, variance, weight, bias, eps=eps)
        return normalised, mean, variance, number

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: Tensor, *_: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        rows, weight, mean, variance, number = ctx.saved_tensors
        # As if mean and variance were given; then what changes because they follow from the rows.
        flow, of_weight, of_bias = torch.ops.aten.native_batch_norm_backward(
            *(upstream, rows, weight, mean, variance, None, None),
            train=False,
            eps=ctx.eps,
            output_mask=[True] * 3,
        )
        sums = distributed.sum_of_all(torch.stack([of_weight, of_bias])) / number
        scale = (variance + ctx.eps).rsqrt()
        slope = weight * sums[0] * scale.square()
        level = weight * sums[1] * scale - slope * mean
        shape = [1, -1] + [1] * (rows.ndim - 2)
        flow = flow - (rows * slope.view(shape) + level.view(shape)).to(flow.dtype)
        return flow, of_weight, of_bias, None
