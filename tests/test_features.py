"""Features are computed once: whatever they depend on is in the name of their file."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from safetensors.torch import save
from torch import Tensor, nn

from oddone.data import ImageSet
from oddone.detector import ViewEmbedder
from oddone.encoders import ModelSettings, TrainedNetwork, frozen_network
from oddone.encoders.transformers_encoder import TransformersArchitecture, TransformersEncoder
from oddone.errors import DataWarning
from oddone.features import _key, embed_once, encode_once
from oddone.transforms import ViewSet, moved_and_mirrored, one_view, rotations
from runs import tiny_source


class Counting(nn.Module):
    """An encoder that counts the images that it, or a copy of it, sees."""

    seen: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 5, 3)

    def forward(self, images: Tensor) -> Tensor:
        Counting.seen += len(images)
        return self.convolution(images).mean(dim=(2, 3))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ODDONE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "features"


def network(size: int = 16, **changes: object) -> TrainedNetwork:
    """Return a network whose encoder passes for one that has a name."""
    torch.manual_seed(0)
    trained = frozen_network(Counting(), size, ("a",), "data")
    Counting.seen = 0  # it was tried out
    named = ModelSettings(encoder_name="efficientnet-lite0", head_dim=None)
    return replace(trained, model=named, **changes)  # type: ignore[arg-type]


def seen() -> int:
    """Return how many images encoders saw since this was last asked."""
    count, Counting.seen = Counting.seen, 0
    return count


@pytest.mark.parametrize("views", [one_view, rotations])
@pytest.mark.parametrize("pixels_at_once", [2**18, 16 * 16 * 7])
def test_features_are_those_of_the_embedder_in_order(
    views: ViewSet, pixels_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oddone.features.PIXELS_AT_ONCE", pixels_at_once)
    source, some = tiny_source(), np.array([5, 3, 40])
    expected = ViewEmbedder(network(), views).embed(torch.from_numpy(source.images)).features
    torch.testing.assert_close(embed_once(network(), views, source), expected)
    torch.testing.assert_close(embed_once(network(), views, source, some), expected[:, some])


def test_features_have_the_length_that_the_encoder_gives_them() -> None:
    trained, source = network(), tiny_source()
    with torch.no_grad():
        expected = trained.network.encoder(torch.from_numpy(source.images).float() / 255)
    for _ in range(2):  # computed, then read
        torch.testing.assert_close(encode_once(trained, one_view, source)[0], expected)
        embed_once(trained, one_view, source)  # which leaves them as they are


def test_a_second_call_reads_the_cache_and_does_not_run_the_encoder(cache: Path) -> None:
    features = embed_once(network(), one_view, tiny_source())
    assert seen() == 48
    assert torch.equal(embed_once(network(), one_view, tiny_source()), features)
    assert seen() == 0
    (file,) = cache.iterdir()
    assert (len(file.stem), file.suffix) == (32, ".safetensors")


def test_what_images_are_called_and_labelled_does_not_matter() -> None:
    source = tiny_source()
    embed_once(network(), one_view, source)
    other = replace(source, labels=source.labels[::-1], paths=source.paths[::-1], fingerprint="x")
    again = network(data_fingerprint="x", classes=("b", "c"))
    embed_once(again, one_view, other)
    assert seen() == 0


def other_weights() -> TrainedNetwork:
    made = network()
    made.network.encoder.convolution.bias[1] += 1e-6  # type: ignore[index, union-attr, operator]
    return made


def one_pixel_changed() -> ImageSet:
    source = tiny_source()
    source.images[47, 2, 15, 15] += 1
    return source


@pytest.mark.parametrize(
    ("made", "views", "source", "indices"),
    [
        (other_weights, one_view, tiny_source, None),
        (lambda: network(size=20), one_view, tiny_source, None),
        (network, rotations, tiny_source, None),
        (network, one_view, one_pixel_changed, None),
        (network, one_view, lambda: tiny_source(seed=1), None),
        (network, one_view, tiny_source, np.arange(47)),
        (network, one_view, tiny_source, np.arange(48)[::-1]),
    ],
    ids=["weights", "size", "views", "pixel", "images", "fewer", "order"],
)
def test_whatever_features_depend_on_makes_them_anew(
    made: Callable[[], TrainedNetwork],
    views: ViewSet,
    source: Callable[[], ImageSet],
    indices: np.ndarray | None,
    cache: Path,
) -> None:
    embed_once(network(), one_view, tiny_source())
    changed = made()
    features = embed_once(changed, views, source(), indices)
    assert seen() == features.shape[0] * features.shape[1] > 0
    assert len(list(cache.iterdir())) == 2


def test_views_that_are_moved_are_not_taken_for_others() -> None:
    unmoved = ViewSet("unmoved", moved_and_mirrored.poses, moved_and_mirrored.mirrored)
    source, indices = tiny_source(), np.arange(48)
    keys = {_key(network(), views, source, indices) for views in (moved_and_mirrored, unmoved)}
    assert len(keys) == 2


def test_a_part_of_a_set_is_not_taken_for_another_of_the_same_size() -> None:
    source = tiny_source()
    parts = [
        replace(
            source,
            images=source.images[part],
            labels=source.labels[part],
            paths=source.paths[part],
        )
        for part in (slice(0, 24), slice(24, 48))
    ]
    one, other = (
        embed_once(network(), one_view, part) for part in parts
    )  # with the same fingerprint
    assert not torch.equal(one, other)


def test_a_model_of_transformers_is_more_than_its_weights() -> None:
    source, indices = tiny_source(), np.arange(48)
    trained = network()
    model = trained.network.encoder
    architecture = TransformersArchitecture(
        config={}, features="mean", mean=(0.5, 0.5, 0.5), std=(1.0, 1.0, 1.0), image_size=16
    )
    keys = set()
    for made in (
        architecture,
        replace(architecture, mean=(0.5, 0.5, 0.4)),
        replace(architecture, features="pooler"),
        replace(architecture, config={"hidden_act": "relu"}),
    ):
        trained.network.encoder = TransformersEncoder(made, model)
        keys.add(_key(trained, one_view, source, indices))
    assert len(keys) == 4


def test_the_features_of_a_users_own_module_are_not_kept(cache: Path) -> None:
    trained: TrainedNetwork = frozen_network(Counting(), 16, ("a",), "data")
    seen()
    for _ in range(2):
        embed_once(trained, one_view, tiny_source())
        assert seen() == 48
    assert not cache.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no tensors at all",
        save({"features": torch.zeros(1, 48, 4)}),
        save({"features": torch.zeros(1, 48, 5).double()}),
        save({"other": torch.zeros(1, 48, 5)}),
        save({"features": torch.zeros(1, 48, 5)})[:-9],
    ],
    ids=["empty", "text", "shape", "dtype", "name", "short"],
)
def test_a_damaged_file_of_the_cache_is_made_anew(cache: Path, content: bytes) -> None:
    features = embed_once(network(), one_view, tiny_source())
    (file,) = cache.iterdir()
    whole = file.read_bytes()
    file.write_bytes(content)
    seen()
    assert torch.equal(embed_once(network(), one_view, tiny_source()), features)
    assert seen() == 48
    assert file.read_bytes() == whole


def test_a_cache_that_cannot_be_written_is_told_and_the_work_goes_on(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.parent.write_text("a file where the folder should be")
    with pytest.warns(DataWarning, match="features of 48 images cannot be kept in .*ODDONE_CACHE"):
        features = embed_once(network(), one_view, tiny_source())
    assert features.shape == (1, 48, 5)
    cache.parent.unlink()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(DataWarning, match="No space left on device"):
        assert torch.equal(embed_once(network(), one_view, tiny_source()), features)
    assert list(cache.iterdir()) == []


def test_progress_counts_the_images() -> None:
    reports: list[tuple[int, int, str]] = []
    embed_once(network(), one_view, tiny_source(), progress=lambda *report: reports.append(report))
    assert reports[-1] == (48, 48, "embedding")
