from dataclasses import replace
from pathlib import Path

import pytest
import torch
from comparing import assert_same_weights, begun, losses, train_until

from oddone.encoders import PoolNet, TrainedNetwork, load_network
from oddone.errors import DataError, SettingsError
from oddone.training import StepReport, TrainSettings, train_network
from oddone.training.checkpoint import newest_checkpoint
from oddone.training.initialise import initial_network
from runs import tiny_settings, tiny_source


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> TrainedNetwork:
    """Return a network that SimCLR has trained a little."""
    settings = tiny_settings(objective="simclr", rotations="none", steps=2, seed=8)
    run = begun(tmp_path_factory.mktemp("pretrained") / "run", settings)
    train_network(tiny_source(), settings, run)
    return load_network(run.encoder_path)


def tuned(**changes: object) -> TrainSettings:
    return tiny_settings(objective="cross-entropy", steps=4, **changes)


def test_the_encoder_starts_from_the_other_and_the_classifiers_are_new(
    pretrained: TrainedNetwork,
) -> None:
    source = tiny_source(classes=5)
    network, fresh = (initial_network(source, tuned(), start=start) for start in (pretrained, None))
    for part in ("encoder", "head"):
        theirs, ours = (getattr(n, part).state_dict() for n in (pretrained.network, network))
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert network.classifier is not None
    assert fresh.classifier is not None
    assert torch.equal(network.classifier.weight, fresh.classifier.weight)
    assert len(network.classifier.weight) == 5


def test_fine_tuning_leaves_the_network_it_starts_from_as_it_was(
    tmp_path: Path, pretrained: TrainedNetwork
) -> None:
    before = {
        name: tensor.clone() for name, tensor in pretrained.network.encoder.state_dict().items()
    }
    run = begun(tmp_path / "run", tuned())
    train_network(tiny_source(), tuned(), run, start=pretrained)
    after = pretrained.network.encoder.state_dict()
    assert all(torch.equal(after[name], before[name]) for name in before)
    moved = load_network(run.encoder_path).network.encoder.state_dict()
    assert not torch.equal(moved["stem.0.weight"], before["stem.0.weight"])


@pytest.mark.parametrize("stop_after", [1, 3])
def test_stopped_and_resumed_without_the_start_equals_never_stopped(
    tmp_path: Path, pretrained: TrainedNetwork, stop_after: int
) -> None:
    whole, parts = begun(tmp_path / "whole", tuned()), begun(tmp_path / "parts", tuned())
    train_network(tiny_source(), tuned(), whole, start=pretrained)
    train_until(stop_after, tiny_source(), parts, start=pretrained)
    assert train_network(tiny_source(), tuned(), parts).finished
    assert_same_weights(whole, parts)
    assert losses(whole) == losses(parts)


def test_a_run_that_dies_in_its_first_step_has_kept_where_it_started(
    tmp_path: Path, pretrained: TrainedNetwork
) -> None:
    whole, dead = begun(tmp_path / "whole", tuned()), begun(tmp_path / "dead", tuned())
    train_network(tiny_source(), tuned(), whole, start=pretrained)

    def die(_: StepReport) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_network(tiny_source(), tuned(), dead, start=pretrained, watch=die)
    newest = newest_checkpoint(dead.checkpoints)
    assert newest is not None
    assert newest.name == "000000000.safetensors"
    assert train_network(tiny_source(), tuned(), dead).finished
    assert_same_weights(whole, dead)
    assert losses(whole) == losses(dead)


def test_a_run_from_random_weights_keeps_no_checkpoint_of_them(tmp_path: Path) -> None:
    settings = tuned(checkpoint_seconds=1000.0)
    run = begun(tmp_path / "run", settings)
    train_network(tiny_source(), settings, run)
    assert [path.name for path in run.checkpoints.iterdir()] == ["000000004.safetensors"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"head_dim": 9},
            r"16 and 8 and .* 16 and 9 \(2 weights of the head differ, such as '2.bias'\)",
        ),
        (
            {"encoder_name": "resnet10-w32"},
            "start from is resnet10-w16 .* and this run trains resnet10-w32 .*choose the same",
        ),
    ],
)
def test_another_architecture_is_refused(
    tmp_path: Path, pretrained: TrainedNetwork, change: dict[str, object], message: str
) -> None:
    settings = tuned()
    settings = replace(settings, model=replace(settings.model, **change))
    run = begun(tmp_path / "run", settings)
    with pytest.raises(SettingsError, match=message):
        train_network(tiny_source(), settings, run, start=pretrained)
    assert newest_checkpoint(run.checkpoints) is None


def test_another_image_size_is_refused(tmp_path: Path, pretrained: TrainedNetwork) -> None:
    message = "images of 16 x 16 pixels and these have 24 x 24; set model.image_size=16"
    with pytest.raises(DataError, match=message):
        train_network(
            tiny_source(size=24), tuned(), begun(tmp_path / "run", tuned()), start=pretrained
        )


def test_an_encoder_of_the_users_own_can_be_fine_tuned(tmp_path: Path) -> None:
    def own_encoder() -> torch.nn.Module:
        return torch.nn.Sequential(
            torch.nn.Conv2d(3, 5, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()
        )

    settings = tuned()
    source = tiny_source()
    network = initial_network(source, settings, encoder=own_encoder())
    start = TrainedNetwork(
        network, settings.model, settings.rotations, source.classes, 16, source.fingerprint
    )
    ours = initial_network(source, settings, encoder=own_encoder(), start=start)
    assert torch.equal(ours.encoder[0].weight, network.encoder[0].weight)
    with pytest.raises(SettingsError, match="choose the same model.encoder_name \\(or encoder\\)"):
        train_network(source, settings, begun(tmp_path / "run", settings), start=start)


def test_a_new_poolnet_whitens_the_images_that_are_trained_on() -> None:
    model = replace(tiny_settings().model, encoder_name="poolnet")
    settings, source = tiny_settings(model=model), tiny_source(size=16)
    network, same = (initial_network(source, settings) for _ in range(2))
    assert isinstance(network.encoder, PoolNet)
    images = torch.from_numpy(source.images).float() / 255
    outputs = network.encoder.patches(images).transpose(0, 1).flatten(1)
    assert outputs.std(dim=1).min() > 0.5
    assert outputs.std(dim=1).max() < 1.1
    assert torch.equal(network.encoder.patches.weight, same.encoder.patches.weight)


def test_a_poolnet_of_the_users_own_keeps_its_filters() -> None:
    own = PoolNet()
    network = initial_network(tiny_source(size=16), tiny_settings(), encoder=own)
    assert isinstance(network.encoder, PoolNet)
    assert torch.equal(network.encoder.patches.weight, own.patches.weight)
