import math
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from comparing import assert_same_weights, begun, losses, train_until
from torch import nn

from oddone.encoders import load_network
from oddone.errors import DataError, DivergedError, SettingsError
from oddone.training import OptimiserSettings, RunDirectory, StepReport, train_network
from oddone.training.checkpoint import newest_checkpoint
from runs import tiny_settings, tiny_source

pytestmark = pytest.mark.filterwarnings("ignore::oddone.errors.SettingsWarning")


@pytest.mark.parametrize("objective", ["mcl", "supclr", "simclr", "cross-entropy", "joint"])
@pytest.mark.parametrize("rotations", ["task", "augmentation", "none"])
def test_every_objective_trains_with_every_use_of_rotations(
    tmp_path: Path, objective: str, rotations: str
) -> None:
    settings = tiny_settings(objective=objective, rotations=rotations, steps=2)
    run = begun(tmp_path / "run", settings)
    outcome = train_network(tiny_source(), settings, run)
    assert outcome.finished
    assert [line["step"] for line in run.history()] == [1, 2]
    trained = load_network(run.encoder_path)
    assert (trained.model, trained.rotations) == (settings.model, settings.rotations)
    has_classifier = objective in {"cross-entropy", "joint"}
    assert (trained.network.classifier is not None) == has_classifier
    assert trained.classes == ("class 0", "class 1", "class 2")
    assert trained.image_size == 16
    assert not trained.network.training
    encoded = trained.network(torch.zeros(2, 3, 16, 16))
    assert encoded.embeddings.shape == (2, 8)


def test_training_learns(tmp_path: Path) -> None:
    settings = tiny_settings(steps=60, objective="cross-entropy", rotations="none")
    run = begun(tmp_path / "run", settings)
    train_network(tiny_source(), settings, run)
    curve = [loss for _, loss in losses(run)]
    assert np.mean(curve[-10:]) < 0.5 * np.mean(curve[:5])


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(tmp_path: Path) -> None:
    runs = []
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        settings = tiny_settings(seed=seed, steps=3)
        runs.append(begun(tmp_path / name, settings))
        train_network(tiny_source(), settings, runs[-1])
    assert_same_weights(runs[0], runs[1])
    assert losses(runs[0]) == losses(runs[1]) != losses(runs[2])


@pytest.mark.parametrize(("objective", "stop_after"), [("mcl", 1), ("mcl", 5), ("joint", 3)])
def test_stopped_and_resumed_equals_never_stopped(
    tmp_path: Path, objective: str, stop_after: int
) -> None:
    settings = tiny_settings(objective=objective)
    whole, parts = begun(tmp_path / "whole", settings), begun(tmp_path / "parts", settings)
    train_network(tiny_source(), settings, whole)
    train_until(stop_after, tiny_source(), parts)
    assert train_network(tiny_source(), settings, parts).finished
    assert_same_weights(whole, parts)
    assert losses(whole) == losses(parts)


def test_parts_come_to_the_same_weights_on_any_number_of_threads(tmp_path: Path) -> None:
    before, runs = torch.get_num_threads(), []
    settings = tiny_settings(steps=4, batch=replace(tiny_settings().batch, parts=3))
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            runs.append(begun(tmp_path / f"{threads}", settings))
            train_network(tiny_source(), runs[-1].settings, runs[-1])
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    for run in runs[1:]:
        assert_same_weights(runs[0], run)
        assert losses(runs[0]) == losses(run)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
@pytest.mark.parametrize("parts", [1, 2])
def test_killed_at_random_moments_and_resumed_equals_never_killed(
    tmp_path: Path, parts: int
) -> None:
    batch = replace(tiny_settings().batch, parts=parts)
    settings = tiny_settings(steps=40, batch=batch)
    whole, killed = begun(tmp_path / "whole", settings), begun(tmp_path / "killed", settings)
    train_network(tiny_source(), settings, whole)
    script = textwrap.dedent(
        """
        import sys, warnings
        sys.path.insert(0, sys.argv[2])
        warnings.simplefilter("ignore")
        import torch
        from pathlib import Path
        from runs import tiny_source
        from oddone.training import RunDirectory, train_network
        torch.set_num_threads(int(sys.argv[3]))
        run = RunDirectory.open(Path(sys.argv[1]))
        print("ready", flush=True)
        train_network(tiny_source(), run.settings, run)
        """
    )
    folder, threads = str(Path(__file__).parents[1]), str(torch.get_num_threads())
    command = [sys.executable, "-c", script, str(killed.path), folder, threads]
    generator = np.random.default_rng(0)
    kills = 0
    while not killed.encoder_path.exists():
        process = subprocess.Popen(command, stdout=subprocess.PIPE)  # noqa: S603
        assert process.stdout is not None
        process.stdout.readline()
        before = newest_checkpoint(killed.checkpoints)
        while newest_checkpoint(killed.checkpoints) == before and process.poll() is None:
            time.sleep(0.005)  # at least one more checkpoint, so that the run gets on
        time.sleep(generator.uniform(0, 0.15))
        if kills < 4 and process.poll() is None:
            process.kill()
            kills += 1
        assert process.wait() in {0, -signal.SIGKILL}
        process.stdout.close()
    assert kills > 0
    assert_same_weights(whole, killed)
    assert losses(whole) == losses(killed)


