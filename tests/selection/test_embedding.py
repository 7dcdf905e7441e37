"""Features are computed once: whatever they depend on is in the name of their file."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

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
from oddone.selection import embed_once
from oddone.selection.embedding import _key
from oddone.transforms import one_view, rotations
from runs import tiny_source


class Counting(nn.Module):
    """An encoder that counts the images that it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 5, 3)
        self.register_buffer("seen", torch.zeros(()), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        self.seen += len(images)
        return self.convolution(images).mean(dim=(2, 3))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ODDONE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "features"


def embedder(size: int = 16, **changes: object) -> ViewEmbedder:
    """Return an embedder whose encoder passes for one that has a name."""
    torch.manual_seed(0)
    trained = frozen_network(Counting(), size, ("a",), "data")
    trained.network.encoder.seen.zero_()  # it was tried out
    named = ModelSettings(encoder_name="efficientnet-lite0", head_dim=None)
    return ViewEmbedder(replace(trained, model=named, **changes), one_view)


def seen(embedder: ViewEmbedder) -> int:
    """Return how many images the encoder saw since it was last asked."""
    encoder = embedder.network.encoder
    count = int(encoder.seen)
    encoder.seen.zero_()
    return count


def test_features_are_those_of_the_embedder_in_order() -> None:
    source, some = tiny_source(), np.array([5, 3, 40])
    expected = embedder().embed(torch.from_numpy(source.images)).features
    torch.testing.assert_close(embed_once(embedder(), source), expected)
    torch.testing.assert_close(embed_once(embedder(), source, some), expected[:, some])


def test_a_second_call_reads_the_cache_and_does_not_run_the_encoder(cache: Path) -> None:
    first, again = embedder(), embedder()
    features = embed_once(first, tiny_source())
    assert seen(first) == 48
    assert torch.equal(embed_once(again, tiny_source()), features)
    assert seen(again) == 0
    (file,) = cache.iterdir()
    assert (len(file.stem), file.suffix) == (32, ".safetensors")


def test_what_images_are_called_and_labelled_does_not_matter() -> None:
    source = tiny_source()
    embed_once(embedder(), source)
    other = replace(source, labels=source.labels[::-1], paths=source.paths[::-1], fingerprint="x")
    again = embedder(data_fingerprint="x", classes=("b", "c"))
    embed_once(again, other)
    assert seen(again) == 0


def other_weights() -> ViewEmbedder:
    made = embedder()
    made.trained.network.encoder.convolution.bias[1] += 1e-6
    return made


def one_pixel_changed() -> ImageSet:
    source = tiny_source()
    source.images[47, 2, 15, 15] += 1
    return source


@pytest.mark.parametrize(
    ("made", "source", "indices"),
    [
        (other_weights, tiny_source, None),
        (lambda: embedder(size=20), tiny_source, None),
        (lambda: replace(embedder(), views=rotations), tiny_source, None),
        (embedder, one_pixel_changed, None),
        (embedder, lambda: tiny_source(seed=1), None),
        (embedder, tiny_source, np.arange(47)),
        (embedder, tiny_source, np.arange(48)[::-1]),
    ],
    ids=["weights", "size", "views", "pixel", "images", "fewer", "order"],
)
def test_whatever_features_depend_on_makes_them_anew(
    made: Callable[[], ViewEmbedder],
    source: Callable[[], ImageSet],
    indices: np.ndarray | None,
    cache: Path,
) -> None:
    embed_once(embedder(), tiny_source())
    changed = made()
    features = embed_once(changed, source(), indices)
    assert seen(changed) == features.shape[0] * features.shape[1] > 0
    assert len(list(cache.iterdir())) == 2


def test_a_part_of_a_set_is_not_taken_for_another_of_the_same_size() -> None:
    source = tiny_source()
    parts = [
        replace(source, images=source.images[part], labels=source.labels[part])
        for part in (slice(0, 24), slice(24, 48))
    ]
    one, other = (embed_once(embedder(), part) for part in parts)  # with the same fingerprint
    assert not torch.equal(one, other)


def test_a_model_of_transformers_is_more_than_its_weights() -> None:
    source, indices = tiny_source(), np.arange(48)
    as_made = embedder()
    trained, model = as_made.trained, as_made.trained.network.encoder
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
        keys.add(_key(as_made, source, indices))
    assert len(keys) == 4


def test_the_features_of_a_users_own_module_are_not_kept(cache: Path) -> None:
    trained: TrainedNetwork = frozen_network(Counting(), 16, ("a",), "data")
    trained.network.encoder.seen.zero_()
    for _ in range(2):
        own = ViewEmbedder(trained, one_view)
        embed_once(own, tiny_source())
        assert seen(own) == 48
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
    features = embed_once(embedder(), tiny_source())
    (file,) = cache.iterdir()
    whole = file.read_bytes()
    file.write_bytes(content)
    again = embedder()
    assert torch.equal(embed_once(again, tiny_source()), features)
    assert seen(again) == 48
    assert file.read_bytes() == whole


def test_a_cache_that_cannot_be_written_is_told_and_the_work_goes_on(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.parent.write_text("a file where the folder should be")
    with pytest.warns(DataWarning, match="features of 48 images cannot be kept in .*ODDONE_CACHE"):
        features = embed_once(embedder(), tiny_source())
    assert features.shape == (1, 48, 5)
    cache.parent.unlink()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(DataWarning, match="No space left on device"):
        assert torch.equal(embed_once(embedder(), tiny_source()), features)
    assert list(cache.iterdir()) == []


def test_progress_counts_the_images() -> None:
    reports: list[tuple[int, int, str]] = []
    embed_once(embedder(), tiny_source(), progress=lambda *report: reports.append(report))
    assert reports[-1] == (48, 48, "embedding")
