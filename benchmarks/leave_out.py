"""Is the estimate by leaving classes out right? Random classes of a source are never shown.

    python benchmarks/leave_out.py SOURCE [--known 10] [--splits 12] [--learn-head]

In each split, some classes are known, and up to ten others are really unseen. The known ones are
fitted on 70 % of their images; the rest, and the unseen, tell the truth.
"""

import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from cyclopts import run

from measure import write_measurements
from oddone import auroc, load
from oddone.api import DEFAULT_ENCODER
from oddone.detector.fitting import choose_evenly
from oddone.detector.rules import sum_of_rules
from oddone.encoders import frozen_network
from oddone.features import embed_once
from oddone.rng import stream
from oddone.selection import CANDIDATES, folds_of_classes
from oddone.selection.candidates import FittedRules
from oddone.selection.estimate import choose_candidate, score_folds, standardise
from oddone.transforms import one_view, rotations_and_mirrors

MOST_UNSEEN = 10
FITTED = 0.7


class Split(NamedTuple):
    """Which classes are known and which are not, and the indices of known images."""

    known: np.ndarray
    unseen: np.ndarray
    training: np.ndarray
    tested: np.ndarray


def split_classes(labels: np.ndarray, n_known: int, generator: torch.Generator) -> Split:
    """Return a random choice of classes, with 70 % of the images of each known one to fit on."""
    order = torch.randperm(int(labels.max()) + 1, generator=generator).numpy()
    known, unseen = order[:n_known], order[n_known : n_known + MOST_UNSEEN]
    training, tested = [], []
    for label in known:
        members = np.flatnonzero(labels == label)
        members = members[torch.randperm(len(members), generator=generator).numpy()]
        training.append(members[: int(FITTED * len(members))])
        tested.append(members[int(FITTED * len(members)) :])
    return Split(known, unseen, np.sort(np.concatenate(training)), np.concatenate(tested))


def measure_split(
    features: torch.Tensor, labels: np.ndarray, classes: tuple[str, ...], n_known: int, split: int
) -> dict[str, Any]:
    """Return the estimate and the truth of each rule, for one choice of classes."""
    generator = stream(split, "split of classes")
    known, unseen, training, tested = split_classes(labels, n_known, generator)
    own_labels = torch.from_numpy(labels[training])
    folds = folds_of_classes(labels[training], generator=generator)
    scores = score_folds(features[:, training], own_labels, folds)
    chosen = choose_candidate(scores, classes, CANDIDATES).candidate
    rules = FittedRules.fit(features[:, training], own_labels)
    normal = rules(features[0, tested]).scores
    odd = rules(features[0, np.isin(labels, unseen)]).scores
    return {
        "chosen": chosen.name,
        "known": [classes[label] for label in sorted(known)],
        "unseen": [classes[label] for label in sorted(unseen)],
        "estimated": {
            candidate.name: choose_candidate(scores, classes, [candidate]).auroc
            for candidate in CANDIDATES
        },
        "true": {
            candidate.name: auroc(
                sum_of_rules(normal, standardise(scores, candidate)),
                sum_of_rules(odd, standardise(scores, candidate)),
            )
            for candidate in CANDIDATES
        },
    }


def main(
    source: str,
    /,
    *,
    known: int = 10,
    splits: int = 12,
    images_per_class: int = 60,
    encoder: str = DEFAULT_ENCODER,
    size: int = 128,
    learn_head: bool = False,
) -> None:
    """Measure, print and record."""
    images = load(source, size=size)
    most = images_per_class * len(images.classes)
    indices = choose_evenly(images.labels, most, generator=stream(0, "images"))
    trained = frozen_network(encoder, size, images.classes, images.fingerprint)
    views = rotations_and_mirrors if learn_head else one_view
    features = embed_once(trained, views, images, indices)
    labels = images.labels[indices]
    rows = []
    for split in range(splits):
        row = measure_split(features, labels, images.classes, known, split)
        rows.append(row)
        name = row["chosen"]
        print(
            f"split {split}: {name}, estimate {row['estimated'][name]:.1%}, "
            f"truth {row['true'][name]:.1%}",
            flush=True,
        )
    for candidate in CANDIDATES:
        estimated, true = (
            np.array([row[kind][candidate.name] for row in rows]) for kind in ("estimated", "true")
        )
        print(
            f"{candidate.name:<32} truth {true.mean():.1%}, estimate {estimated.mean():.1%}, "
            f"apart by {np.abs(estimated - true).mean():.1%} in a split"
        )
    write_measurements(
        "leave_out",
        kind="quality",
        arguments=" ".join(["SOURCE", *sys.argv[2:]]),
        seed=0,
        packages=["numpy", "scikit-learn"],
        source=Path(source).name if Path(source).is_dir() else source.split(":", maxsplit=1)[0],
        known=known,
        encoder=encoder,
        image_size=size,
        learn_head=learn_head,
        images=len(indices),
        splits=rows,
    )


if __name__ == "__main__":
    run(main)
