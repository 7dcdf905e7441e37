"""Muon: steps of equal length in all directions that a matrix of weights can take.

Keller Jordan et al., "Muon: An optimizer for hidden layers in neural networks" (2024). The momentum
of a matrix is replaced by the nearest matrix with orthogonal rows or columns, so that rare
directions are learned as fast as common ones. `torch.optim.Muon` takes matrices only; the filters
of a convolution are one, with a row for each filter.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

ITERATIONS = 3
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the polynomial that moves all singular values towards 1; the authors chose them for speed."""
SGD_SHARE = 0.5
"""The learning rate of all other weights, as a share of that of filters."""


class Muon(torch.optim.Optimizer):
    """Muon for the filters of convolutions, SGD with Nesterov's momentum for all other weights.

    Filters keep the length that they begin with, as batch norm would undo any other; so they need
    no weight decay. Biases and the scales of batch norm have none either.
    """

    def __init__(
        self, params: Iterable[Any], *, lr: float, momentum: float, weight_decay: float
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Change all weights that have a gradient."""
        if closure is not None:
            raise TypeError("Muon takes one gradient a step; call step() without a closure")
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    change = _turn_filters if is_filters(weight) else _descend
                    change(weight, weight.grad, self.state[weight], group)


def is_filters(weight: Tensor) -> bool:
    """Return whether a weight is that of a convolution that mixes channels."""
    return weight.ndim == 4 and weight.shape[1] > 1


def orthogonalise(matrix: Float[Tensor, "rows columns"]) -> Float[Tensor, "rows columns"]:
    """Return about the nearest matrix with orthonormal rows, or columns where those are fewer.

    A few steps of a Newton-Schulz iteration, without a singular value decomposition: the singular
    values of the matrix, unless they are very small, end near 1.
    """
    a, b, c = COEFFICIENTS
    tall = matrix.shape[0] > matrix.shape[1]
    current = matrix.mT if tall else matrix
    current = current / (current.norm() + 1e-7)
    for _ in range(ITERATIONS):
        square = current @ current.mT
        current = a * current + (b * square + c * square @ square) @ current
    return torch.transpose(current, 0, 1) if tall else current


def _turn_filters(
    weight: Tensor, gradient: Tensor, state: dict[str, Tensor], group: dict[str, Any]
) -> None:
    direction = orthogonalise(_nesterov(gradient, state, group["momentum"]).flatten(1))
    length = weight.norm()
    weight.add_(direction.view_as(weight), alpha=-group["lr"])
    weight.mul_(length / weight.norm())


def _descend(
    weight: Tensor, gradient: Tensor, state: dict[str, Tensor], group: dict[str, Any]
) -> None:
    if weight.ndim > 1:
        gradient = gradient.add(weight, alpha=group["weight_decay"])
    step = _nesterov(gradient, state, group["momentum"])
    weight.add_(step, alpha=-group["lr"] * SGD_SHARE)


def _nesterov(gradient: Tensor, state: dict[str, Tensor], momentum: float) -> Tensor:
    """Return the gradient and those before it, of which torch's SGD keeps the same sum."""
    if "momentum_buffer" not in state:
        state["momentum_buffer"] = torch.zeros_like(gradient)
    kept = state["momentum_buffer"].mul_(momentum).add_(gradient)
    return gradient.add(kept, alpha=momentum)
