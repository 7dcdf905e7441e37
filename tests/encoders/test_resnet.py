import pytest
import torch
from torch import Tensor, nn

from oddone.encoders import ENCODERS, ResNet, resnet10, resnet18, resnet50, stem_for
from oddone.encoders.resnet import BasicBlock, Bottleneck, Stem
from oddone.errors import SettingsError


def some_images(rows: int = 4, size: int = 32) -> Tensor:
    return torch.rand(rows, 3, size, size, generator=torch.Generator().manual_seed(0))


def seeded(stem: Stem = "small", seed: int = 0) -> ResNet:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return ResNet((1, 1, 1), BasicBlock, width=8, stem=stem)


def test_resnet50_has_2048_features() -> None:
    network = resnet50().eval()
    assert network.feature_dim == 2048
    with torch.no_grad():
        assert network(some_images(2)).shape == (2, 2048)


def test_resnet50_has_as_many_parameters_as_the_original_without_its_classifier() -> None:
    classifier = 2048 * 1000 + 1000
    parameters = sum(p.numel() for p in resnet50(stem="large").parameters())
    assert parameters == 25_557_032 - classifier


def test_resnet18_has_as_many_parameters_as_the_original_without_its_classifier() -> None:
    classifier = 512 * 1000 + 1000
    parameters = sum(p.numel() for p in resnet18(stem="large").parameters())
    assert parameters == 11_689_512 - classifier


@pytest.mark.parametrize(("stem", "factor"), [("small", 1), ("stride2", 2), ("large", 4)])
def test_stems_shrink_the_image_as_they_say(stem: Stem, factor: int) -> None:
    maps = seeded(stem).stem(some_images(size=64))
    assert maps.shape == (4, 8, 64 // factor, 64 // factor)


def test_every_later_stage_halves_the_maps_and_doubles_the_width() -> None:
    network = seeded()
    maps = network.stem(some_images())
    shapes = []
    for stage in network.stages:
        maps = stage(maps)
        shapes.append(tuple(maps.shape[1:]))
    assert shapes == [(8, 32, 32), (16, 16, 16), (32, 8, 8)]
    assert network.feature_dim == 32


@pytest.mark.parametrize(("size", "stem"), [(28, "small"), (64, "small"), (65, "large")])
def test_the_stem_follows_the_image_size(size: int, stem: str) -> None:
    assert stem_for(size) == stem


def test_a_block_adds_its_branch_to_its_input() -> None:
    block = BasicBlock(8, 8, stride=1).eval()
    maps = torch.randn(2, 8, 5, 5, generator=torch.Generator().manual_seed(0))
    last = block.branch[-1]
    assert isinstance(last, nn.BatchNorm2d)
    nn.init.zeros_(last.weight)  # the branch is now zero
    torch.testing.assert_close(block(maps), maps.relu())


def test_a_bottleneck_widens_four_times() -> None:
    maps = torch.randn(2, 8, 6, 6, generator=torch.Generator().manual_seed(0))
    assert Bottleneck(8, 4, stride=2)(maps).shape == (2, 16, 3, 3)


def test_gradient_reaches_every_parameter() -> None:
    network = seeded()
    network(some_images()).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in network.parameters())


def test_convolutions_start_as_kaiming_says() -> None:
    convolution = resnet18().stages[3][1].branch[3]
    assert convolution.weight.std().item() == pytest.approx((2 / (512 * 9)) ** 0.5, rel=0.01)


def test_the_same_seed_gives_the_same_network() -> None:
    images = some_images()
    first, second, other = seeded().eval(), seeded().eval(), seeded(seed=1).eval()
    assert torch.equal(first(images), second(images))
    assert not torch.equal(first(images), other(images))


def test_batch_norm_looks_at_the_batch_in_training_only() -> None:
    network = seeded()
    images = some_images()
    together = network(images)
    assert not torch.allclose(together[:2], network(images[:2]), atol=1e-4)
    network.eval()
    torch.testing.assert_close(network(images)[:2], network(images[:2]))


def test_channels_last_gives_the_same_features() -> None:
    network = seeded().eval()
    images = some_images()
    expected = network(images)
    layout = torch.channels_last
    actual = network.to(memory_format=layout)(images.contiguous(memory_format=layout))
    torch.testing.assert_close(actual, expected)


def test_impossible_networks_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"blocks=\(1, 0\): give each stage at least 1"):
        ResNet((1, 0), BasicBlock)
    with pytest.raises(SettingsError, match="width=0"):
        ResNet((1,), BasicBlock, width=0)


@pytest.mark.usefixtures("as_shipped")
def test_an_unknown_stem_is_refused() -> None:
    with pytest.raises(SettingsError, match="stem='tiny': choose 'small' or 'stride2' or 'large'"):
        ResNet((1,), BasicBlock, stem="tiny")  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "width"), [("resnet10-w32", 32), ("resnet10-w16", 16)])
def test_the_named_small_encoders_have_eight_times_their_width_in_features(
    name: str, width: int
) -> None:
    network = ENCODERS[name](32).eval()
    with torch.no_grad():
        assert network(torch.rand(2, 3, 32, 32)).shape == (2, 8 * width)


def test_nine_convolutions_and_a_head_are_ten_layers() -> None:
    convolutions = [m for m in resnet10().modules() if isinstance(m, nn.Conv2d)]
    assert len([m for m in convolutions if m.kernel_size == (3, 3)]) == 9


@pytest.mark.parametrize("size", [28, 32, 96])
def test_small_encoders_take_images_of_any_size(size: int) -> None:
    network = resnet10(16).eval()
    with torch.no_grad():
        assert network.stem(torch.rand(1, 3, size, size)).shape[-1] == size // 2
        assert network(torch.rand(1, 3, size, size)).shape == (1, 128)
