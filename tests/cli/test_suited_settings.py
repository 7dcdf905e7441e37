"""Settings that suit the images, the time and the memory, where nobody has chosen."""

import shutil
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from torch import nn

import oddone
from oddone import suited_settings
from oddone.data.notation import look
from oddone.encoders import is_installed
from oddone.errors import SettingsWarning
from oddone.presets import cpu, mcl, pretrained
from oddone.suited_settings import preset_for, with_suited_batch, with_suited_size
from oddone.training import TrainSettings, plan
from oddone.training.cost import RowCost
from oddone.training.settings_file import read_settings
from runs import tiny_settings, tiny_source

Run = Callable[..., tuple[int, str, str]]

needs_weights = pytest.mark.skipif(
    not is_installed("efficientnet-lite0"), reason="needs oddone[pretrained]"
)


def folder_of(path: Path, *, width: int, height: int) -> Path:
    """Return a folder of two classes with six noise pictures each."""
    generator = np.random.default_rng(0)
    for number in range(12):
        name = path / ("cats", "dogs")[number % 2] / f"{number}.png"
        name.parent.mkdir(parents=True, exist_ok=True)
        pixels = generator.integers(0, 256, (height, width, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(name)
    return path


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return folder_of(tmp_path / "photos", width=130, height=100)


@pytest.fixture
def icons(tmp_path: Path) -> Path:
    return folder_of(tmp_path / "icons", width=40, height=70)


def cost_of(bytes_per_row: float, seconds_per_row: float) -> Callable[..., RowCost]:
    return lambda *_: RowCost(bytes_per_row, seconds_per_row)


def test_a_folder_is_looked_at_and_nothing_else_is(photos: Path, tmp_path: Path) -> None:
    assert look(str(photos)) == (2, 12, 100)
    assert look(f"folder:{photos}") == (2, 12, 100)
    assert look(f"flat:{photos}") is None
    assert look("fashion") is None
    assert look(str(tmp_path / "none")) is None


@needs_weights
def test_photographs_get_the_pretrained_preset_and_small_pictures_do_not(
    photos: Path, icons: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert preset_for(str(photos)) == "pretrained"
    assert preset_for(str(icons)) == "cpu"
    assert preset_for("fashion") is None
    monkeypatch.setattr(suited_settings, "is_installed", lambda _: False)
    assert preset_for(str(photos)) == "cpu"


def test_small_pictures_of_one_class_are_told_apart_by_their_poses(icons: Path) -> None:
    second = sorted(path for path in icons.iterdir() if path.is_dir())[1]
    shutil.rmtree(second)
    assert preset_for(str(icons)) == "mcl"


@needs_weights
def test_train_on_photographs_says_what_it_does_and_how_to_choose_otherwise(
    photos: Path, tmp_path: Path, run_oddone: Run
) -> None:
    run = tmp_path / "run"
    quick = ("--steps", "2", "--size", "32")
    code, printed, complained = run_oddone("train", str(photos), "--out", str(run), *quick)
    assert code == 0, complained
    assert "a head is trained on efficientnet-lite0" in printed
    assert "--preset cpu trains a small network from scratch" in printed
    settings = read_settings(run / "settings.toml")
    assert settings == replace(sized(pretrained(), 32), steps=2)


def test_what_the_user_chooses_is_trained_from_scratch(
    photos: Path, tmp_path: Path, run_oddone: Run
) -> None:
    run, words = tmp_path / "run", ["--model.encoder-name", "resnet10-w16", "--minutes", "0.005"]
    code, printed, complained = run_oddone("train", str(photos), "--out", str(run), *words)
    assert code == 0, complained
    assert "32 x 32 pixels: in 0.005 minutes each image is seen about" in printed
    assert "--model.image-size chooses otherwise" in printed
    settings = tomllib.loads((run / "settings.toml").read_text())
    assert settings["model"]["image_size"] == 32
    assert settings["model"]["trained_part"] == "all"


def sized(settings: TrainSettings, size: int | None) -> TrainSettings:
    return replace(settings, model=replace(settings.model, image_size=size))


def test_a_size_is_chosen_for_folders_alone_and_where_nobody_has(
    photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "measure_cost", cost_of(1.0, 0.001))
    said: list[str] = []
    chosen = with_suited_size(mcl(), str(photos), said.append)
    assert chosen == sized(mcl(), 64)  # the largest up to 100
    assert "seen about 25,000 times" in said.pop()
    for settings, source in (
        (sized(cpu(), 48), str(photos)),
        (cpu(), "fashion"),
        (replace(cpu(), minutes=None, steps=10), str(photos)),
    ):
        assert with_suited_size(settings, source, said.append) == settings
    assert said == []
    encoder = replace(cpu().model, encoder_name="efficientnet-lite0")
    assert with_suited_size(replace(cpu(), model=encoder), str(photos)).model.image_size == 224


def test_a_batch_is_cut_to_the_memory_unless_it_was_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    source, settings = tiny_source(), tiny_settings()  # twelve images, two rows each
    monkeypatch.setattr(suited_settings, "measure_cost", cost_of(1e8, 0.001))
    said: list[str] = []
    cut = with_suited_batch(settings, source, keep_batch=False, say=said.append)
    assert cut == replace(settings, batch=replace(settings.batch, images=10))
    words = "10 images a step, as 12 would take about 2.4 GB of memory; --batch.images chooses"
    assert words in said.pop()
    with pytest.warns(SettingsWarning, match="12 images a step would take about 2.4 GB of memory"):
        assert with_suited_batch(settings, source, keep_batch=True, say=said.append) == settings
    monkeypatch.setattr(suited_settings, "measure_cost", cost_of(1.0, 0.001))
    assert with_suited_batch(settings, source, keep_batch=False, say=said.append) == settings
    assert said == []


FEW_EPOCHS = (
    "in 10 minutes each of 48 images is seen about 6.2 times, and ten times is little; choose more "
    "--minutes, a smaller --model.image-size than 16, or oddone fit"
)


def test_few_epochs_are_told_with_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suited_settings, "measure_cost", cost_of(1.0, 1.0))
    settings = replace(mcl(), minutes=10.0)
    with pytest.warns(SettingsWarning, match=FEW_EPOCHS):
        assert with_suited_batch(settings, tiny_source(), keep_batch=False) == settings


def test_a_warning_of_settings_is_a_note_of_the_command(
    icons: Path, tmp_path: Path, run_oddone: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suited_settings, "measure_cost", cost_of(1.0, 1.0))
    short = [str(icons), "--preset", "smoke", "--minutes", "0.001", "--size", "16"]
    code, _, complained = run_oddone("train", *short, "--out", str(tmp_path / "run"))
    assert code == 0, complained
    noted = " ".join(complained.split())
    assert "note: in 0.001 minutes each of " in noted


class BegunError(Exception):
    """What stands for the training."""


@pytest.fixture
def settings_in_python(monkeypatch: pytest.MonkeyPatch) -> Callable[..., TrainSettings]:
    """Return a function that returns the settings that `oddone.train` would train by."""

    def stop(_source: object, settings: TrainSettings, *_: object, **__: object) -> None:
        raise BegunError(settings)

    def settings_of(*arguments: object, **more: object) -> TrainSettings:
        monkeypatch.setattr("oddone.api.train_network", stop)
        with pytest.raises(BegunError) as begun:
            oddone.train(*arguments, **more)  # type: ignore[arg-type]
        settings: TrainSettings = begun.value.args[0]
        return settings

    return settings_of


@needs_weights
def test_python_takes_the_preset_of_the_command_for_photographs(
    photos: Path, settings_in_python: Callable[..., TrainSettings]
) -> None:
    assert settings_in_python(str(photos)) == pretrained()
    own = settings_in_python(str(photos), encoder=nn.Sequential(nn.AvgPool2d(8), nn.Flatten()))
    assert own == cpu()


def test_python_takes_the_size_and_the_batch_of_the_command(
    icons: Path, monkeypatch: pytest.MonkeyPatch, settings_in_python: Callable[..., TrainSettings]
) -> None:
    monkeypatch.setattr(plan, "measure_cost", cost_of(1.0, 0.001))
    monkeypatch.setattr(suited_settings, "measure_cost", cost_of(2.5e8, 0.001))
    with pytest.warns(SettingsWarning, match="8 images a step, as 256 would take about 3.0 GB"):
        chosen = settings_in_python(str(icons))
    assert chosen == replace(sized(cpu(), 32), batch=replace(cpu().batch, images=8))
    with pytest.warns(SettingsWarning, match="256 images a step would take about 3.0 GB of mem"):
        assert settings_in_python(str(icons), cpu()) == sized(cpu(), 32)


def test_in_python_a_begun_run_keeps_the_size_that_was_chosen_for_it(
    icons: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = {"objective": "cross-entropy", "rotations": "none"}
    short, run = tiny_settings(steps=None, minutes=0.001, **plain), tmp_path / "run"
    monkeypatch.setattr(plan, "measure_cost", cost_of(1.0, 1e-9))
    monkeypatch.setattr(suited_settings, "measure_cost", cost_of(1.0, 1e-9))
    first = oddone.train(str(icons), short, out=run)
    assert first.image_size == 32
    monkeypatch.setattr("oddone.api.with_suited_size", None)
    monkeypatch.setattr("oddone.api.with_suited_batch", None)
    assert oddone.train(str(icons), short, out=run).image_size == 32
    assert oddone.train(str(icons), out=run).image_size == 32


def test_a_batch_on_the_command_line_or_in_a_file_is_kept(
    icons: Path, tmp_path: Path, run_oddone: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suited_settings, "measure_cost", cost_of(1e9, 1e-6))
    file = tmp_path / "s.toml"
    file.write_text("steps = 1\n[batch]\nimages = 12\n")
    short = [str(icons), "--preset", "smoke", "--steps", "1", "--size", "16"]
    for name, words, images in (
        ("flag", ["--batch.images", "12"], 12),
        ("alias", ["--batch-size", "12"], 12),
        ("file", ["--config", str(file)], 12),
        ("none", [], 8),
    ):
        run = tmp_path / name
        code, printed, complained = run_oddone("train", *short, "--out", str(run), *words)
        assert code == 0, complained
        assert "done: 1 step in " in printed
        assert read_settings(run / "settings.toml").batch.images == images
        provenance = (run / "provenance.json").read_text()
        assert f'"images": {images}' in provenance
