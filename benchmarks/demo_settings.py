"""Compare settings of the demo by leaving known garments out; its test images judge nothing here.

    python benchmarks/demo_settings.py RUNS

Each of four times two of the eight known garments are left out, every garment once, and networks
are trained on most training images of the other six. The rest of these gives the accuracy, and the
two that were left out are what is unseen. All train as many steps of as many rows. RUNS keeps the
networks: run again, training goes on where it stopped.
"""

import os

os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # as the command line does

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from cyclopts import run as run_command

import oddone
from contrastive_recipes import some, split
from measure import write_measurements
from oddone.data import ImageSet, load
from oddone.detector import Detector, DetectorSettings
from oddone.device import keep_freed_memory
from oddone.encoders import TrainedNetwork, load_network
from oddone.presets import cpu, demo, mcl
from oddone.rng import stream
from oddone.scoring import score_images
from oddone.training import TrainSettings
from oddone.transforms import one_view
from preset import finished_run

STEPS = 300
"""About as many as the demo makes in its two minutes on two slow cores."""
AS_IT_IS = "as it is"
HELD_OUT = 60
"""How many images of each class the accuracy is that of: a tenth."""


def candidates() -> dict[str, TrainSettings]:
    """Return the settings of each way, which are those of the demo but for what its name says."""
    known = replace(demo(), minutes=None, steps=STEPS, held_out=0.0, device="cpu")
    spa = known.loss.spa_weight
    return {
        AS_IT_IS: known,
        "upright images 25 %": replace(known, batch=replace(known.batch, upright_share=0.25)),
        "upright images 70 %": replace(known, batch=replace(known.batch, upright_share=0.7)),
        "classifier weighs 3": replace(known, class_weight=3.0),
        "no classifier": replace(
            mcl(),
            minutes=None,
            steps=STEPS,
            held_out=0.0,
            device="cpu",
            model=known.model,
            batch=known.batch,
        ),
        "SPA weighs a third": replace(known, loss=replace(known.loss, spa_weight=spa / 3)),
        "cross-entropy": replace(
            cpu(), minutes=None, steps=STEPS, held_out=0.0, device="cpu", model=known.model
        ),
    }


def rules(name: str, trained: TrainedNetwork) -> dict[str, DetectorSettings]:
    """Return the ways to score by a network: its own, and for the demo's settings others too."""
    suited = DetectorSettings.suited_to(trained)
    if name != AS_IT_IS:
        return {"its own": suited}
    return {
        "its own": suited,
        "one view": replace(suited, views=one_view),
        "features, a covariance each": replace(suited, tied=False),
        "head": replace(suited, space="head", tied=False),
        "head, one covariance": replace(suited, space="head", tied=True),
    }


def splits(source: ImageSet) -> Iterator[tuple[ImageSet, ImageSet, ImageSet]]:
    """Yield training images, held-out ones of the same six classes, and images of the other two."""
    order = torch.randperm(len(source.classes), generator=stream(0, "garments")).tolist()
    for pair in list(pairwise(order))[::2]:
        left_out = np.isin(source.labels, pair)
        yield (
            *split(without(source, pair), HELD_OUT),
            some(source, np.flatnonzero(left_out)),
        )


def without(source: ImageSet, left_out: tuple[int, int]) -> ImageSet:
    """Return the images of all other classes, which are numbered anew."""
    kept = [label for label in range(len(source.classes)) if label not in left_out]
    others = some(source, np.flatnonzero(~np.isin(source.labels, left_out)))
    return replace(
        others,
        labels=np.searchsorted(kept, others.labels),
        classes=tuple(source.classes[label] for label in kept),
    )


def main(runs: Path, /) -> None:
    """Train, measure, print and record."""
    keep_freed_memory()  # as the command line does
    measured: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    pairs = []
    for number, (training, held_out, unseen) in enumerate(splits(load("fashion:known"))):
        pairs.append([unseen.classes[label] for label in np.unique(unseen.labels)])
        for name, settings in candidates().items():
            run = finished_run(runs / f"{number}-{name.replace(' ', '-')}", training, settings)
            trained = load_network(run.encoder_path)
            for rule, fitted_by in rules(name, trained).items():
                detector = Detector.fit(trained, training, fitted_by)
                if len(detector.rules) > 1:
                    detector = detector.standardise(held_out)
                known, odd = score_images(detector, held_out), score_images(detector, unseen)
                accuracy = oddone.accuracy(known.labels, held_out.labels)
                measured[name, rule].append((accuracy, oddone.auroc(known.scores, odd.scores)))
                print(pairs[-1], name, rule, measured[name, rule][-1], flush=True)
    write_measurements(
        "demo_settings",
        kind="search",
        arguments="RUNS",
        seed=0,
        packages=["numpy", "scikit-learn"],
        steps=STEPS,
        left_out=pairs,
        results=[
            {
                "settings": name,
                "rule": rule,
                "accuracy": round(float(np.mean([each[0] for each in several])), 4),
                "auroc": round(float(np.mean([each[1] for each in several])), 4),
                "aurocs": [round(each[1], 4) for each in several],
            }
            for (name, rule), several in measured.items()
        ],
    )


if __name__ == "__main__":
    run_command(main)
