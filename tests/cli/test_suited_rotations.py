"""A head is trained with rotations unless left-out classes are told apart better without."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import oddone
from oddone import features
from oddone.cli.train import app
from oddone.data import ImageSet
from oddone.encoders import is_installed
from oddone.presets import mcl, mcl_classifier, pretrained
from oddone.selection.head import train_head
from oddone.suited_settings import with_suited_rotations
from oddone.training import TrainSettings, split_held_out
from oddone.training.settings_file import read_settings
from runs import tiny_source

Run = Callable[..., tuple[int, str, str]]

pytestmark = pytest.mark.filterwarnings("ignore:alpha=0.05 is outside")  # of so few images
needs_weights = pytest.mark.skipif(
    not is_installed("efficientnet-lite0"), reason="needs oddone[pretrained]"
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of features, and let heads be trained for a few steps."""
    monkeypatch.setenv("ODDONE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("oddone.selection.head.STEPS", 3)
    return tmp_path / "cache" / "features"


@pytest.fixture
def pooled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the pretrained encoder be one that needs no package: mean colours of four fields."""
    encoder = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten())
    monkeypatch.setattr("oddone.encoders.frozen.pretrained_encoder", lambda _name: encoder)


@pytest.fixture
def unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where an encoder is loaded to ask."""

    def fail(name: str) -> nn.Module:
        raise AssertionError(f"{name} was loaded")

    monkeypatch.setattr("oddone.encoders.frozen.pretrained_encoder", fail)


def photographs(path: Path, per_class: int = 8) -> Path:
    """Return a folder of three colours of noise."""
    generator = np.random.default_rng(0)
    for label, name in enumerate(("lemon", "moss", "plum")):
        (path / name).mkdir(parents=True)
        for number in range(per_class):
            pixels = generator.integers(0, 120, (100, 100, 3), dtype=np.uint8)
            pixels[:50, :, label] += 100
            Image.fromarray(pixels).save(path / name / f"{number}.png")
    return path


# Asking


@pytest.fixture(autouse=True)
def always_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let heads without rotations be trained, however good those with them are."""
    monkeypatch.setattr("oddone.selection.rotations.NEARLY_ALL", 2.0)


@pytest.mark.usefixtures("pooled")
@pytest.mark.parametrize("rotations", ["task", "none"])
def test_left_out_classes_say_whether_a_head_learns_rotations(
    monkeypatch: pytest.MonkeyPatch, rotations: str
) -> None:
    views: list[tuple[int, int]] = []

    def train(unit: Tensor, *_: Tensor, generator: torch.Generator) -> nn.Sequential:
        views.append(tuple(unit.shape[:2]))
        head = train_head(unit, *_, generator=generator)
        if (len(unit) == 2) != (rotations == "none"):
            head[1].weight[:, 1:] = 0  # type: ignore[index, operator]  # it sees one number
        return head

    monkeypatch.setattr("oddone.selection.head.STEPS", 30)
    monkeypatch.setattr("oddone.selection.candidates.train_head", train)
    source = tiny_source(images=240, classes=8)
    settings, head = with_suited_rotations(pretrained(), source)
    assert settings == replace(pretrained(), rotations=rotations)
    assert head is not None
    assert head["rotations"] == rotations
    better = head["auroc"] - head["auroc_otherwise"]
    assert better > (0.005 if rotations == "none" else -0.005)
    assert json.loads(json.dumps(head)) == head
    assert [shape[0] for shape in views] == [8] * 5 + [2] * 5


@pytest.mark.usefixtures("pooled")
def test_where_nearly_all_are_told_apart_with_rotations_no_head_is_trained_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    views: list[int] = []

    def train(unit: Tensor, *_: Tensor, generator: torch.Generator) -> nn.Sequential:
        views.append(len(unit))
        return train_head(unit, *_, generator=generator)

    monkeypatch.setattr("oddone.selection.head.STEPS", 30)
    monkeypatch.setattr("oddone.selection.candidates.train_head", train)
    source = tiny_source(images=120, classes=4)
    asked = with_suited_rotations(pretrained(), source).head
    assert asked is not None
    assert views == [8] * 5 + [2] * 5
    views.clear()
    with_poses = asked["auroc" if asked["rotations"] == "task" else "auroc_otherwise"]
    monkeypatch.setattr("oddone.selection.rotations.NEARLY_ALL", with_poses)
    settings, head = with_suited_rotations(pretrained(), source)
    assert settings == pretrained()
    assert head == {**asked, "rotations": "task", "auroc": with_poses, "auroc_otherwise": None}
    assert views == [8] * 5


@pytest.mark.usefixtures("pooled")
def test_images_that_are_held_out_are_not_asked(cache: Path) -> None:
    source = tiny_source(images=60)
    with_suited_rotations(pretrained(), source)
    (kept,) = cache.iterdir()
    split = split_held_out(source, pretrained())
    assert len(split.held_out) == 6
    stored = features.TensorFile.read(kept).tensors["features"]
    assert stored.shape == (8, len(split.training), 12)


@pytest.mark.usefixtures("pooled")
def test_progress_tells_of_both_kinds_of_heads() -> None:
    reports: list[tuple[int, int, str]] = []
    with_suited_rotations(
        pretrained(), tiny_source(), progress=lambda *report: reports.append(report)
    )
    phases = list(dict.fromkeys(description for _, _, description in reports))
    assert phases == ["embedding", "comparing with rotations", "comparing without rotations"]


@pytest.mark.usefixtures("unasked")
@pytest.mark.parametrize(
    "settings",
    [
        mcl(),
        mcl_classifier(),
        replace(pretrained(), rotations="augmentation"),
        replace(pretrained(), rotations="none"),
        replace(pretrained(), objective="cross-entropy"),
        replace(pretrained(), class_weight=1.0),
        replace(pretrained(), model=replace(pretrained().model, trained_part="last")),
    ],
)
def test_where_no_head_alone_learns_rotations_by_mcl_nobody_is_asked(
    settings: TrainSettings,
) -> None:
    assert with_suited_rotations(settings, tiny_source()) == (settings, None)


@pytest.mark.usefixtures("unasked")
def test_one_class_needs_its_rotations() -> None:
    one = tiny_source(classes=1)
    assert with_suited_rotations(pretrained(), one) == (pretrained(), None)


@pytest.mark.usefixtures("pooled")
@pytest.mark.parametrize(("images", "classes"), [(2, 2), (3, 3), (4, 2)])
def test_of_too_few_images_nothing_is_concluded(images: int, classes: int) -> None:
    few = tiny_source(images=images, classes=classes)
    assert with_suited_rotations(pretrained(), few) == (pretrained(), None)


@pytest.mark.usefixtures("pooled")
def test_features_that_are_too_many_to_keep_are_not_asked(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    monkeypatch.setattr("oddone.training.feature_batches.MOST_BYTES", 0)
    assert with_suited_rotations(pretrained(), tiny_source()) == (pretrained(), None)
    assert not cache.exists()


# Who has chosen


def kept(*words: str) -> tuple[str, ...]:
    """Return the settings that are kept as a command line has them."""
    command = ["photos", "--out", "run", "--preset", "pretrained", *words]
    _, bound, _ = app.parse_args(command, exit_on_error=False, print_error=False)
    chosen: tuple[str, ...] = bound.arguments.get("kept", ())
    return chosen


def test_what_a_flag_or_a_file_says_is_kept(tmp_path: Path) -> None:
    assert kept() == kept("--batch.parts", "2") == ()
    assert kept("--rotations", "task") == ("--rotations",)
    assert kept("--batch-size", "9", "--rotations", "none") == ("--batch.images", "--rotations")
    file = tmp_path / "s.toml"
    file.write_text('rotations = "task"\n[batch]\nimages = 12\n')
    assert kept("--config", str(file)) == ("--batch.images", "--rotations")
    file.write_text("[batch]\nparts = 2\n")
    assert kept("--config", str(file)) == ()


@pytest.fixture
def settings_in_python(monkeypatch: pytest.MonkeyPatch) -> Callable[..., TrainSettings]:
    """Return a function that returns the settings that `oddone.train` would train by."""

    class BegunError(Exception):
        pass

    def stop(_source: ImageSet, settings: TrainSettings, *_: object, **__: object) -> None:
        raise BegunError(settings)

    def settings_of(*arguments: object) -> TrainSettings:
        monkeypatch.setattr("oddone.api.train_network", stop)
        with pytest.raises(BegunError) as begun:
            oddone.train(*arguments)  # type: ignore[arg-type]
        settings: TrainSettings = begun.value.args[0]
        return settings

    return settings_of


@needs_weights
@pytest.mark.usefixtures("unasked")
def test_settings_that_are_passed_in_python_are_not_asked_about(
    tmp_path: Path, settings_in_python: Callable[..., TrainSettings]
) -> None:
    folder = photographs(tmp_path / "photos")
    assert settings_in_python(str(folder), pretrained()) == pretrained()


# From end to end


@needs_weights
def test_train_asks_once_says_what_came_out_and_encodes_each_view_once(
    tmp_path: Path, run_oddone: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[int] = []

    def process(*arguments: object, indices: np.ndarray, **more: object) -> object:
        encoded.append(len(indices))
        return process_batches(*arguments, indices=indices, **more)  # type: ignore[arg-type]

    process_batches = features.process_batches
    monkeypatch.setattr(features, "process_batches", process)
    run, folder = tmp_path / "run", photographs(tmp_path / "photos")
    words = ("train", str(folder), "--steps", "2", "--size", "32", "--out")
    code, printed, complained = run_oddone(*words, str(run))
    assert code == 0, complained
    head = json.loads((run / "provenance.json").read_text())["head"]
    way, otherwise = ("without", "with") if head["rotations"] == "none" else ("with", "without")
    assert (
        f"The head is trained {way} rotations: classes left out are told apart with AUROC "
        f"{head['auroc']:.1%} so, and with {head['auroc_otherwise']:.1%} {otherwise} rotations. "
        f"--rotations chooses otherwise."
    ) in " ".join(printed.split())
    settings = read_settings(run / "settings.toml")
    assert settings.rotations == head["rotations"]
    assert oddone.Detector.load(run).embedder.trained.rotations == head["rotations"]
    assert encoded == [21]

    _, printed, _ = run_oddone("train", "--resume", str(run), "--steps", "3")
    assert "done: 3 steps" in printed
    assert "The head is trained" not in printed
    assert read_settings(run / "settings.toml") == replace(settings, steps=3)
    assert json.loads((run / "provenance.json").read_text())["head"] == head
    assert encoded == [21]

    chosen = tmp_path / "chosen"
    _, printed, _ = run_oddone(*words, str(chosen), "--rotations", "none")
    assert "The head is trained" not in printed
    assert read_settings(chosen / "settings.toml").rotations == "none"
    assert "head" not in json.loads((chosen / "provenance.json").read_text())
    assert encoded == [21]
