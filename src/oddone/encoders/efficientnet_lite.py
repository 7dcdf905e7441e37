"""EfficientNet-Lite (Liu, 2020) without its classifier: images to 1,280 features.

It is EfficientNet (Tan and Le, 2019) for small machines: no squeeze-and-excitation, ReLU6 instead
of swish, and a first and a last layer that do not grow with the network. Stochastic depth, which
only matters in training from scratch, is left out.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import pad

STEM_WIDTH = 32
FEATURE_DIM = 1280
NORM_EPS = 1e-3
NORM_MOMENTUM = 0.01
"""In TensorFlow, where the weights come from, it is called 0.99."""


class Stage(NamedTuple):
    """Blocks of one width; the first of them has the stride."""

    blocks: int
    kernel: int
    stride: int
    expansion: int
    width: int


STAGES = (
    Stage(1, 3, 1, 1, 16),
    Stage(2, 3, 2, 6, 24),
    Stage(2, 5, 2, 6, 40),
    Stage(3, 3, 2, 6, 80),
    Stage(3, 5, 1, 6, 112),
    Stage(4, 5, 2, 6, 192),
    Stage(1, 3, 1, 6, 320),
)
"""EfficientNet-Lite0; the others multiply widths and numbers of blocks."""


class SamePadding(nn.Module):
    """Zeros around maps, as TensorFlow's "same" puts them before a convolution with a stride.

    Where their number is odd, one more is at the right and at the bottom. The weights were trained
    with that, and torch's own padding, as much on both sides, would shift the maps against them.
    """

    def __init__(self, kernel: int, stride: int) -> None:
        super().__init__()
        self.kernel = kernel
        self.stride = stride

    def forward(
        self, maps: Float[Tensor, "rows channels height width"]
    ) -> Float[Tensor, "rows channels higher wider"]:
        top, bottom = self._zeros(maps.shape[2])
        left, right = self._zeros(maps.shape[3])
        return pad(maps, (left, right, top, bottom))

    def _zeros(self, length: int) -> tuple[int, int]:
        """Return how many zeros come before and after a side of this length."""
        steps = math.ceil(length / self.stride)
        total = max(0, (steps - 1) * self.stride + self.kernel - length)
        return total // 2, total - total // 2


class InvertedResidual(nn.Module):
    """A depthwise convolution between a layer that widens and one that narrows the maps again.

    The input is carried around it where the shapes allow it.
    """

    def __init__(self, channels: int, stage: Stage, stride: int, width: int) -> None:
        super().__init__()
        wide = channels * stage.expansion
        self.expand = _layer(channels, wide, 1) if stage.expansion > 1 else nn.Identity()
        self.depthwise = _layer(wide, wide, stage.kernel, stride=stride, groups=wide)
        self.project = _layer(wide, width, 1)[:-1]  # no ReLU6 after it
        self.carries_input = stride == 1 and channels == width

    def forward(
        self, maps: Float[Tensor, "rows channels height width"]
    ) -> Float[Tensor, "rows wide lower narrower"]:
        narrow: Tensor = self.project(self.depthwise(self.expand(maps)))
        return narrow + maps if self.carries_input else narrow


class EfficientNetLite(nn.Module):
    """A stem, seven stages of inverted residual blocks, and a layer that makes the features."""

    def __init__(self, width_factor: float, depth_factor: float) -> None:
        super().__init__()
        self.feature_dim = FEATURE_DIM
        self.stem = _layer(3, STEM_WIDTH, 3, stride=2)
        channels = STEM_WIDTH
        blocks: list[nn.Module] = []
        for stage in STAGES:
            grows = stage not in (STAGES[0], STAGES[-1])
            depth = math.ceil(depth_factor * stage.blocks) if grows else stage.blocks
            width = scaled_width(stage.width, width_factor)
            if stage.stride > 1:
                self._last_start = len(blocks)
            for block in range(depth):
                stride = stage.stride if block == 0 else 1
                blocks.append(InvertedResidual(channels, stage, stride, width))
                channels = width
        self.blocks = nn.Sequential(*blocks)
        self.last = _layer(channels, FEATURE_DIM, 1)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                fan_out = module.weight[0, 0].numel() * module.out_channels / module.groups
                nn.init.normal_(module.weight, std=math.sqrt(2 / fan_out))

    @property
    def last_stage(self) -> Sequence[nn.Module]:
        """What works on the smallest maps: the last two stages, and the layer after them."""
        return [*list(self.blocks)[self._last_start :], self.last]

    def forward(
        self, images: Float[Tensor, "rows 3 height width"]
    ) -> Float[Tensor, "rows feature_dim"]:
        """Return the features of images from 0 to 1: the last maps averaged over their pixels."""
        pixels = images * (255 / 128) - 127 / 128  # (pixel - 127) / 128 for pixels from 0 to 255
        maps: Tensor = self.last(self.blocks(self.stem(pixels)))
        return maps.mean(dim=(2, 3))


def efficientnet_lite0() -> EfficientNetLite:
    """Return an EfficientNet-Lite0 with random weights."""
    return EfficientNetLite(1.0, 1.0)


def efficientnet_lite1() -> EfficientNetLite:
    """Return an EfficientNet-Lite1 with random weights: deeper than Lite0."""
    return EfficientNetLite(1.0, 1.1)


def efficientnet_lite2() -> EfficientNetLite:
    """Return an EfficientNet-Lite2 with random weights: deeper and wider than Lite0."""
    return EfficientNetLite(1.1, 1.2)


def scaled_width(width: int, factor: float) -> int:
    """Return the multiple of 8 nearest to factor * width, but not less than nine tenths of it."""
    wanted = factor * width
    nearest = max(8, int(wanted + 4) // 8 * 8)
    return nearest if nearest >= 0.9 * wanted else nearest + 8


def _layer(
    channels: int, width: int, kernel: int, *, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    """Return padding, a convolution, batch norm and ReLU6."""
    # With stride 1, "same" is as many zeros on both sides, which the convolution adds for free.
    padded = stride == 1
    convolution = nn.Conv2d(
        channels,
        width,
        kernel,
        stride=stride,
        padding=kernel // 2 if padded else 0,
        groups=groups,
        bias=False,
    )
    return nn.Sequential(
        nn.Identity() if padded else SamePadding(kernel, stride),
        convolution,
        nn.BatchNorm2d(width, eps=NORM_EPS, momentum=NORM_MOMENTUM),
        nn.ReLU6(inplace=True),
    )
