import pytest
import torch
from torch import Tensor, nn

from oddone.encoders import ENCODERS, EfficientNetLite, pretrained_encoder
from oddone.encoders.efficientnet_lite import (
    SamePadding,
    efficientnet_lite0,
    efficientnet_lite1,
    efficientnet_lite2,
    scaled_width,
)
from oddone.encoders.pretrained import PRETRAINED, is_installed, weights_path

NAMES = sorted(PRETRAINED)
CLASSIFIER = 1280 * 1000 + 1000


def some_pixels(size: int, rows: int = 2) -> Tensor:
    """Return whole numbers from 0 to 255, as floats."""
    generator = torch.Generator().manual_seed(size)
    return torch.randint(0, 256, (rows, 3, size, size), generator=generator).float()


@pytest.fixture(scope="module", params=NAMES)
def both(request: pytest.FixtureRequest) -> tuple[nn.Module, nn.Module]:
    """Return an encoder of ours and that of efficientnet-lite-pytorch, with the same weights."""
    reference = pytest.importorskip(
        "efficientnet_lite_pytorch", reason="needs efficientnet-lite-pytorch"
    )
    name = request.param
    if not is_installed(name):
        pytest.skip("needs oddone[pretrained]")
    # Without an image size it pads what it gets; with one, what it expects to get.
    theirs = reference.EfficientNet.from_name(name, image_size=None)
    theirs.load_state_dict(torch.load(weights_path(name), weights_only=True))
    return pretrained_encoder(name).eval(), theirs.eval()


@pytest.mark.parametrize("size", [128, 224, 97, 33])
@torch.no_grad()
def test_features_are_those_of_the_reference(both: tuple[nn.Module, nn.Module], size: int) -> None:
    ours, theirs = both
    pixels = some_pixels(size)
    expected = theirs.extract_features((pixels - 127) / 128).mean(dim=(2, 3))  # type: ignore[operator]
    assert expected.std() > 0.1
    torch.testing.assert_close(ours(pixels / 255), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("build", "parameters"),
    [
        (efficientnet_lite0, 4_652_008),
        (efficientnet_lite1, 5_416_680),
        (efficientnet_lite2, 6_092_072),
    ],
)
def test_it_has_as_many_parameters_as_published_without_its_classifier(
    build: type[EfficientNetLite], parameters: int
) -> None:
    assert sum(p.numel() for p in build().parameters()) == parameters - CLASSIFIER


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [8, 33])
@torch.no_grad()
def test_images_of_any_size_become_1280_features(name: str, size: int) -> None:
    encoder = ENCODERS[name](size).eval()
    features = encoder(some_pixels(size) / 255)
    assert features.shape == (2, 1280)
    assert encoder.feature_dim == 1280
    assert features.isfinite().all()


@pytest.mark.parametrize(
    ("kernel", "length", "zeros"),
    [
        (3, 224, (0, 1)),  # an odd number of zeros: the last is at the end
        (3, 97, (1, 1)),
        (5, 56, (1, 2)),
        (5, 7, (2, 2)),
        (3, 1, (1, 1)),
    ],
)
def test_a_stride_of_two_is_padded_as_in_tensorflow(
    kernel: int, length: int, zeros: tuple[int, int]
) -> None:
    padded = SamePadding(kernel, 2)(torch.ones(1, 1, length, length + 2))
    before, after = zeros
    column = padded[0, 0, :, before + 1]
    assert column.tolist() == [0.0] * before + [1.0] * length + [0.0] * after
    assert padded.shape[3] == length + 2 + before + after
    assert (padded.shape[2] - kernel) // 2 + 1 == -(-length // 2)  # half of it, rounded up


@pytest.mark.parametrize(
    ("width", "factor", "scaled"), [(24, 1.0, 24), (24, 1.1, 24), (40, 1.1, 48), (16, 0.1, 8)]
)
def test_widths_are_multiples_of_eight(width: int, factor: float, scaled: int) -> None:
    assert scaled_width(width, factor) == scaled


def test_no_width_shrinks_by_more_than_a_tenth() -> None:
    assert scaled_width(10, 1.1) == 16  # and not 8, the multiple that is nearer to 11


def test_gradient_reaches_every_parameter() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = efficientnet_lite0()
    encoder(some_pixels(64, rows=4) / 255).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in encoder.parameters())


def test_a_random_network_neither_fades_nor_explodes() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = efficientnet_lite0()
    features = encoder(some_pixels(64, rows=4) / 255)
    assert 0.05 < features.std() < 3


def test_channels_last_gives_the_same_features() -> None:
    encoder, images = efficientnet_lite0().eval(), some_pixels(33) / 255
    expected = encoder(images)
    layout = torch.channels_last
    actual = encoder.to(memory_format=layout)(images.contiguous(memory_format=layout))  # type: ignore[call-overload]
    torch.testing.assert_close(actual, expected)
