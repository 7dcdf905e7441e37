import pytest
import torch
from torch import Tensor, nn

from oddone.encoders import PoolNet
from oddone.encoders.poolnet import LEAST_PIXELS, SMALLEST_VARIANCE
from oddone.errors import SettingsError


def some_images(rows: int = 6, size: int = 32) -> Tensor:
    """Return smooth images whose channels are alike, as those of photographs."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(rows, 1, size // 4, size // 4, generator=generator)
    smooth = nn.functional.interpolate(coarse, size=(size, size), mode="bilinear")
    return (0.8 * smooth + 0.2 * torch.rand(rows, 3, size, size, generator=generator)).clamp(0, 1)


def seeded(seed: int = 0) -> PoolNet:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return PoolNet()


def test_whitened_patches_are_uncorrelated_and_have_a_variance_of_one() -> None:
    network, images = seeded().double(), some_images(20).double()
    network.whiten(images)
    outputs = network.patches(images).transpose(0, 1).flatten(1)
    torch.testing.assert_close(outputs.mean(dim=1), torch.zeros(24).double(), rtol=0, atol=1e-9)
    first, second = outputs[:12], outputs[12:]
    torch.testing.assert_close(second, -first)
    covariance = first @ first.mT / first.shape[1]
    torch.testing.assert_close(covariance, covariance.diagonal().diag(), rtol=0, atol=1e-9)
    patches = nn.functional.unfold(images, 2).transpose(1, 2).flatten(0, 1)
    variances = torch.linalg.eigvalsh(patches.mT.cov(correction=0))
    torch.testing.assert_close(
        covariance.diagonal(), variances / (variances + SMALLEST_VARIANCE), rtol=1e-6, atol=1e-9
    )
    assert covariance.diagonal().min() > 0.9


def test_images_of_one_colour_are_whitened_to_finite_filters() -> None:
    network = seeded()
    network.whiten(torch.full((3, 3, 16, 16), 0.5))
    assert network.patches.weight.isfinite().all()
    assert network(torch.full((3, 3, 16, 16), 0.5)).isfinite().all()


def test_all_but_the_first_layer_is_trained() -> None:
    network = seeded()
    frozen = [name for name, weight in network.named_parameters() if not weight.requires_grad]
    assert frozen == ["patches.weight", "patches.bias"]


def test_convolutions_begin_by_handing_on_their_channels() -> None:
    first = seeded().blocks[0][0]
    maps = torch.rand(2, 24, 8, 8)
    torch.testing.assert_close(first(maps)[:, :24], maps)


def test_every_block_halves_the_maps() -> None:
    network = seeded()
    maps = network.patches(some_images())
    shapes = [tuple(maps.shape[1:])]
    for block in network.blocks:
        maps = block(maps)
        shapes.append(tuple(maps.shape[1:]))
    assert shapes == [(24, 31, 31), (32, 15, 15), (64, 7, 7), (128, 3, 3)]


@torch.no_grad()
def test_features_are_the_last_maximum_and_the_mean_before_it() -> None:
    network, images = seeded().eval(), some_images()
    before = network.blocks[:2](network.activation(network.patches(images)))
    last = network.blocks[2](before)
    expected = [
        [float(channel.max()) for channel in image] + [float(channel.mean()) for channel in middle]
        for image, middle in zip(last, before, strict=True)
    ]
    torch.testing.assert_close(network(images), torch.tensor(expected))


@pytest.mark.parametrize("size", [LEAST_PIXELS, 28, 64])
def test_images_of_many_sizes_have_as_many_features(size: int) -> None:
    assert seeded().eval()(some_images(2, size)).shape == (2, 128 + 64)


def test_smaller_images_are_an_error_with_the_least_size() -> None:
    with pytest.raises(SettingsError, match=r"8 x 8 pixels .* at least 16"):
        seeded()(torch.rand(2, 3, 8, 8))


def test_weights_follow_from_the_seed() -> None:
    one, same, other = seeded(), seeded(), seeded(1)
    assert torch.equal(one.blocks[0][0].weight, same.blocks[0][0].weight)
    assert not torch.equal(one.blocks[0][0].weight, other.blocks[0][0].weight)
