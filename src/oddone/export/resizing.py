"""Pillow's resizing as products of matrices: the same bytes, in any graph of tensors.

Pillow resizes along one axis, rounds to bytes, and resizes along the other. Each new pixel is a sum
of old ones, with weights in whole 2^-22ths. Sums of so few bits are exact in doubles.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from jaxtyping import Float64, UInt8
from torch import Tensor

ONE = 2.0**22
"""What the weights of a new pixel add up to: those of Pillow are whole numbers."""
Resize: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]
Number: TypeAlias = Any
"""An int or float; while torch traces, its symbol for one."""


def central_square(
    images: UInt8[Tensor, "images height width 3"], size: int
) -> Float64[Tensor, "images 3 size size"]:
    """Return what `oddone.data.decode.central_square` makes of each image, as whole numbers."""
    height, width = images.shape[1], images.shape[2]
    side = torch.sym_min(height, width)
    down = _weights(height, side, size)
    across = _weights(width, side, size).mT.contiguous()
    pixels = images.permute(0, 3, 1, 2).double()
    # As Pillow 13 does; before that, only pictures a hundred times as high as wide were reduced in
    # height first. The other order differs by one level of grey here and there.
    taller = torch.scalar_tensor(height) - size
    wider = torch.scalar_tensor(width) - size
    height_first = taller > (2 * wider).clamp(min=0)
    # Lambdas, as functions are wrapped where the tests check shapes, and cannot be traced then.
    orders: tuple[Resize, Resize] = (
        lambda old, down, across: ((down @ old / ONE + 0.5).floor() @ across / ONE + 0.5).floor(),
        lambda old, down, across: (down @ (old @ across / ONE + 0.5).floor() / ONE + 0.5).floor(),
    )
    if not torch.compiler.is_exporting():
        return orders[0 if height_first else 1](pixels, down, across)
    resized: Tensor = torch.cond(height_first, *orders, (pixels, down, across))
    return resized


def _weights(pixels: Number, side: Number, size: int) -> Float64[Tensor, "size pixels"]:
    """Return how much of each old pixel is in each new one: triangles, as wide as is reduced.

    Whole numbers become tensors before they are divided: the quotient of two symbols would be a
    float of 32 bits in an exported graph, which is not exact enough.
    """
    start, scale = (_double(pixels) - _double(side)) / 2, _double(side) / size
    centres = start + (torch.arange(size, dtype=torch.float64) + 0.5) * scale
    places = torch.arange(pixels, dtype=torch.float64) + 0.5
    triangles = (1 - ((places - centres[:, None]) / scale.clamp(min=1)).abs()).clamp(min=0)
    shares = triangles / triangles.sum(dim=1, keepdim=True)
    return torch.floor(shares * ONE + 0.5)


def _double(number: Number) -> Float64[Tensor, ""]:
    return torch.scalar_tensor(number, dtype=torch.float64)
