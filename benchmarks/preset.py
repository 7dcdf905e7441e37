"""Train a preset on labelled images, and measure the detector and each part of it.

    python benchmarks/preset.py PRESET RUN cifar10:FOLDER cifar100=cifar100:FOLDER#test ...

RUN is kept: run again, training goes on where it stopped. The record holds the loss curve, the
views per second, and accuracy and AUROC of the detector as `oddone train` makes it, of each of its
rules alone, and of one view in the place of all.
"""

import os

os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # as the command line does

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

import oddone
from measure import write_measurements
from oddone.api import fit_run
from oddone.data import ImageSet, load
from oddone.detector import Detector
from oddone.device import keep_freed_memory
from oddone.presets import PRESETS
from oddone.scoring import score_images
from oddone.training import RunDirectory, StepReport, TrainSettings, train_network
from oddone.transforms import one_view
from oddone.verdicts import Verdicts


def main(preset: str, folder: str, ind: str, *oods: str) -> None:
    """Train, measure, print and record."""
    keep_freed_memory()  # as the command line does
    source, test = load(ind), load(f"{ind}#test")
    run = finished_run(Path(folder), source, PRESETS[preset]())
    odd = {name: load(place) for name, place in (ood.split("=", 1) for ood in oods)}
    rows = []
    for name, detector in variants(fit_run(run, source)):
        normal = score_images(detector, test)
        aurocs = {
            f"auroc {ood}": oddone.auroc(normal.scores, score_images(detector, images).scores)
            for ood, images in odd.items()
        }
        row = {
            "accuracy": oddone.accuracy(normal.labels, test.labels),
            **aurocs,
            "mean auroc": float(np.mean(list(aurocs.values()))),
            **share_of_alarms(normal),
        }
        rows.append({"inference": name, **{key: round(row[key], 4) for key in row}})
        print("  ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    history = list(run.history())
    n_rows, seconds = sum(line["rows"] for line in history), history[-1]["seconds"]
    write_measurements(
        "preset",
        kind="quality",
        arguments=" ".join([preset, "DIR", without_folder(ind), *map(without_folder, oods)]),
        seed=run.settings.seed,
        packages=["numpy", "scikit-learn"],
        preset=preset,
        minutes=round(seconds / 60, 2),
        steps=history[-1]["step"],
        views_per_second=round(n_rows / seconds),
        loss_curve=curve(history),
        results=rows,
    )


def variants(detector: Detector) -> Iterator[tuple[str, Detector]]:
    """Yield the detector, then what is left of it when parts are taken away."""
    names = [rule.rule for rule in detector.rules]
    yield f"{' + '.join(names)}, {len(detector.embedder.views)} views", detector
    alone = {
        name: replace(detector, rules=(rule,), calibration=None)
        for name, rule in zip(names, detector.rules, strict=True)
    }
    if len(alone) > 1:
        yield from alone.items()
    if "distance" in alone and len(detector.embedder.views) > 1:
        upright = replace(detector.embedder, views=one_view)
        yield "distance, one view", replace(alone["distance"], embedder=upright)


def share_of_alarms(normal: Verdicts) -> dict[str, float]:
    """Return how many of the normal images are called anomalous, if that is decided."""
    if normal.anomalous is None:
        return {}
    return {"false alarms": normal.anomalous.double().mean().item()}


def finished_run(folder: Path, source: ImageSet, settings: TrainSettings) -> RunDirectory:
    """Return the run in a folder, trained to its end."""
    exists = (folder / "settings.toml").exists()
    run = RunDirectory.open(folder) if exists else RunDirectory.create(folder, settings, {})

    def watch(report: StepReport) -> None:
        if report.step % 100 == 0:
            print(f"step {report.step} {report.share:.0%} loss {report.loss:.3f}", flush=True)

    if not run.finished:
        train_network(source, run.settings, run, watch=watch)
    return run


def without_folder(source: str) -> str:
    """Return a source, or NAME=SOURCE, with DIR for its folder."""
    scheme, _, place = source.partition(":")
    if not place:  # a file, as of arrays
        name, _, path = source.partition("=")
        return f"{name}=DIR/{Path(path).name}"
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
