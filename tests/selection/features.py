"""Features as an encoder might make them."""

import torch
from torch import Tensor
from torch.nn.functional import normalize


def clusters(
    classes: int = 3, images: int = 60, views: int = 1, *, spread: float = 0.5, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Return unit features that all point to one side, nearer to those of their class; labels.

    The classes are the same whatever the seed, which draws the images. Views are near each other.
    """
    classwise = torch.Generator().manual_seed(99)
    generator = torch.Generator().manual_seed(seed)
    centres = 2 + torch.randn(max(classes, 12), 6, generator=classwise)
    labels = torch.arange(images) % classes
    noise = spread * torch.randn(images, 6, generator=generator)
    jitter = 0.1 * torch.randn(views, images, 6, generator=generator)
    return normalize(centres[labels] + noise + jitter, dim=2), labels