def test_only_the_last_two_checkpoints_are_kept(tmp_path: Path) -> None:
    settings = tiny_settings()
    run = begun(tmp_path / "run", settings)
    train_network(tiny_source(), settings, run)
    assert [path.name for path in sorted(run.checkpoints.iterdir())] == [
        "000000005.safetensors",
        "000000006.safetensors",
    ]


def test_a_loss_that_is_no_number_stops_at_its_step(tmp_path: Path) -> None:
    wild = tiny_settings(steps=60, optimiser=OptimiserSettings(learning_rate=1e30))
    run = begun(tmp_path / "run", wild)
    with pytest.raises(
        DivergedError, match=r"the (loss is \w+|weights are not finite) at step \d+.*learning_rate"
    ):
        train_network(tiny_source(), wild, run)
    newest = newest_checkpoint(run.checkpoints)
    assert newest is not None
    assert all(math.isfinite(line["loss"]) for line in run.history())


def test_epochs_and_minutes_set_the_length(tmp_path: Path) -> None:
    by_epochs = tiny_settings(steps=None, epochs=1.5)
    run = begun(tmp_path / "epochs", by_epochs)
    assert train_network(tiny_source(), by_epochs, run).step == 6  # 4 steps an epoch
    by_minutes = tiny_settings(steps=None, minutes=0.02)
    run = begun(tmp_path / "minutes", by_minutes)
    outcome = train_network(tiny_source(), by_minutes, run)
    assert outcome.finished
    assert 1.2 <= outcome.seconds < 10
    rates = [line["learning_rate"] for line in run.history()]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] > rates[-1]


def test_images_that_cannot_be_trained_on_are_refused(tmp_path: Path) -> None:
    settings = tiny_settings()
    run = begun(tmp_path / "run", settings)
    source = tiny_source()
    unlabelled = replace(source, labels=np.where(source.labels == 1, -1, source.labels))
    with pytest.raises(DataError, match="16 of 48 images have no label.*--objective simclr"):
        train_network(unlabelled, settings, run)
    with pytest.raises(DataError, match="1 images are too few"):
        train_network(tiny_source(1), settings, run)
    with pytest.raises(DataError, match="16 x 8 pixels are not square"):
        train_network(replace(source, images=source.images[..., :8]), settings, run)
    with pytest.raises(DataError, match="1 x 1 pixels are too small to train on; set model.image"):
        train_network(replace(source, images=source.images[..., :1, :1]), settings, run)


def test_unlabelled_images_train_simclr(tmp_path: Path) -> None:
    settings = tiny_settings(objective="simclr", steps=1)
    source = replace(tiny_source(), labels=np.full(48, -1), classes=())
    assert train_network(source, settings, begun(tmp_path / "run", settings)).finished


@pytest.mark.parametrize(
    ("objective", "supclr_siblings", "unpaired"),
    [("mcl", True, 1), ("supclr", False, 1), ("supclr", True, 0), ("simclr", True, 0)],
)
def test_rows_without_a_positive_are_reported(
    objective: str, supclr_siblings: bool, unpaired: int, tmp_path: Path
) -> None:
    settings = tiny_settings(steps=1, objective=objective, supclr_siblings=supclr_siblings)
    seen: list[StepReport] = []
    one_image_a_class = tiny_source(images=12, classes=12)
    train_network(one_image_a_class, settings, begun(tmp_path / "run", settings), watch=seen.append)
    assert seen[0].unpaired == unpaired


def test_a_run_directory_that_exists_is_refused_or_replaced(tmp_path: Path) -> None:
    settings = tiny_settings(steps=1)
    run = begun(tmp_path / "run", settings)
    train_network(tiny_source(), settings, run)
    with pytest.raises(SettingsError, match=r"exists; go on with it \(--resume"):
        begun(tmp_path / "run", settings)
    RunDirectory.create(tmp_path / "run", settings, {}, overwrite=True)
    assert not run.encoder_path.exists()
    precious = tmp_path / "photos"
    precious.mkdir()
    (precious / "holiday.jpg").write_bytes(b"x")
    with pytest.raises(SettingsError, match="--overwrite leaves it alone"):
        RunDirectory.create(precious, settings, {}, overwrite=True)
    assert [path.name for path in precious.iterdir()] == ["holiday.jpg"]
    with pytest.raises(SettingsError, match="is not the directory of a run"):
        RunDirectory.open(precious)


