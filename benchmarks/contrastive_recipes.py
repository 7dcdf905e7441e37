"""Compare ways to train SupCLR and CSI in minutes, for the rows of the tables at the scale cpu.

    python benchmarks/contrastive_recipes.py RUNS cifar10:FOLDER NAME=SOURCE ...

What their papers print is for hundreds of epochs; a baseline is to be trained by the best recipe
that is found for the minutes it has, as MCL and cross-entropy are. Accuracy is that of a tenth of
the training images, AUROC that of OOD images that are in no table of `oddone bench`. Each recipe
takes as many steps of as many rows, about a minute of two cores. RUNS keeps the networks: run
again, training goes on where it stopped.
"""

import os

os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # as the command line does

from dataclasses import replace
from pathlib import Path

import numpy as np
from cyclopts import run as run_command

import oddone
from measure import write_measurements
from oddone.bench.recipes import csi_as_printed, supclr_as_printed
from oddone.bench.scoring import ClassDistance, score_sets
from oddone.data import ImageSet, load
from oddone.device import keep_freed_memory
from oddone.encoders import load_network
from oddone.presets import mcl
from oddone.progress import silent
from oddone.training import TrainSettings
from preset import finished_run, without_folder

STEPS = 340
HELD_OUT = 500
"""How many images of each class are kept aside."""


def candidates() -> dict[str, TrainSettings]:
    """Return the settings of each way, which are those of the paper but for what its name says."""
    whole = replace(mcl(), minutes=None, steps=STEPS, held_out=0.0, device="cpu")
    supclr, csi = supclr_as_printed(whole), csi_as_printed(whole)
    shifted = whole.augment
    halves = replace(shifted, crop_scale=(0.5, 1.0), shift=0)
    muon = whole.optimiser
    upright = whole.batch.upright_share
    return {
        "SupCLR as printed": supclr,
        "SupCLR, Muon": replace(supclr, optimiser=muon),
        "SupCLR, shifts": replace(supclr, augment=shifted),
        "SupCLR, Muon, shifts": replace(supclr, optimiser=muon, augment=shifted),
        "SupCLR, Muon, crops of half or more": replace(supclr, optimiser=muon, augment=halves),
        "SupCLR, Muon, shifts, temperature 0.2": replace(
            supclr, optimiser=muon, augment=shifted, loss=replace(supclr.loss, temperature=0.2)
        ),
        "CSI as printed": csi,
        "CSI, Muon, shifts": replace(csi, optimiser=muon, augment=shifted),
        "CSI, Muon, shifts, 70 % upright": replace(
            csi,
            optimiser=muon,
            augment=shifted,
            batch=replace(csi.batch, upright_share=upright),
        ),
        "CSI, Muon, shifts, 70 % upright, temperature 0.2": replace(
            csi,
            optimiser=muon,
            augment=shifted,
            batch=replace(csi.batch, upright_share=upright),
            loss=replace(csi.loss, temperature=0.2),
        ),
    }


def split(source: ImageSet, last: int) -> tuple[ImageSet, ImageSet]:
    """Return all but the last images of each class, and those."""
    members = [np.flatnonzero(source.labels == each) for each in range(len(source.classes))]
    training, held_out = (
        some(source, np.sort(np.concatenate(indices)))
        for indices in zip(*((each[:-last], each[-last:]) for each in members), strict=True)
    )
    return training, held_out


def some(source: ImageSet, indices: np.ndarray) -> ImageSet:
    """Return some of the images."""
    return replace(
        source,
        images=source.images[indices],
        labels=source.labels[indices],
        paths=[source.paths[each] for each in indices.tolist()],
        fingerprint=f"{source.fingerprint} {len(indices)} {indices[0]}",
    )


def main(runs: Path, ind: str, /, *oods: str) -> None:
    """Train, measure, print and record."""
    keep_freed_memory()  # as the command line does
    training, held_out = split(load(ind), HELD_OUT)
    odd = {
        name: load(place, size=training.images.shape[-1])
        for name, place in (each.split("=", 1) for each in oods)
    }
    rule = ClassDistance()
    rows = []
    for name, settings in candidates().items():
        run = finished_run(runs / name.replace(" ", "-"), training, settings)
        trained = load_network(run.encoder_path)
        sets = {"held out": held_out, **odd}
        verdicts = score_sets(trained, training, sets, [rule], silent)[rule]
        known = verdicts["held out"]
        row = {"accuracy": oddone.accuracy(known.labels, held_out.labels)}
        for each in odd:
            row[f"auroc {each}"] = oddone.auroc(known.scores, verdicts[each].scores)
        rows.append(
            {
                "recipe": name,
                "processor_minutes": round(run.processor_seconds / 60, 2),
                **{key: round(value, 4) for key, value in row.items()},
            }
        )
        print(rows[-1], flush=True)
    write_measurements(
        "contrastive_recipes",
        kind="search",
        arguments=" ".join(["RUNS", *map(without_folder, [ind, *oods])]),
        seed=0,
        packages=["numpy", "scikit-learn"],
        steps=STEPS,
        training_images=len(training),
        held_out_images=len(held_out),
        results=rows,
    )


if __name__ == "__main__":
    run_command(main)
