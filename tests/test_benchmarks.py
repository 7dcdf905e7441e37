"""The benchmarks, so that they still run when somebody wants to measure."""

from dataclasses import replace
from pathlib import Path

import pytest

import adaptive
import preset
import scale
import scoring
import training
from oddone.detector import Detector, DetectorSettings
from oddone.detector.adaptive import ViewStage
from oddone.encoders import ModelSettings, TrainedNetwork, build_network
from oddone.training import RunDirectory
from oddone.training.batches import Batches
from oddone.training.initialise import initial_network
from oddone.training.loop import _Trainer
from oddone.transforms import rotations_and_mirrors
from runs import tiny_settings, tiny_source
from small_detector import fitted


def test_a_training_step_is_compared_with_the_bare_network(tmp_path: Path) -> None:
    settings, source = tiny_settings(), tiny_source()
    run = RunDirectory.create(tmp_path / "run", settings, {})
    trainer = _Trainer.resume(
        initial_network(source, settings), Batches(source, settings), settings, run
    )
    compared, profile = training.measure(trainer, training.Effort(in_a_row=2, rounds=2))
    assert [row["ours"] for row in compared] == ["training step", "training step, one core busy"]
    assert all(row["our_milliseconds"] > 0 for row in compared)
    assert 0 < sum(profile.values()) <= 1.01
    assert trainer.step == 14  # a warm-up and two rounds, alone and beside a program; a profile


def test_a_detector_is_compared_with_its_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "ROUNDS", 2)
    source, model = tiny_source(size=32), ModelSettings(head_hidden=16, head_dim=8)
    network = build_network("resnet10-w16", model, 32).eval()
    trained = TrainedNetwork(network, model, "task", source.classes, 32, "none")
    detector = Detector.fit(trained, source, DetectorSettings(views=rotations_and_mirrors))
    compared = scoring.measure(detector, images=9)
    assert compared["our_milliseconds"] > 0
    assert compared["peer_milliseconds"] > 0


def test_views_as_needed_are_compared_with_all_views(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adaptive, "ROUNDS", 2)
    detector = replace(fitted(), stages=(ViewStage((0, 1), 1.0, 0.0, 0.0, 0.0),))
    images = tiny_source(images=9).images
    normal, odd = adaptive.measure_sets(detector, {"test images": images, "odd": images[:4]})
    assert (normal["images"], normal["views"], odd["views"]) == (9, 2, 2)
    assert normal["same_verdict"] <= min(normal["same_label"], normal["same_anomalous"]) <= 1
    assert 0 <= odd["auroc_as_needed"] <= 1
    assert "auroc_by_all" not in normal
    assert adaptive.measure_speed(detector, images)["our_milliseconds"] > 0
    assert adaptive.as_recorded("a=fashion:unseen#test") == "a=fashion:unseen#test"
    assert adaptive.as_recorded("a=svhn:some/where#test") == "a=svhn:DIR#test"


def test_folders_of_the_machine_are_left_out_of_a_record() -> None:
    assert preset.without_folder("cifar10:some/where") == "cifar10:DIR"
    assert preset.without_folder("svhn=svhn:some/where#test") == "svhn=svhn:DIR#test"
    assert preset.without_folder("scenes=some/where/scenes.npz") == "scenes=DIR/scenes.npz"


def test_a_curve_is_the_mean_loss_of_each_fiftieth_of_a_run() -> None:
    history = [{"loss": float(step)} for step in range(1, 101)]
    curve = preset.curve(history)
    assert len(curve) == 50
    assert curve[0] == {"step": 2, "loss": 1.5}
    assert curve[-1] == {"step": 100, "loss": 99.5}
    assert preset.curve(history[:3]) == [
        {"step": 1, "loss": 1},
        {"step": 2, "loss": 2},
        {"step": 3, "loss": 3},
    ]


def test_the_model_of_many_processes_is_that_of_few() -> None:
    small = [
        {"rows": rows, "seconds": 3e-9 * rows**2, "mebibytes": 10 + rows / 1024}
        for rows in (2048, 4096, 8192)
    ]
    model = scale.cost_model(small)
    assert model == {
        "nanoseconds_per_pair": 3.0,
        "bytes_per_row": 1024.0,
        "mebibytes_at_least": 10.0,
    }
    assert scale.model_of(model, 65536) == {"seconds": 12.88, "mebibytes": 74.0}


def test_one_of_several_processes_measures_its_loss() -> None:
    measured = scale.step_of_rank(2)
    assert measured["rows"] == 2 * scale.ROWS_EACH
    assert measured["seconds"] > 0
