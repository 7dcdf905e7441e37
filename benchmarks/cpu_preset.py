"""Train the cpu preset on CIFAR-10 and measure the detector.

    python benchmarks/cpu_preset.py RUN cifar10:FOLDER cifar100=cifar100:FOLDER#test ...

RUN is kept: run again, training goes on where it stopped. The record holds the loss curve, the
views per second, and accuracy and AUROC without SEI and with each fusion of eight views.
"""

import os

os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # as the command line does

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

import oddone
from measure import write_measurements
from oddone.data import ImageSet, load
from oddone.detector import Detector, DetectorSettings
from oddone.encoders import load_network
from oddone.fusion import average, decide, harmonic, nearest, view_weighted
from oddone.presets import cpu
from oddone.training import RunDirectory, StepReport, split_held_out, train_network
from oddone.transforms import one_view, rotations, rotations_and_mirrors

MOST_OOD = 10_000  # images of an OOD set, the first ones


def main(folder: str, ind: str, *oods: str) -> None:
    """Train, measure, print and record."""
    source, test = load(ind), load(f"{ind}#test")
    run = finished_run(Path(folder), source)
    ood_images = {
        name: load(place).images[:MOST_OOD] for name, place in (ood.split("=", 1) for ood in oods)
    }
    indices = split_held_out(source, run.settings).training
    table = []
    for views, fusions in (
        (one_view, (average,)),
        (rotations, (harmonic,)),
        (rotations_and_mirrors, (average, nearest, view_weighted, harmonic)),
    ):
        settings = DetectorSettings(views=views)
        detector = Detector.fit(load_network(run.encoder_path), source, settings, indices=indices)
        measured_test = detector._measure(test.images)
        measured_oods = {name: detector._measure(images) for name, images in ood_images.items()}
        for fuse in fusions:
            fused = replace(detector, fuse=fuse)
            verdicts = fused._verdicts(measured_test)
            nearest_class = decide(fuse(measured_test.distances))
            name = views.name.replace("_", " ")
            row: dict[str, object] = {
                "inference": name if views is one_view else f"{name}, {fuse.__name__}",
                "accuracy": oddone.accuracy(verdicts.labels, test.labels),
                "accuracy of the nearest": oddone.accuracy(nearest_class.labels, test.labels),
            }
            for ood, measured in measured_oods.items():
                row[f"auroc {ood}"] = oddone.auroc(
                    verdicts.scores, fused._verdicts(measured).scores
                )
            table.append({k: v if isinstance(v, str) else round(v, 4) for k, v in row.items()})
            print("  ".join(f"{key} {value}" for key, value in table[-1].items()), flush=True)
    history = list(run.history())
    rows, seconds = sum(line["rows"] for line in history), history[-1]["seconds"]
    write_measurements(
        "cpu_preset",
        kind="quality",
        arguments=" ".join(["DIR", without_folder(ind), *map(without_folder, oods)]),
        seed=run.settings.seed,
        packages=["numpy"],
        preset="cpu",
        minutes=round(seconds / 60, 2),
        steps=history[-1]["step"],
        views_per_second=round(rows / seconds),
        loss_curve=curve(history),
        results=table,
    )


def finished_run(folder: Path, source: ImageSet) -> RunDirectory:
    """Return the run in a folder, trained to its end."""
    exists = (folder / "settings.toml").exists()
    run = RunDirectory.open(folder) if exists else RunDirectory.create(folder, cpu(), {})

    def watch(report: StepReport) -> None:
        if report.step % 100 == 0:
            print(f"step {report.step} {report.share:.0%} loss {report.loss:.3f}", flush=True)

    if not run.encoder_path.exists():
        train_network(source, run.settings, run, watch=watch)
    return run


def without_folder(source: str) -> str:
    """Return a source, or NAME=SOURCE, with DIR for its folder."""
    scheme, _, place = source.partition(":")
    _, mark, split = place.partition("#")
    return f"{scheme}:DIR{mark}{split}"


def curve(history: list[dict[str, float]]) -> list[dict[str, float]]:
    """Return the mean loss of each fiftieth of the run."""
    losses = np.array([line["loss"] for line in history])
    parts = np.array_split(np.arange(len(losses)), min(50, len(losses)))
    return [
        {"step": int(part[-1]) + 1, "loss": round(float(losses[part].mean()), 4)} for part in parts
    ]


if __name__ == "__main__":
    main(*sys.argv[1:])