def test_a_place_that_cannot_be_written_is_one_line_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "run", tmp_path / "new" / ("x" * 300)):
        with pytest.raises(SettingsError, match="cannot be written: .*; choose another --out"):
            RunDirectory.check_free(path)
        with pytest.raises(SettingsError, match="cannot be written: .*; choose another --out"):
            begun(path, tiny_settings())
    RunDirectory.check_free(tmp_path / "a" / "b")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_run_that_fails_before_its_first_step_is_removed_and_any_other_is_kept(
    tmp_path: Path,
) -> None:
    settings = tiny_settings(steps=2)
    run = begun(tmp_path / "run", settings)
    with pytest.raises(DataError), run.removed_unless_begun():
        train_network(tiny_source(1), settings, run)
    assert not run.path.exists()
    run = begun(tmp_path / "run", settings)
    train_until(1, tiny_source(), run)
    with pytest.raises(DataError), run.removed_unless_begun():
        train_network(tiny_source(1), settings, run)
    assert len(list(run.history())) == 1


def test_a_history_line_cut_short_is_left_out(tmp_path: Path) -> None:
    run = begun(tmp_path / "run", tiny_settings())
    run.append_history({"step": 1, "loss": 2.0})
    with (tmp_path / "run" / "history.jsonl").open("a") as file:
        file.write('{"step": 2, "lo')
    assert [line["step"] for line in run.history()] == [1]


def test_an_encoder_of_the_users_own_is_trained(tmp_path: Path) -> None:
    def own_encoder() -> torch.nn.Module:
        torch.manual_seed(0)
        return torch.nn.Sequential(
            torch.nn.Conv2d(3, 5, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()
        )

    settings = tiny_settings(steps=2)
    run = begun(tmp_path / "run", settings)
    train_network(tiny_source(), settings, run, encoder=own_encoder())
    trained = load_network(run.encoder_path, encoder=own_encoder())
    assert trained.network.feature_dim == 5
    assert not torch.equal(trained.network.encoder[0].weight, own_encoder()[0].weight)


@pytest.mark.parametrize(
    "batch",
    [{"parts": 1}, {"parts": 2}, {"parts": 1, "chunk": 9}],
    ids=["whole", "parts", "chunks"],
)
def test_dropout_follows_from_the_seed_and_the_step_alone(
    tmp_path: Path, batch: dict[str, int]
) -> None:
    torch.manual_seed(0)
    encoder = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.Dropout(0.5), nn.AdaptiveAvgPool2d(2), nn.Flatten()
    )
    settings = tiny_settings(steps=4)
    settings = replace(settings, batch=replace(settings.batch, **batch))  # type: ignore[arg-type]
    whole, stopped, other = (
        begun(tmp_path / name, each)
        for name, each in (
            ("whole", settings),
            ("stopped", settings),
            ("other", replace(settings, seed=4)),
        )
    )
    for number, run in enumerate((whole, other)):
        torch.manual_seed(number)  # of the caller, whose random numbers are no concern of a run
        train_network(tiny_source(), run.settings, run, encoder=encoder)
    train_until(2, tiny_source(), stopped, encoder=encoder)
    train_network(tiny_source(), stopped.settings, stopped, encoder=encoder)
    assert_same_weights(whole, stopped)
    assert losses(whole) != losses(other)


def test_an_encoder_with_tied_weights_is_trained_stopped_and_resumed(tmp_path: Path) -> None:
    def own_encoder() -> torch.nn.Sequential:
        torch.manual_seed(0)
        one, other = torch.nn.Linear(48, 48), torch.nn.Linear(48, 48)
        other.weight = one.weight
        return torch.nn.Sequential(
            torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten(), one, torch.nn.ReLU(), other
        )

    settings = tiny_settings(steps=4)
    whole, parts = begun(tmp_path / "whole", settings), begun(tmp_path / "parts", settings)
    train_network(tiny_source(), settings, whole, encoder=own_encoder())
    train_until(2, tiny_source(), parts, encoder=own_encoder())
    assert train_network(tiny_source(), settings, parts, encoder=own_encoder()).finished
    assert_same_weights(whole, parts)
    assert losses(whole) == losses(parts)
    loaded = load_network(whole.encoder_path, encoder=own_encoder()).network.encoder
    assert loaded[2].weight is loaded[4].weight
    assert not torch.equal(loaded[2].weight, own_encoder()[2].weight)


def test_muon_and_a_poolnet_stopped_and_resumed_equal_never_stopped(tmp_path: Path) -> None:
    settings = tiny_settings(
        objective="cross-entropy",
        optimiser=OptimiserSettings(method="muon", learning_rate=0.1, momentum=0.6),
        model=replace(tiny_settings().model, encoder_name="poolnet"),
    )
    whole, parts = begun(tmp_path / "whole", settings), begun(tmp_path / "parts", settings)
    train_network(tiny_source(), settings, whole)
    train_until(3, tiny_source(), parts)
    assert train_network(tiny_source(), settings, parts).finished
    assert_same_weights(whole, parts)
    assert losses(whole) == losses(parts)


def test_the_history_adds_up_processor_time_over_interruptions(tmp_path: Path) -> None:
    run = begun(tmp_path / "run", tiny_settings(steps=4))
    assert run.processor_seconds == 0
    train_until(2, tiny_source(), run)
    before = run.processor_seconds
    assert before > 0
    train_network(tiny_source(), run.settings, run)
    times = [line["processor_seconds"] for line in run.history()]
    assert times == sorted(times)
    assert times[1] == before
    assert run.processor_seconds == times[-1] > before
