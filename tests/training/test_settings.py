import dataclasses
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest

from oddone.detector import DetectorSettings
from oddone.encoders import ModelSettings
from oddone.errors import SettingsError
from oddone.losses import MCLSettings
from oddone.presets import PRESETS, authors, cpu, paper, smoke
from oddone.training import BatchSettings, OptimiserSettings, RunDirectory, TrainSettings
from oddone.training.optim import learning_rate
from oddone.training.settings_file import as_toml, read_settings, read_toml, to_dict
from oddone.transforms import AugmentSettings


@pytest.mark.parametrize("preset", PRESETS.values())
def test_every_preset_survives_its_file(preset: object, tmp_path: Path) -> None:
    settings = preset()  # type: ignore[operator]
    (tmp_path / "settings.toml").write_bytes(as_toml(settings))
    assert read_settings(tmp_path / "settings.toml") == settings


def test_the_paper_is_as_printed() -> None:
    settings = paper()
    assert settings.model.encoder_name == "resnet34"
    assert (settings.model.head_hidden, settings.model.head_dim) == (2048, 128)
    assert (settings.batch.images, settings.batch.poses_per_image) == (256, 4)
    assert settings.optimiser.learning_rate == pytest.approx(0.3 * 1024 / 256)
    assert settings.optimiser.weight_decay == 1e-6
    assert (settings.loss.alpha, settings.loss.beta, settings.loss.temperature) == (0.05, 2.5, 0.2)
    low, high = settings.loss.alpha_range(batch_size=1024, classes=40)
    assert low < settings.loss.alpha < high


def test_the_authors_differ_where_their_code_does() -> None:
    loss = authors().loss
    assert (loss.beta, loss.denominator, loss.attraction) == (2, "softmax", "sampled-image")
    assert (loss.clamp, loss.spa_siblings) == (True, "ones")
    assert authors().optimiser.nesterov
    assert authors().optimiser.final_share == 5e-4


def test_supclr_as_printed_can_be_set_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text('steps = 7\nobjective = "supclr"\nsupclr_siblings = false\n')
    settings = read_settings(tmp_path / "s.toml")
    assert settings == TrainSettings(steps=7, objective="supclr", supclr_siblings=False)
    assert TrainSettings(steps=7).supclr_siblings


def test_a_file_that_leaves_things_out_has_their_defaults(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text("steps = 7\n[loss]\nalpha = 0.1\n")
    settings = read_settings(tmp_path / "s.toml")
    assert settings == TrainSettings(steps=7, loss=replace(TrainSettings(steps=7).loss, alpha=0.1))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("step = 7\n", "unknown setting 'step'; did you mean 'steps'?"),
        ("steps = 7\n[loss]\nalhpa = 1.0\n", "'loss.alhpa'; did you mean 'loss.alpha'?"),
        ("steps = \n", "is not TOML"),
        ("steps = 1" + "0" * 5000, "is not TOML"),
        ("steps = " + "[" * 5000, "is not TOML"),
        ("steps = 7\n[loss]\nalpha = 9.0\n", "alpha=9.0"),
        (
            "steps = 7\n[batch]\nx = 1\n",
            "'batch.x'; it knows images, poses_per_image, upright_share",
        ),
    ],
)
def test_a_wrong_file_is_an_error_with_a_hint(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "s.toml").write_text(content)
    with pytest.raises(SettingsError, match=re.escape(message)):
        read_settings(tmp_path / "s.toml")


