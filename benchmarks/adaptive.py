"""A detector that looks at as many views as a verdict needs, against itself with all views.

    python benchmarks/adaptive.py RUN IMAGES SOURCE NAME=SOURCE ...

RUN is a finished run on SOURCE, such as `oddone train SOURCE --out RUN` makes, and the others are
OOD. The images that it held out, twice IMAGES at most, set the threshold and tell when to stop; of
the test images of SOURCE and of each OOD set, so many IMAGES are compared; test images are timed.
"""

import os

os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # as the command line does

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import oddone
from measure import compare, print_comparisons, seconds_of, write_measurements
from oddone.data import ImageSet, load
from oddone.data.notation import EMBEDDED
from oddone.detector import Detector
from oddone.device import keep_freed_memory
from oddone.training import RunDirectory, split_held_out
from oddone.verdicts import Verdicts
from preset import without_folder

ROUNDS = 5
TIMED = 256
NAMES = {"ours": "views as needed", "peer": "all views"}


def main(folder: str, most: str, ind: str, *oods: str) -> None:
    """Measure, print and record."""
    keep_freed_memory()  # as the command line does
    run, source = RunDirectory.open(Path(folder)), load(ind)
    held_out = np.random.default_rng(0).permutation(split_held_out(source, run.settings).held_out)
    adaptive = Detector.load(run.detector_path).calibrate(
        source, indices=held_out[: 2 * int(most)], adaptive=True
    )
    places = {"test images": f"{ind}#test"} | dict(ood.split("=", 1) for ood in oods)
    sets = {
        name: chosen(load(place, size=adaptive.image_size), int(most))
        for name, place in places.items()
    }
    rows = measure_sets(adaptive, sets)
    for row in rows:
        print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    speed = measure_speed(adaptive, sets["test images"][:TIMED])
    print_comparisons([speed])
    assert adaptive.calibration is not None  # noqa: S101
    write_measurements(
        "adaptive",
        arguments=" ".join(["DIR", most, *map(as_recorded, (ind, *oods))]),
        seed=run.settings.seed,
        packages=["numpy"],
        source=ind.partition(":")[0],
        encoder=run.settings.model.encoder_name,
        steps=list(run.history())[-1]["step"],
        views=len(adaptive.embedder.views),
        calibration_images=len(adaptive.calibration.scores),
        stages=[stage._asdict() for stage in adaptive.stages],
        rounds=ROUNDS,
        timed_images=min(TIMED, len(sets["test images"])),
        results=rows,
        speed=[speed],
    )


def as_recorded(source: str) -> str:
    """Return a source, or NAME=SOURCE, with DIR for its folder if it has one."""
    scheme = source.rpartition("=")[2].partition(":")[0]
    return source if scheme in EMBEDDED else without_folder(source)


def chosen(images: ImageSet, most: int) -> np.ndarray:
    """Return so many of the images, drawn at random."""
    order = np.random.default_rng(0).permutation(len(images))
    return images.images[np.sort(order[:most])]


def measure_sets(adaptive: Detector, sets: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """Return how the verdicts on each set compare; the first has the normal images."""
    plain, rows = replace(adaptive, stages=()), []
    normal: dict[str, Verdicts] = {}
    for name, pixels in sets.items():
        with counted_views(adaptive) as counts:
            ours = adaptive(pixels)
        n_views = sum(counts) / len(pixels)
        theirs = plain(pixels)
        rows.append(
            {
                "set": name,
                "images": len(pixels),
                **same_verdicts(ours, theirs),
                "views": round(n_views, 3),
                "anomalous_as_needed": share(ours.anomalous),
                "anomalous_by_all": share(theirs.anomalous),
            }
        )
        if not normal:
            normal = {"as_needed": ours, "by_all": theirs}
            continue
        for kind, verdicts in (("as_needed", ours), ("by_all", theirs)):
            area = oddone.auroc(normal[kind].scores, verdicts.scores)
            rows[-1][f"auroc_{kind}"] = round(area, 4)
    return rows


def same_verdicts(ours: Verdicts, theirs: Verdicts) -> dict[str, float]:
    """Return on how many images two scorers agree: in all, on what is anomalous, and on labels."""
    assert ours.anomalous is not None  # noqa: S101  (both are calibrated)
    assert theirs.anomalous is not None  # noqa: S101
    anomalous, labels = ours.anomalous == theirs.anomalous, ours.labels == theirs.labels
    return {
        "same_verdict": share(anomalous & labels),
        "same_anomalous": share(anomalous),
        "same_label": share(labels),
    }


def share(chosen_images: torch.Tensor | None) -> float:
    """Return the share of images that are chosen."""
    assert chosen_images is not None  # noqa: S101
    return round(chosen_images.double().mean().item(), 4)


@contextmanager
def counted_views(detector: Detector) -> Iterator[list[int]]:
    """Yield a list to which the number of views is added whenever the network sees some."""
    counts: list[int] = []
    hook = detector.embedder.network.register_forward_hook(
        lambda _network, inputs, _result: counts.append(len(inputs[0]))
    )
    try:
        yield counts
    finally:
        hook.remove()


def measure_speed(adaptive: Detector, pixels: np.ndarray) -> dict[str, Any]:
    """Return how many times as fast a detector is as with all views."""
    plain = replace(adaptive, stages=())
    tasks = {NAMES["ours"]: lambda: adaptive(pixels), NAMES["peer"]: lambda: plain(pixels)}
    return compare(seconds_of(tasks, ROUNDS), **NAMES)


if __name__ == "__main__":
    main(*sys.argv[1:])
