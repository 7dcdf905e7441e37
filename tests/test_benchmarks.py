"""The benchmarks, so that they still run when somebody wants to measure."""

from dataclasses import replace
from pathlib import Path

import pytest

import adaptive
import engines
import engines_table
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


def test_scoring_in_one_process_is_measured(tmp_path: Path) -> None:
    fitted().save(tmp_path / "d.oddone")
    photos = engines.write_photos(tmp_path / "photos", 1002)
    few = photos / "0001"
    measured = engines.score_here(tmp_path / "d.oddone", few, tmp_path / "rows.parquet")
    assert measured["images"] == 2
    assert min(measured.values()) > 0


def test_what_images_cost_is_calculated_from_records() -> None:
    round_ = {"images_per_second": 50.0, "images_per_cpu_second": 100.0, "worker_mebibytes": 600.0}
    round_ |= {"bytes_written_per_image": 8.0}
    machine = {"threads": 2, "processor": "Abacus"}
    record = {
        "machine": machine,
        "size": 32,
        "encoder": "tiny",
        "images": 5000,
        "workers": 2,
        "rounds": [{"local": round_, "ray": round_}],
        "memory": {"few": round_, "many": round_},
        "memory_ratio": 1.0,
        "seconds_to_start_ray": 9.0,
        "load_average": [1.0],
        "ray_over_local": {"median": 1.0, "all": [1.0]},
        "ray_over_local_per_cpu_second": {"median": 1.0, "all": [1.0]},
    }
    scoring_record = {
        "machine": machine,
        "speed": [{"encoder": "tiny", "images": 72, "our_milliseconds": 1000.0}],
    }
    decoding = {"machine": machine, "photos": 10, "photo_size": [5, 4], "speed": []}

    def link(_: dict[str, object]) -> str:
        return "LINK"

    lines = engines_table.costs_table(record, scoring_record, decoding, link).splitlines()
    assert lines[2].endswith("| 100 | 2.8 core hours | 278 core hours | 27,778 core hours |")
    assert lines[3].endswith("| 36 | 7.7 core hours | 772 core hours | 77,160 core hours |")
    assert "1.00 by the clock (1.00)" in engines_table.engines_table(record, link)


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
