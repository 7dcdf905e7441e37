"""Residual networks (He et al., 2016) without a classifier: images to features.

Stems fit the size of the images: "small" keeps every pixel of 32-pixel images (3x3, stride 1),
"stride2" halves them first (3x3, stride 2), "large" is the original for 224 pixels (7x7, stride 2,
then max-pooling). Only "large" pools.
"""

from collections.abc import Sequence
from typing import Literal, get_args

from jaxtyping import Float
from torch import Tensor, nn

from oddone.errors import SettingsError

Stem = Literal["small", "stride2", "large"]


class BasicBlock(nn.Module):
    """Two 3x3 convolutions around which the input is carried."""

    expansion = 1

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            _convolution(channels, width, 3, stride),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            _convolution(width, width, 3),
            nn.BatchNorm2d(width),
        )
        self.shortcut = _shortcut(channels, width, stride)

    def forward(
        self, maps: Float[Tensor, "rows channels height width"]
    ) -> Float[Tensor, "rows wide lower narrower"]:
        return _joined(self.branch(maps), self.shortcut(maps))


class Bottleneck(nn.Module):
    """A 3x3 convolution between two 1x1 ones that narrow and widen, the input carried around.

    The 3x3 convolution strides (ResNet "v1.5").
    """

    expansion = 4

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        wide = width * self.expansion
        self.branch = nn.Sequential(
            _convolution(channels, width, 1),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            _convolution(width, width, 3, stride),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            _convolution(width, wide, 1),
            nn.BatchNorm2d(wide),
        )
        self.shortcut = _shortcut(channels, wide, stride)

    def forward(
        self, maps: Float[Tensor, "rows channels height width"]
    ) -> Float[Tensor, "rows wide lower narrower"]:
        return _joined(self.branch(maps), self.shortcut(maps))


class ResNet(nn.Module):
    """Stages of residual blocks, each of twice the width and half the size of the one before."""

    def __init__(
        self,
        blocks: Sequence[int],
        block: type[BasicBlock | Bottleneck],
        width: int = 64,
        stem: Stem = "small",
    ) -> None:
        super().__init__()
        if not blocks or min(blocks) < 1:
            raise SettingsError(f"blocks={tuple(blocks)}: give each stage at least 1 block")
        if width < 1:
            raise SettingsError(f"width={width}: choose at least 1 channel")
        self.stem = _stem(stem, width)
        channels = width
        stages: list[nn.Module] = []
        for stage, depth in enumerate(blocks):
            wide = width * 2**stage
            layers: list[nn.Module] = []
            for layer in range(depth):
                stride = 2 if stage > 0 and layer == 0 else 1
                layers.append(block(channels, wide, stride))
                channels = wide * block.expansion
            stages.append(nn.Sequential(*layers))
        self.stages = nn.Sequential(*stages)
        self.feature_dim = channels
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    @property
    def last_stage(self) -> Sequence[nn.Module]:
        """What works on the smallest maps."""
        return [self.stages[-1]]

    def forward(
        self, images: Float[Tensor, "rows 3 height width"]
    ) -> Float[Tensor, "rows feature_dim"]:
        """Return the features: the last maps averaged over their pixels."""
        maps: Tensor = self.stages(self.stem(images))
        return maps.mean(dim=(2, 3))


def resnet10(width: int = 32) -> ResNet:
    """Return a ResNet of ten layers with 8 * width features, which two CPU cores can train.

    It has one block in each of four stages. The stem halves the image first, which makes
    everything after it four times as fast.
    """
    return ResNet((1, 1, 1, 1), BasicBlock, width=width, stem="stride2")


def resnet18(stem: Stem = "small") -> ResNet:
    """Return a ResNet-18 with 512 features."""
    return ResNet((2, 2, 2, 2), BasicBlock, stem=stem)


def resnet34(stem: Stem = "small") -> ResNet:
    """Return a ResNet-34 with 512 features, the paper's encoder."""
    return ResNet((3, 4, 6, 3), BasicBlock, stem=stem)


def resnet50(stem: Stem = "small") -> ResNet:
    """Return a ResNet-50 with 2048 features."""
    return ResNet((3, 4, 6, 3), Bottleneck, stem=stem)


def _stem(name: Stem, width: int) -> nn.Sequential:
    if name not in get_args(Stem):
        choices = " or ".join(map(repr, get_args(Stem)))
        raise SettingsError(f"stem={name!r}: choose {choices}")
    if name == "large":
        convolution = _convolution(3, width, 7, stride=2)
    else:
        convolution = _convolution(3, width, 3, stride=2 if name == "stride2" else 1)
    layers: list[nn.Module] = [convolution, nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
    if name == "large":
        layers.append(nn.MaxPool2d(3, stride=2, padding=1))
    return nn.Sequential(*layers)


def _convolution(channels: int, width: int, size: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(channels, width, size, stride=stride, padding=size // 2, bias=False)


def _joined(branch: Tensor, shortcut: Tensor) -> Tensor:
    """Return what a block makes of its two ways."""
    return (branch + shortcut).relu_()


def _shortcut(channels: int, width: int, stride: int) -> nn.Module:
    """Return how the input gets past a block: as it is, or projected where the shape changes."""
    if channels == width and stride == 1:
        return nn.Identity()
    return nn.Sequential(_convolution(channels, width, 1, stride), nn.BatchNorm2d(width))
