"""Checkpoints: whole, of the run's own network, and made of numbers; or the one before is used."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from comparing import assert_same_weights, begun, train_until
from safetensors.torch import load
from torch import Tensor

from oddone.encoders import load_network
from oddone.errors import ArtifactError, DataError, DataWarning, DivergedError, SettingsWarning
from oddone.tensor_file import write_tensors
from oddone.training import OptimiserSettings, RunDirectory, train_network
from oddone.training.checkpoint import newest_checkpoint, read_progress
from runs import tiny_settings, tiny_source

pytestmark = pytest.mark.filterwarnings("ignore::oddone.errors.SettingsWarning")

ABOUT = {"kind": "checkpoint", "format": 1}


def stopped_after(steps: int, path: Path) -> RunDirectory:
    run = begun(path, tiny_settings())
    train_until(steps, tiny_source(), run)
    return run


def flip_a_bit(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def rewrite(
    run: RunDirectory, change: Callable[[dict[str, Tensor]], None], **about: object
) -> Path:
    """Change the tensors of the newest checkpoint, with a digest that is right."""
    path = newest_checkpoint(run.checkpoints)
    assert path is not None
    tensors = load(path.read_bytes())
    change(tensors)
    progress = vars(read_progress(run.checkpoints))
    write_tensors(path, tensors, {**ABOUT, "progress": progress, **about})
    return path


def test_of_a_damaged_checkpoint_the_one_before_is_used_and_that_is_said(tmp_path: Path) -> None:
    whole = begun(tmp_path / "whole", tiny_settings())
    train_network(tiny_source(), whole.settings, whole)
    run = stopped_after(4, tmp_path / "run")
    newest = newest_checkpoint(run.checkpoints)
    assert newest is not None
    flip_a_bit(newest, -1000)
    assert read_progress(run.checkpoints).step == 3
    with pytest.warns(DataWarning, match=r"000000004.safetensors was altered .*going on from .*3"):
        assert train_network(tiny_source(), run.settings, run).finished
    assert_same_weights(whole, run)
    assert [line["step"] for line in run.history()] == [1, 2, 3, 4, 5, 6]
    assert sorted(path.name for path in run.checkpoints.iterdir()) == [
        "000000004.safetensors.damaged",
        "000000005.safetensors",
        "000000006.safetensors",
    ]


def test_without_a_good_checkpoint_the_run_does_not_go_on(tmp_path: Path) -> None:
    run = stopped_after(3, tmp_path / "run")
    files = sorted(run.checkpoints.iterdir())
    for path in files:
        flip_a_bit(path, -1000)
    for attempt in (
        lambda: train_network(tiny_source(), run.settings, run),
        lambda: read_progress(run.checkpoints),
    ):
        with pytest.raises(
            DataError, match="none of 2 checkpoints .* is good .*000003.*; train anew"
        ):
            attempt()
    assert sorted(run.checkpoints.iterdir()) == files


def test_no_bit_of_a_checkpoint_or_an_encoder_changes_unnoticed(tmp_path: Path) -> None:
    run = begun(tmp_path / "run", tiny_settings(steps=1))
    train_network(tiny_source(), run.settings, run)
    generator = random.Random(0)  # noqa: S311
    checkpoint = newest_checkpoint(run.checkpoints)
    assert checkpoint is not None
    for path, read in (
        (checkpoint, lambda: read_progress(run.checkpoints)),
        (run.encoder_path, lambda: load_network(run.encoder_path)),
    ):
        content = path.read_bytes()
        for place in [*range(0, 400, 7), *generator.sample(range(len(content)), 60)]:
            flip_a_bit(path, place)
            with pytest.raises((DataError, ArtifactError)):
                read()
            path.write_bytes(content)
        read()


@pytest.mark.parametrize(
    ("change", "about", "message"),
    [
        (
            lambda tensors: tensors.update({"momentum_buffer.head.2.bias": torch.zeros(1)}),
            {},
            r"momentum_buffer.head.2.bias has the shape \[1\], not \[8\]",
        ),
        (
            lambda tensors: tensors.update({"momentum_buffer.nothing": torch.zeros(1)}),
            {},
            "momentum_buffer.nothing is of no weight",
        ),
        (
            lambda tensors: tensors.update({"surprise": torch.zeros(1)}),
            {},
            "surprise is of no weight",
        ),
        (
            lambda tensors: tensors["momentum_buffer.head.2.bias"].fill_(torch.nan),
            {},
            "momentum_buffer.head.2.bias has numbers that are not finite",
        ),
        (
            lambda tensors: tensors["network.head.2.bias"].fill_(torch.inf),
            {},
            "network.head.2.bias has numbers that are not finite",
        ),
        (
            lambda tensors: tensors["network.encoder.stem.1.running_mean"].fill_(torch.nan),
            {},
            "network.encoder.stem.1.running_mean has numbers that are not finite",
        ),
        (
            lambda tensors: tensors["network.encoder.stem.1.running_var"].fill_(torch.inf),
            {},
            "network.encoder.stem.1.running_var has numbers that are not finite",
        ),
        (
            lambda tensors: tensors["network.encoder.stem.1.running_var"].fill_(-1),
            {},
            "network.encoder.stem.1.running_var has variances below 0",
        ),
        (lambda tensors: tensors.pop("network.head.2.bias"), {}, "'head.2.bias'"),
        (lambda _: None, {"progress": {"step": -1}}, "step"),
        (lambda _: None, {"progress": {"step": 1, "seconds": -1.0}}, "seconds"),
        (lambda _: None, {"progress": {"step": 1, "seconds": float("nan")}}, "seconds"),
        (lambda _: None, {"progress": {"loss_scale": 0.0}}, "loss_scale"),
        (lambda _: None, {"progress": []}, "progress"),
        (lambda _: None, {"kind": "encoder"}, "no checkpoint"),
        (lambda _: None, {"format": 2}, "no checkpoint"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_not_used(
    tmp_path: Path,
    change: Callable[[dict[str, Tensor]], None],
    about: dict[str, object],
    message: str,
) -> None:
    run = begun(tmp_path / "run", tiny_settings(steps=2))
    train_network(tiny_source(), run.settings, run)
    before = run.checkpoints / "000000001.safetensors"
    before.unlink()
    rewrite(run, change, **about)
    with pytest.raises(DataError, match=message) as caught:
        train_network(tiny_source(), run.settings, run)
    assert "\n" not in str(caught.value)


def test_weights_that_are_no_numbers_are_never_kept(tmp_path: Path) -> None:
    wild = tiny_settings(steps=2, optimiser=OptimiserSettings(learning_rate=1e300))
    run = begun(tmp_path / "run", wild)
    with pytest.raises(
        DivergedError, match=r"the weights .* at step 1.*no checkpoint yet.*learning"
    ):
        train_network(tiny_source(), wild, run)
    assert newest_checkpoint(run.checkpoints) is None
    assert not run.encoder_path.exists()


def test_what_is_called_good_can_be_gone_on_with(tmp_path: Path) -> None:
    wild = tiny_settings(steps=60, optimiser=OptimiserSettings(learning_rate=1e30))
    run = begun(tmp_path / "run", wild)
    with pytest.raises(DivergedError, match="is good") as caught:
        train_network(tiny_source(), wild, run)
    newest = newest_checkpoint(run.checkpoints)
    assert newest is not None
    assert f"{newest} is good" in str(caught.value)
    assert all(tensor.isfinite().all() for tensor in load(newest.read_bytes()).values())


def test_weights_that_have_grown_without_bounds_are_said(tmp_path: Path) -> None:
    wild = tiny_settings(steps=8, optimiser=OptimiserSettings(learning_rate=1e6))
    with pytest.warns(SettingsWarning, match=r"weights as large as .*learning_rate=1e\+06 is too"):
        train_network(tiny_source(), wild, begun(tmp_path / "run", wild))
