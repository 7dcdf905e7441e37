"""How the learning rate follows the length of a run."""

import math

from oddone.training.settings import OptimiserSettings


def learning_rate(optimiser: OptimiserSettings, share: float) -> float:
    """Return the learning rate when so much of the run is done: up in a line, down by a cosine."""
    share, warm_up = min(share, 1.0), optimiser.warm_up
    if share < warm_up:
        return optimiser.learning_rate * share / warm_up
    falling = (1 + math.cos(math.pi * (share - warm_up) / (1 - warm_up))) / 2
    left = optimiser.final_share + (1 - optimiser.final_share) * falling
    return optimiser.learning_rate * left