@pytest.mark.usefixtures("as_shipped")
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('steps = "many"', "steps='many': choose a whole number"),
        ("steps = 7.0", "steps=7.0: choose a whole number"),
        ("steps = 2020-01-01", "steps=datetime.date(2020, 1, 1): choose a whole number"),
        ("steps = [7]", "steps=[7]: choose a whole number"),
        ("steps.a = 7", "steps={'a': 7}: choose a whole number"),
        ("seed = true", "seed=True: choose a whole number"),
        ("minutes = true", "minutes=True: choose a number"),
        (f"minutes = 1{'0' * 400}", "000: choose a number"),
        ("rotations = 3", "rotations=3: choose 'task' or 'augmentation' or 'none'"),
        ('rotations = "tusk"', "rotations='tusk': choose 'task' or"),
        ("loss = [1, 2]", "loss=[1, 2]: choose a table"),
        ("[[loss]]", "loss=[{}]: choose a table"),
        ("batch = 3", "batch=3: choose a table"),
        ("[batch]\nimages = 2.5", "batch.images=2.5: choose a whole number"),
        ("[batch]\nparts = 1.5", "batch.parts=1.5: "),
        ("[batch]\nposes_per_image = true", "batch.poses_per_image=True: choose 1 or 4"),
        ("[batch]\nposes_per_image = 4.0", "batch.poses_per_image=4.0: choose 1 or 4"),
        ('[loss]\ntemperature = "hot"', "loss.temperature='hot': choose a number"),
        ("[augment]\ncrop_scale = 3", "augment.crop_scale=3: choose a list of 2 numbers"),
        ("[augment]\ncrop_scale = [1]", "augment.crop_scale=[1]: choose a list of 2 numbers"),
        ("[augment]\ncrop_scale = [0.1, '1']", "crop_scale=[0.1, '1']: choose a list of 2"),
        ("[model]\nencoder_name = 34", "model.encoder_name=34: choose a string"),
        ('[model]\nimage_size = "32"', "model.image_size='32': choose a whole number"),
    ],
)
def test_a_value_of_a_wrong_type_is_named_with_what_is_wanted(
    tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "s.toml"
    path.write_text(content)
    for read in (read_settings, read_toml):
        with pytest.raises(SettingsError) as caught:
            read(path)
        assert str(caught.value).startswith(f"{path}: ")
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_long_value_is_told_in_short(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(f"steps = {list(range(1000))}")
    with pytest.raises(SettingsError, match=r"steps=\[0, 1, 2, .*\.\.\.\]: choose a whole number"):
        read_settings(tmp_path / "s.toml")


@pytest.mark.usefixtures("as_shipped")
def test_a_whole_number_is_a_number(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text("minutes = 2\n[augment]\ncrop_scale = [1, 1]\n")
    settings = read_settings(tmp_path / "s.toml")
    assert settings == TrainSettings(minutes=2.0, augment=AugmentSettings(crop_scale=(1.0, 1.0)))


@pytest.mark.usefixtures("as_shipped")
def test_settings_that_could_not_be_read_again_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"settings: steps=1000\.0: choose a whole number"):
        RunDirectory.create(tmp_path / "run", TrainSettings(steps=1e3), {})  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("as_shipped")
def test_numbers_of_numpy_are_written_as_those_of_python(tmp_path: Path) -> None:
    half = np.float64(0.5)
    settings = TrainSettings(minutes=half, augment=AugmentSettings(crop_scale=(half, half)))
    values = to_dict(settings)
    assert type(values["minutes"]) is float
    assert [type(share) for share in values["augment"]["crop_scale"]] == [float, float]
    (tmp_path / "s.toml").write_bytes(as_toml(settings))
    assert read_settings(tmp_path / "s.toml") == settings


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read as a settings file: No such file"):
        read_settings(tmp_path / "none.toml")


@pytest.mark.usefixtures("as_shipped")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (TrainSettings, "no length given; set exactly one of epochs, steps"),
        (lambda: TrainSettings(epochs=1, steps=1), "epochs and steps given"),
        (lambda: TrainSettings(minutes=-1), "minutes=-1"),
        (lambda: TrainSettings(steps=1, objective="mlc"), "objective='mlc': choose one of mcl"),
        (lambda: TrainSettings(steps=1, device="tpu"), "device='tpu'"),
        (lambda: TrainSettings(steps=1, checkpoint_seconds=-1), "checkpoint_seconds=-1"),
        (lambda: TrainSettings(steps=1, simclr_weight=-0.1), "simclr_weight=-0.1: choose 0 or"),
        (lambda: TrainSettings(steps=1, simclr_weight=math.nan), "simclr_weight=nan"),
        (lambda: TrainSettings(steps=1, outlier_weight=math.inf), "outlier_weight=inf"),
        (lambda: BatchSettings(images=1), "batch.images=1"),
        (lambda: BatchSettings(poses_per_image=2), "batch.poses_per_image=2"),
        (lambda: OptimiserSettings(learning_rate=math.nan), "optimiser.learning_rate=nan"),
        (lambda: OptimiserSettings(method="adam"), "choose one of sgd, adamw"),
        (lambda: ModelSettings(trained_part="body"), "choose one of all, last, head"),
        (lambda: OptimiserSettings(momentum=1.0), "optimiser.momentum=1.0"),
        (lambda: OptimiserSettings(momentum=0.0, nesterov=True), "set optimiser.momentum"),
        (lambda: OptimiserSettings(weight_decay=-1.0), "optimiser.weight_decay=-1.0"),
        (lambda: OptimiserSettings(final_share=2.0), "optimiser.final_share=2.0"),
        (lambda: ModelSettings(image_size=4), "model.image_size=4"),
        (lambda: ModelSettings(head_dim=0), "model.head_dim=0"),
    ],
)
def test_settings_that_make_no_run_are_refused(make: object, message: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(message)):
        make()  # type: ignore[operator]


