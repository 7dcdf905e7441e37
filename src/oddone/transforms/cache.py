"""How many rows are worked on at a time.

All of a step is done to a few rows before the next rows are touched: what is worked on stays in
the processor's cache, and no large buffer is asked of the system and given back at every step.
"""

import math

from jaxtyping import Float
from torch import Tensor

# How many numbers of images are worked on at a time: 1 MiB of float32.
NUMBERS_AT_ONCE = 2**18


def rows_at_once(images: Float[Tensor, "rows 3 height width"]) -> int:
    """Return how many rows stay in the cache together, at least one."""
    return 1 + NUMBERS_AT_ONCE // max(1, math.prod(images.shape[1:]))
