import pytest
import torch
from torch import nn

from oddone.encoders import ENCODERS, small_resnet


@pytest.mark.parametrize(("name", "width"), [("resnet10-w32", 32), ("resnet10-w16", 16)])
def test_the_named_small_encoders_have_eight_times_their_width_in_features(
    name: str, width: int
) -> None:
    network = ENCODERS[name](32).eval()
    with torch.no_grad():
        assert network(torch.rand(2, 3, 32, 32)).shape == (2, 8 * width)


def test_nine_convolutions_and_a_head_are_ten_layers() -> None:
    convolutions = [m for m in small_resnet().modules() if isinstance(m, nn.Conv2d)]
    assert len([m for m in convolutions if m.kernel_size == (3, 3)]) == 9


@pytest.mark.parametrize("size", [28, 32, 96])
def test_small_encoders_take_images_of_any_size(size: int) -> None:
    network = small_resnet(16).eval()
    with torch.no_grad():
        assert network.stem(torch.rand(1, 3, size, size)).shape[-1] == size // 2
        assert network(torch.rand(1, 3, size, size)).shape == (1, 128)
