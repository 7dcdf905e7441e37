"""A small convolutional network for minutes of a CPU: images to features.

Most of a processor's time in training goes into few, wide matrix products when maps are halved
early, by max-pooling right after the first convolution of a block. The idea and the starting
weights are those of Keller Jordan, "94% on CIFAR-10 in 3.29 Seconds on a Single GPU" (2024).
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from oddone.errors import SettingsError

PATCH = 2
"""Height and width of the patches of the first layer, in pixels."""
WHITENED = 3 * PATCH * PATCH
SMALLEST_VARIANCE = 3e-5
"""What is added to the variance of patches of pixels from 0 to 1: less of it is noise."""
LEAST_PIXELS = 16
"""Three blocks halve the maps three times, and something must be left."""


class PoolNet(nn.Module):
    """Whitened patches, then blocks of two convolutions that each halve the maps.

    Its features are the maximum of each of the last maps, which says what is to be seen, and the
    mean of each map of the block before, which says what it is made of: things of no known class
    are odd in that too (docs/decisions/0006-the-cpu-preset.md).

    The first layer is not trained: `whiten` takes it from images. Until then it is random. No
    gradient has to reach the largest maps, which would take a seventh of a step.
    """

    def __init__(self, widths: Sequence[int] = (32, 64, 128)) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 2 * WHITENED, PATCH)
        self.patches.requires_grad_(requires_grad=False)
        self.activation = nn.GELU()
        channels = [2 * WHITENED, *widths]
        self.blocks = nn.Sequential(
            *(_block(before, after) for before, after in pairwise(channels))
        )

    @property
    def last_stage(self) -> Sequence[nn.Module]:
        """What is trained where only the last stage is."""
        return [self.blocks[-1]]

    @torch.no_grad()
    def whiten(self, images: Float[Tensor, "images 3 height width"]) -> None:
        """Take the filters of the first layer from the patches of images, floats from 0 to 1.

        Each filter sees one direction in which patches differ, so that its output has a variance of
        1 and is correlated with no other's; a second one has the opposite sign, for what the
        activation would cut off.
        """
        columns = nn.functional.unfold(images.double(), PATCH)  # [images, 12, places]
        patches = columns.transpose(1, 2).flatten(0, 1)
        mean = patches.mean(dim=0)
        variances, directions = torch.linalg.eigh(patches.mT.cov(correction=0))
        filters = (directions / (variances + SMALLEST_VARIANCE).sqrt()).mT
        both = torch.cat([filters, -filters]).to(self.patches.weight.dtype)
        self.patches.weight.copy_(both.view_as(self.patches.weight))
        assert self.patches.bias is not None  # noqa: S101  (nn.Conv2d makes one by default)
        self.patches.bias.copy_(-both @ mean.to(both))

    def forward(
        self, images: Float[Tensor, "rows 3 height width"]
    ) -> Float[Tensor, "rows features"]:
        height, width = images.shape[2:]
        if min(height, width) < LEAST_PIXELS:
            raise SettingsError(
                f"images of {height} x {width} pixels are too small for three blocks that halve "
                f"them; give at least {LEAST_PIXELS} x {LEAST_PIXELS}, or choose another encoder"
            )
        maps = self.activation(self.patches(images))
        *earlier, last = self.blocks
        for block in earlier:
            maps = block(maps)
        return torch.cat([last(maps).amax(dim=(2, 3)), maps.mean(dim=(2, 3))], dim=1)


def _block(channels: int, width: int) -> nn.Sequential:
    """Return two convolutions that begin as the identity, the first followed by pooling."""
    return nn.Sequential(
        _convolution(channels, width),
        nn.MaxPool2d(2),
        nn.BatchNorm2d(width),
        nn.GELU(),
        _convolution(width, width),
        nn.BatchNorm2d(width),
        nn.GELU(),
    )


def _convolution(channels: int, width: int) -> nn.Conv2d:
    """Return a convolution whose first filters hand on one channel each, as it is."""
    convolution = nn.Conv2d(channels, width, 3, padding=1, bias=False)
    with torch.no_grad():
        nn.init.dirac_(convolution.weight[:channels])
    return convolution