def test_the_learning_rate_is_a_cosine_from_the_peak_to_the_rest() -> None:
    optimiser = OptimiserSettings(learning_rate=2.0, final_share=0.1)
    assert learning_rate(optimiser, 0.0) == 2
    assert learning_rate(optimiser, 0.5) == pytest.approx(1.1)
    assert learning_rate(optimiser, 1.0) == pytest.approx(0.2)
    assert learning_rate(optimiser, 1.7) == pytest.approx(0.2)
    rates = [learning_rate(optimiser, share / 20) for share in range(21)]
    assert rates == sorted(rates, reverse=True)


def test_the_learning_rate_may_warm_up_in_a_straight_line() -> None:
    optimiser = OptimiserSettings(learning_rate=2.0, warm_up=0.2)
    rates = [learning_rate(optimiser, share) for share in (0.0, 0.1, 0.2, 0.6, 1.0)]
    assert rates == pytest.approx([0.0, 1.0, 2.0, 1.0, 0.0])


def test_a_variant_is_a_replaced_value() -> None:
    assert replace(cpu(), minutes=None, steps=3).steps == 3
    assert smoke().steps == 20


def test_no_training_at_all_is_refused_with_the_command_that_does_without() -> None:
    for zero in (
        lambda: TrainSettings(steps=0),
        lambda: TrainSettings(epochs=0.0),
        lambda: TrainSettings(minutes=0.0),
        lambda: OptimiserSettings(learning_rate=0.0),
    ):
        with pytest.raises(SettingsError, match="=0.*: choose a positive number; .* oddone fit$"):
            zero()
    with pytest.raises(SettingsError, match="steps=-1: choose a positive number$"):
        TrainSettings(steps=-1)


def test_numbers_that_nothing_can_count_or_divide_by_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"epochs=1e\+308: .*, at most 1e\+12$"):
        TrainSettings(epochs=1e308)
    with pytest.raises(SettingsError, match="temperature=1e-39: choose .*, 1e-30 or more$"):
        MCLSettings(temperature=1e-39)


def test_a_batch_of_fewer_images_has_no_more_parts_than_these() -> None:
    batch = BatchSettings(images=256, parts=16)
    assert batch.of_images(14) == BatchSettings(images=14, parts=14)
    assert batch.of_images(20) == BatchSettings(images=20, parts=16)


FLOATS = [
    (kind, field.name)
    for kind in (
        TrainSettings,
        OptimiserSettings,
        MCLSettings,
        AugmentSettings,
        DetectorSettings,
    )
    for field in dataclasses.fields(kind)
    if "float" in str(get_type_hints(kind)[field.name])
]


@pytest.mark.parametrize(("kind", "name"), FLOATS)
@pytest.mark.usefixtures("as_shipped")
def test_no_number_of_any_settings_may_be_none(kind: type, name: str) -> None:
    """Of each setting that is a float, or a tuple of them."""
    length = {"steps": 1} if kind is TrainSettings else {}
    several = "tuple" in str(get_type_hints(kind)[name])
    value = (math.nan, math.nan) if several else math.nan
    with pytest.raises(SettingsError, match=rf"{name}=\(?nan") as caught:
        kind(**{**length, name: value})
    assert "choose" in str(caught.value) or "set exactly one" in str(caught.value)
    assert len(FLOATS) > 20


def test_weights_cannot_decay_without_end() -> None:
    with pytest.raises(SettingsError, match="weight_decay=inf"):
        OptimiserSettings(weight_decay=math.inf)
    with pytest.raises(SettingsError, match="shrinkage=inf"):
        DetectorSettings(shrinkage=math.inf)
