"""Train a preset on labelled images with several seeds, and measure its detectors and their parts.

    python benchmarks/preset.py PRESET RUNS cifar10:FOLDER cifar100=cifar100:FOLDER#test ...

The preset's minutes are those of two cores, counted in steps by what a step costs
(docs/decisions/0013-minutes-as-steps.md). RUNS keeps a network for each seed: run again, training
goes on where it stopped. With --only SEED a process trains that one and ends, so that another can
train the next on the other core. The record holds the loss curve of the first seed, and accuracy
and AUROC of each detector as `oddone train` makes it, of each of its rules alone, and of one view.
"""

import os

os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # as the command line does

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np
import torch
from cyclopts import run as run_command
from torch import Tensor

import oddone
from measure import write_measurements
from oddone.api import fit_run
from oddone.bench.recipes import Plan
from oddone.bench.step_costs import StepCosts, in_steps, measure_step
from oddone.data import ImageSet, load
from oddone.detector import Detector
from oddone.detector.rules import Rule, sum_of_rules
from oddone.device import keep_freed_memory
from oddone.presets import PRESETS
from oddone.scoring import process_batches
from oddone.training import RunDirectory, StepReport, TrainSettings, train_network
from oddone.transforms import one_view


def main(
    preset: str, folder: Path, ind: str, /, *oods: str, seeds: int = 3, only: int | None = None
) -> None:
    """Train, measure, print and record."""
    keep_freed_memory()  # as the command line does
    source = load(ind)
    settings = settings_in_steps(preset, folder, source)
    if only is not None:
        finished_run(folder / f"seed-{only}", source, replace(settings, seed=only))
        return
    runs = [
        finished_run(folder / f"seed-{seed}", source, replace(settings, seed=seed))
        for seed in range(seeds)
    ]
    test = load(f"{ind}#test")
    odd = {name: load(place) for name, place in (ood.split("=", 1) for ood in oods)}
    rows: dict[str, list[dict[str, float]]] = defaultdict(list)
    for run in runs:
        for name, row in measure(fit_run(run, source), test, odd):
            rows[name].append(row)
            print(run.settings.seed, name, row, flush=True)
    history = list(runs[0].history())
    write_measurements(
        "preset",
        kind="quality",
        arguments=" ".join([preset, "DIR", *map(without_folder, [ind, *oods]), f"--seeds {seeds}"]),
        seed=0,
        seeds=seeds,
        packages=["numpy", "scikit-learn"],
        preset=preset,
        minutes=PRESETS[preset]().minutes,
        steps=settings.steps,
        processor_minutes=[round(run.processor_seconds / 60, 2) for run in runs],
        loss_curve=curve(history),
        results=[{"inference": name, **summary(each)} for name, each in rows.items()],
    )


def settings_in_steps(preset: str, folder: Path, source: ImageSet) -> TrainSettings:
    """Return the preset with as many steps as its minutes pay for."""
    settings = replace(PRESETS[preset](), device="cpu")
    wanted = Plan(preset, settings, None, outliers=False)
    costs = StepCosts(folder / "step_costs", source, None, measure_step)
    costs.find([wanted], lambda words: print(words, flush=True))
    cost = costs.known(wanted)
    assert cost is not None  # noqa: S101  (it has just been found)
    return in_steps(settings, cost)


def measure(
    detector: Detector, test: ImageSet, odd: dict[str, ImageSet]
) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield accuracy and AUROC of a detector, of each of its rules alone, and of one view."""
    names = [rule.rule for rule in detector.rules]
    upright = replace(detector, embedder=replace(detector.embedder, views=one_view))
    for seen, views in ((detector, len(detector.embedder.views)), (upright, 1)):
        normal = rule_scores(seen, test)
        oods = {ood: rule_scores(seen, images) for ood, images in odd.items()}
        right = oddone.accuracy(normal.labels, test.labels)
        for rules in (names, *([name] for name in names)):
            chosen = tuple(rule for rule in detector.rules if rule.rule in rules)
            scores = sum_of_rules(normal.by_rule, chosen)
            aurocs = {
                f"auroc {ood}": oddone.auroc(scores, sum_of_rules(each.by_rule, chosen))
                for ood, each in oods.items()
            }
            row = {"accuracy": right, **aurocs, "mean auroc": fmean(aurocs.values())}
            if (views, rules) == (len(detector.embedder.views), names):
                assert detector.calibration is not None  # noqa: S101  (images were held out)
                anomalous = detector.calibration.anomalous(scores, normal.labels)
                row["false alarms"] = anomalous.double().mean().item()
            yield (
                f"{' + '.join(rules)}, {views} view{'s' * (views > 1)}",
                {key: round(value, 4) for key, value in row.items()},
            )


class RuleScores(NamedTuple):
    """What each rule of a detector says of some images, and their labels."""

    by_rule: dict[Rule, Tensor]
    labels: Tensor


def rule_scores(detector: Detector, images: ImageSet) -> RuleScores:
    """Return the scores of all rules by one pass over the images."""
    size, batch_size = detector.image_size, detector.batch_size
    batches = process_batches(detector._measure, images, size=size, batch_size=batch_size)
    measured = [batch.result for batch in batches if batch.result is not None]
    return RuleScores(
        {
            rule: torch.cat([part.rule_scores[rule] for part in measured])
            for rule in measured[0].rule_scores
        },
        torch.cat([part.probabilities.argmax(dim=1) for part in measured]),
    )


def summary(rows: list[dict[str, float]]) -> dict[str, float | list[float]]:
    """Return the mean over seeds of each number, and below "spread" their standard deviations."""
    means = {key: round(fmean(row[key] for row in rows), 4) for key in rows[0]}
    if len(rows) == 1:
        return dict(means)
    spreads = {f"spread {key}": round(stdev(row[key] for row in rows), 4) for key in rows[0]}
    return {**means, **spreads}


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
    run_command(main)
