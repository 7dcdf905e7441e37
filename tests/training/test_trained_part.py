"""Training a part of a network: the rest stays as it is, weights and statistics."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from comparing import assert_same_weights, begun, losses, train_until
from torch import Tensor, nn

from oddone.detector import DetectorSettings
from oddone.encoders import (
    ModelSettings,
    Network,
    TrainedNetwork,
    build_network,
    frozen_network,
    load_network,
)
from oddone.encoders.network import TrainedPart
from oddone.errors import SettingsError
from oddone.training import OptimiserSettings, TrainSettings, feature_batches, train_network
from oddone.training.batches import Batches
from oddone.training.feature_batches import FeatureBatches
from oddone.training.initialise import initial_network
from oddone.training.optim import build_optimiser, set_learning_rate
from oddone.transforms import one_view, rotate
from runs import tiny_settings, tiny_source

CPU = torch.device("cpu")
ADAMW = OptimiserSettings(method="adamw", learning_rate=1e-2)


class Small(nn.Module):
    """A user's own encoder with batch norm, of twelve features."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(3)
        self.linear = nn.Linear(12, 12)

    def forward(self, images: Tensor) -> Tensor:
        pooled = nn.functional.adaptive_avg_pool2d(self.norm(images), 2).flatten(1)
        return self.linear(pooled)  # type: ignore[no-any-return]


def settings_for(part: TrainedPart, **changes: object) -> TrainSettings:
    settings = tiny_settings(steps=4, optimiser=ADAMW, **changes)
    return replace(settings, model=replace(settings.model, trained_part=part))


def small_encoder() -> nn.Module:
    torch.manual_seed(0)
    return Small()


@pytest.mark.parametrize("name", ["resnet10-w16", "efficientnet-lite0"])
def test_the_last_stage_is_what_works_on_the_smallest_maps(name: str) -> None:
    network = build_network(name, ModelSettings(head_hidden=8, head_dim=4), 64)
    network.freeze_all_but("last")
    network.train()
    sizes: dict[str, tuple[int, bool]] = {}

    def look(layer: str) -> None:
        def hook(module: nn.Module, _inputs: object, output: Tensor) -> None:
            sizes[layer] = (output.shape[-1], module.training)

        network.encoder.get_submodule(layer).register_forward_hook(hook)

    for layer, module in network.encoder.named_modules():
        if isinstance(module, nn.BatchNorm2d):
            look(layer)
    network(torch.rand(2, 3, 64, 64))
    smallest = min(size for size, _ in sizes.values())
    trained = [size for size, training in sizes.values() if training]
    assert set(trained) <= {smallest, 2 * smallest}  # a stage begins with the maps before it
    assert trained.count(smallest) == [size for size, _ in sizes.values()].count(smallest)
    assert 0 < len(trained) < len(sizes)


def test_an_encoder_that_does_not_name_its_last_stage_is_refused() -> None:
    network = build_network(Small(), ModelSettings(head_hidden=8, head_dim=4), 8)
    with pytest.raises(SettingsError, match="Small does not say what its last stage is; choose"):
        network.freeze_all_but("last")


def test_random_weights_are_not_left_as_they_are() -> None:
    with pytest.raises(SettingsError, match="leaves the random weights of resnet10-w16"):
        initial_network(tiny_source(), settings_for("head"))


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("objective", ["mcl", "cross-entropy"])
def test_a_head_alone_learns_and_the_encoder_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, objective: str, kept: bool
) -> None:
    if not kept:
        monkeypatch.setattr(feature_batches, "MOST_BYTES", 0)
    encoder, settings = small_encoder(), settings_for("head", objective=objective)
    settings = replace(settings, steps=40)
    encoded: list[int] = []
    run = begun(tmp_path / "run", settings)
    train_network(
        tiny_source(),
        settings,
        run,
        encoder=encoder,
        progress=lambda done, *_: encoded.append(done),
    )
    assert encoded == ([48] if kept else [])
    trained = load_network(run.encoder_path, encoder=small_encoder())
    after = trained.network.encoder.state_dict()
    assert all(torch.equal(after[name], numbers) for name, numbers in encoder.state_dict().items())
    history = [loss for _, loss in losses(run)]
    assert np.mean(history[-5:]) < np.mean(history[:5]) - 0.05


