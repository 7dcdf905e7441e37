"""Runs that get another length after they have begun."""

from dataclasses import replace
from pathlib import Path

import pytest
from comparing import assert_same_weights, begun, losses

from oddone.api import fit_run
from oddone.errors import SettingsError
from oddone.training import RunDirectory, StepReport, TrainSettings, train_network
from oddone.training.checkpoint import read_progress
from oddone.training.optim import learning_rate
from oddone.training.settings_file import to_dict
from runs import tiny_settings, tiny_source

pytestmark = pytest.mark.filterwarnings("ignore::oddone.errors.SettingsWarning")

SHORT = tiny_settings(steps=3)
LONG = replace(SHORT, steps=7)


def finished(path: Path, settings: TrainSettings = SHORT) -> RunDirectory:
    run = begun(path, settings)
    assert train_network(tiny_source(), settings, run).finished
    return run


def train_for(steps: int, run: RunDirectory) -> None:
    seen: list[StepReport] = []
    train_network(
        tiny_source(), run.settings, run, watch=seen.append, stop=lambda: len(seen) == steps
    )


def test_an_extended_run_goes_on_with_the_schedule_of_its_new_length(tmp_path: Path) -> None:
    run = finished(tmp_path / "run")
    before = losses(run)
    run.extend(LONG)
    assert train_network(tiny_source(), run.settings, run).step == 7
    assert losses(run)[:3] == before
    history = list(run.history())
    assert [line["step"] for line in history] == list(range(1, 8))
    for done, line in enumerate(history):
        total = 3 if done < 3 else 7
        assert line["learning_rate"] == learning_rate(LONG.optimiser, done / total)


def test_stopped_and_resumed_after_an_extension_equals_never_stopped(tmp_path: Path) -> None:
    whole, parts = finished(tmp_path / "whole"), finished(tmp_path / "parts")
    for run in (whole, parts):
        run.extend(LONG)
    train_for(2, parts)
    for run in (whole, parts):
        assert train_network(tiny_source(), LONG, run).finished
    assert_same_weights(whole, parts)
    assert losses(whole) == losses(parts)


def test_the_encoder_stays_until_the_new_length_is_reached(tmp_path: Path) -> None:
    run = finished(tmp_path / "run")
    assert run.finished
    before = run.encoder_path.read_bytes()
    run.extend(LONG)
    train_for(1, run)
    assert run.encoder_path.read_bytes() == before
    assert not run.finished
    with pytest.raises(SettingsError, match="is not finished"):
        fit_run(run, tiny_source())
    train_network(tiny_source(), LONG, run)
    assert run.encoder_path.read_bytes() != before
    assert run.finished


def test_the_provenance_says_how_a_run_was_extended(tmp_path: Path) -> None:
    run = finished(tmp_path / "run")
    run.extend(replace(SHORT, steps=5))  # and stopped before its first step
    run.extend(LONG)
    train_network(tiny_source(), LONG, run)
    minutes = replace(SHORT, steps=None, minutes=100.0)
    run.extend(minutes)
    assert run.settings == minutes
    provenance = run.provenance
    assert provenance["command"] == "test"
    assert provenance["settings"] == to_dict(minutes)
    first, second = provenance["extended"]
    assert (first["step"], first["to"]) == (3, {"steps": 7})
    assert (second["step"], second["from"], second["to"]) == (7, {"steps": 7}, {"minutes": 100.0})
    assert first["date"] <= second["date"]
    assert first["seconds"] <= second["seconds"]


@pytest.mark.parametrize(
    ("length", "share"),
    [({"steps": 8}, 0.75), ({"minutes": 0.5}, 0.4), ({"epochs": 1.6}, 6 / 7)],  # 4 steps an epoch
)
def test_what_is_done_is_a_share_of_any_kind_of_length(
    length: dict[str, float], share: float
) -> None:
    settings = replace(SHORT, **{"steps": None, **length})  # type: ignore[arg-type]
    assert settings.share_done(6, 12.0, 4) == pytest.approx(share)


def test_the_progress_of_a_run_is_read_from_its_last_checkpoint(tmp_path: Path) -> None:
    run = begun(tmp_path / "run", SHORT)
    assert read_progress(run.checkpoints).step == 0
    train_for(2, run)
    assert read_progress(run.checkpoints).step == 2
    (run.checkpoints / "000000009.safetensors").write_bytes(b"cut short")
    assert read_progress(run.checkpoints).step == 2  # of the newest that is whole
