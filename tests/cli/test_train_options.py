"""The settings of `oddone train` on its command line."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from oddone.cli import train_options
from oddone.cli.train import app
from oddone.cli.train_options import ALIASES
from oddone.encoders import ModelSettings, TrainedNetwork, build_network, save_network
from oddone.errors import SettingsError
from oddone.presets import PRESETS, cpu, mcl, pretrained
from oddone.training import TrainSettings
from oddone.training.settings_file import to_dict

Run = Callable[..., tuple[int, str, str]]


def settings_of(*words: str) -> TrainSettings:
    """Return the settings that a command line sets."""
    command = ["photos", "--out", "run", *words]
    _, bound, _ = app.parse_args(command, exit_on_error=False, print_error=False)
    settings = bound.arguments.get("settings", cpu())
    assert isinstance(settings, TrainSettings)
    return settings


def test_the_usual_names_of_settings_work() -> None:
    settings = settings_of(
        "--lr", "0.1", "--batch-size=64", "--size", "48", "--encoder", "resnet18", "--alpha", "0.2"
    )
    before = cpu()
    assert settings == replace(
        before,
        optimiser=replace(before.optimiser, learning_rate=0.1),
        batch=replace(before.batch, images=64),
        model=replace(before.model, image_size=48, encoder_name="resnet18"),
        loss=replace(before.loss, alpha=0.2),
    )


@pytest.mark.parametrize(("alias", "name"), ALIASES.items())
def test_every_alias_sets_what_the_full_name_sets(alias: str, name: str) -> None:
    value = "resnet34" if "encoder" in name else "33" if "image" in name else "0.15"
    assert settings_of(alias, value) == settings_of(name, value) != cpu()


def test_an_alias_may_have_underscores() -> None:
    words = ("--batch_size", "64", "--learning_rate=0.1", "--optimiser.weight_decay", "0.2")
    assert settings_of(*words) == settings_of(*(word.replace("_", "-") for word in words))


def test_a_pretrained_encoder_gets_the_settings_and_the_size_that_suit_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(train_options, "default_image_size", {"efficientnet-lite2": 260}.get)
    suited, named = pretrained(), ("--encoder", "efficientnet-lite2")
    model = replace(suited.model, encoder_name="efficientnet-lite2", image_size=260)
    assert settings_of(*named) == replace(suited, model=model)
    assert settings_of(*named, "--size", "96").model.image_size == 96
    assert settings_of("--preset", "cpu", *named).batch == cpu().batch


def test_a_pretrained_encoder_that_a_file_names_gets_what_suits_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train_options, "default_image_size", {"efficientnet-lite2": 260}.get)
    file, suited = tmp_path / "settings.toml", pretrained()
    file.write_text('[model]\nencoder_name = "efficientnet-lite2"\nhead_dim = 16\n')
    model = replace(suited.model, encoder_name="efficientnet-lite2", head_dim=16, image_size=260)
    for words in ((), ("--preset", "pretrained")):
        assert settings_of("--config", str(file), *words) == replace(suited, model=model)
    assert settings_of("--config", str(file), "--preset", "cpu").batch == cpu().batch
    assert settings_of("--config", str(file), "--encoder", "resnet18").batch == cpu().batch
    file.write_text("seed = 5\n")
    assert settings_of("--config", str(file)) == replace(cpu(), seed=5)


@pytest.mark.parametrize(
    ("name", "preset"), [("efficientnet-lite0", pretrained()), ("resnet10-w16", cpu())]
)
def test_a_network_to_start_from_brings_its_model_and_the_preset_that_suits_it(
    tmp_path: Path, name: str, preset: TrainSettings
) -> None:
    model = ModelSettings(encoder_name=name, head_hidden=16, head_dim=8, trained_part="last")
    network, start = build_network(name, model, 32), tmp_path / "encoder.safetensors"
    save_network(start, TrainedNetwork(network, model, "task", ("cat", "dog"), 32, "none"))
    expected = replace(model, image_size=32, trained_part=preset.model.trained_part)
    for place in (tmp_path, start):
        assert settings_of("--start", str(place)) == replace(preset, model=expected)
    chosen = settings_of("--start", str(start), "--preset", "mcl", "--model.head-dim", "9")
    expected = replace(expected, head_dim=9, trained_part="all")
    assert chosen == replace(mcl(), model=expected)


def test_all_of_a_pretrained_encoder_learns_more_slowly_than_its_head() -> None:
    settings = settings_of("--encoder", "efficientnet-lite0", "--model.trained-part", "all")
    assert settings.optimiser.encoder_share < 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--batch 64", "--batch alone is no setting; choose --batch.images, --batch.poses-per"),
        ("--loss=0.1", "choose --loss.temperature, --loss.alpha, --loss.beta,"),
        ("--model resnet18", "--model.encoder-name, --model.image-size, --model.head-hidden, --m"),
        ("--optimiser sgd", "--optimiser sgd: --optimiser alone is no setting; choose --optimis"),
        ("--augment none", "choose --augment.crop-scale,"),
        ("--batch-size 2.5", "--batch.images 2.5: choose a whole number, such as 2"),
        ("--lr 0", "optimiser.learning_rate=0.0: choose a positive number"),
    ],
)
def test_a_section_without_a_setting_and_a_wrong_value_of_an_alias_are_refused(
    words: str, message: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        settings_of(*words.split())
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--lr 0.1 --optimiser.learning-rate 0.2", "Parameter --lr specified multiple times"),
        ("--lr fast", 'Invalid value for --lr: unable to convert "fast" into float'),
        ("--lrr 0.1", "Unknown option: --lrr. Did you mean --lr?"),
        ("--augment.empty-crop-scale", "Unknown option: --augment.empty-crop-scale"),
    ],
)
def test_a_mistake_with_an_alias_is_one_line(run_oddone: Run, words: str, message: str) -> None:
    code, printed, complained = run_oddone("train", "photos", "--out", "run", *words.split())
    assert (code, printed) == (2, "")
    assert message in complained
    assert complained.count("\n") == 1


def test_a_section_as_json_changes_only_what_it_names() -> None:
    assert settings_of("--batch", '{"images": 64}') == settings_of("--batch.images", "64")


@pytest.mark.parametrize(
    ("words", "preset"),
    [
        (["--help"], "cpu"),
        (["--preset", "paper", "--help"], "paper"),
        (["--help", "--preset=authors"], "authors"),
    ],
)
def test_the_help_shows_the_defaults_of_the_preset(words: list[str], preset: str) -> None:
    # In a process of its own: the width is that of the first help that a process prints.
    command = [sys.executable, "-m", "oddone", "train", *words]
    environment = {**os.environ, "COLUMNS": "500"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)  # noqa: S603
    printed = done.stdout
    assert printed.startswith("Usage: oddone train ")
    shown = dict(re.findall(r"(--[a-z.-]+) .*\[default: (.*?)\]", printed))
    own = ("--debug", "--overwrite", "--preset", "--processes", "--strict", "--tensorboard")
    # All others are settings.
    options = {name: default for name, default in shown.items() if name not in own}
    assert options == flattened(to_dict(PRESETS[preset]()))


def flattened(settings: dict[str, object], above: str = "--") -> dict[str, str]:
    """Return settings by their flags, as text, with what a person needs of broken numbers."""
    flat: dict[str, str] = {}
    for name, value in settings.items():
        flag = above + name.replace("_", "-")
        if isinstance(value, dict):
            flat |= flattened(value, f"{flag}.")
        elif isinstance(value, list):
            flat[flag] = " ".join(f"{number:.4g}" for number in value)
        else:
            flat[flag] = str(value)
    return flat


def test_the_help_of_an_unknown_preset_suggests_the_nearest(run_oddone: Run) -> None:
    code, _, complained = run_oddone("train", "--help", "--preset", "papr")
    assert code == 2
    assert "--preset papr: there is no such preset; did you mean 'paper'?" in complained