def test_features_of_an_encoder_of_ours_are_kept_and_those_of_a_users_own_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODDONE_CACHE", str(tmp_path / "cache"))
    source, settings = tiny_source(), settings_for("head")
    own, ours, again = (begun(tmp_path / name, settings) for name in ("own", "ours", "again"))
    train_network(source, settings, own, encoder=small_encoder())
    assert not (tmp_path / "cache").exists()
    network = build_network("resnet10-w16", settings.model, 16).eval()
    start = TrainedNetwork(network, settings.model, "task", source.classes, 16, "tiny")
    for run, expected in ((ours, [48]), (again, [])):
        encoded: list[int] = []
        report = lambda done, *_: encoded.append(done)  # noqa: E731, B023
        train_network(source, settings, run, start=start, progress=report)
        assert encoded == expected
    assert_same_weights(ours, again)


def test_weights_that_a_user_has_frozen_stay_so_with_their_statistics(tmp_path: Path) -> None:
    encoder = small_encoder().requires_grad_(requires_grad=False)
    run = begun(tmp_path / "run", settings_for("all"))
    train_network(tiny_source(), run.settings, run, encoder=encoder)
    after = load_network(run.encoder_path, encoder=small_encoder()).network.encoder.state_dict()
    assert all(torch.equal(after[name], numbers) for name, numbers in encoder.state_dict().items())


@pytest.mark.parametrize("part", ["all", "head"])
def test_adamw_stopped_and_resumed_equals_never_stopped(tmp_path: Path, part: TrainedPart) -> None:
    whole, parts = (begun(tmp_path / name, settings_for(part)) for name in ("whole", "parts"))
    source = tiny_source()
    train_network(source, whole.settings, whole, encoder=small_encoder())
    train_until(2, source, parts, encoder=small_encoder())
    train_network(source, parts.settings, parts, encoder=small_encoder())
    assert_same_weights(whole, parts)


@pytest.mark.parametrize("poses_per_image", [1, 4])
def test_features_are_those_of_the_images_and_their_mirror_images_in_their_poses(
    poses_per_image: int,
) -> None:
    settings = settings_for("head", held_out=0.25)
    batch = replace(settings.batch, poses_per_image=poses_per_image)
    batches = Batches(tiny_source(), replace(settings, batch=batch))
    trained = frozen_network(small_encoder(), 16, batches.source.classes, "tiny")
    encoder = trained.network.encoder
    features, rows = FeatureBatches.encode(batches, trained).make(5, CPU)
    expected = batches.rows(5)
    assert all(map(torch.equal, rows, expected))
    images = torch.from_numpy(batches.source.images[batches.picked(5)])
    both = torch.cat(
        [images.repeat(poses_per_image, 1, 1, 1), images.flip(3).repeat(poses_per_image, 1, 1, 1)]
    )
    with torch.no_grad():
        torch.testing.assert_close(features, encoder(rotate(both, rows.poses).float() / 255))


def network() -> Network:
    return build_network(small_encoder(), ModelSettings(head_hidden=8, head_dim=4), 8)


def test_the_encoder_has_its_share_of_the_learning_rate() -> None:
    trained = network()
    before = {name: weight.clone() for name, weight in trained.named_parameters()}
    settings = OptimiserSettings(
        learning_rate=1.0, encoder_share=0.1, momentum=0.0, weight_decay=0.0
    )
    optimiser = build_optimiser(trained, settings)
    set_learning_rate(optimiser, 0.5)
    for weight in trained.parameters():
        weight.grad = torch.ones_like(weight)
    optimiser.step()
    for name, weight in trained.named_parameters():
        step = 0.05 if name.startswith("encoder.") else 0.5
        torch.testing.assert_close(before[name] - weight, torch.full_like(weight, step))


def test_adamw_is_that_of_torch() -> None:
    ours, theirs = network(), network()
    theirs.load_state_dict(ours.state_dict())
    optimisers = (
        build_optimiser(ours, OptimiserSettings(method="adamw", learning_rate=0.1)),
        torch.optim.AdamW(theirs.parameters(), lr=0.1, betas=(0.9, 0.999), weight_decay=1e-6),
    )
    for optimiser, each in zip(optimisers, (ours, theirs), strict=True):
        for power in (1, 2):
            for weight in each.parameters():
                weight.grad = weight.detach() ** power
            optimiser.step()
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "adamw", "nesterov": True}, "nesterov is a way of SGD"),
        ({"encoder_share": 0.0}, "set model.trained_part='head'"),
        ({"encoder_share": 1.5}, "choose it above 0, up to 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        OptimiserSettings(**changes)  # type: ignore[arg-type]


def test_a_detector_on_a_head_alone_looks_at_one_view_with_one_covariance(tmp_path: Path) -> None:
    run = begun(tmp_path / "run", settings_for("head"))
    train_network(tiny_source(), run.settings, run, encoder=small_encoder())
    trained = load_network(run.encoder_path, encoder=small_encoder())
    settings = DetectorSettings.suited_to(trained)
    assert (settings.views, settings.tied, settings.space) == (one_view, True, "head")
