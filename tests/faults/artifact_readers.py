"""The readers of all but single pictures, as `case_runner.py` calls them: a path in, JSON out."""

import hashlib
import json
import math
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from corpus_artifacts import FILE_NAMES, network_and_optimiser

import oddone.cli
import oddone.cli.score  # which is loaded by name, and would count as a part of the first case
from oddone.bench import read_record
from oddone.bench.rendering import captions, cells_of
from oddone.data import load
from oddone.detector import Detector
from oddone.encoders import load_network
from oddone.export.onnx_detector import OnnxDetector
from oddone.training import RunDirectory
from oddone.training.checkpoint import load_newest_checkpoint, read_progress
from oddone.training.settings_file import read_settings

SIZE = 16


def folder(path: Path) -> dict[str, Any]:
    """Return what `oddone score` and `load` make of a folder of pictures; beside it is a detector.

    The rows of the table, what was written to stderr, and the paths of images and of broken files.
    """
    table, errors = path.parent.parent / "rows.jsonl", path.parent.parent / "stderr"
    detector = path.parent.parent / "detector.oddone"
    sys.argv = ["oddone", "score", str(detector), str(path), "--out", str(table)]
    with _stderr_in(errors):
        try:
            oddone.cli.main()
        except SystemExit as ended:
            code = ended.code
        loaded = load(f"flat:{path}", size=SIZE)
    return {
        "code": code,
        "rows": [json.loads(line) for line in table.read_text().splitlines()],
        "stderr": errors.read_text(),
        "loaded": list(loaded.paths),
        "broken": {file.path: file.reason for file in loaded.broken},
    }


def artifact(path: Path) -> str:
    """Return a hash of what a file holds, whose name and folder say what it is."""
    kind = path.name.partition("-")[0]
    return _ARTIFACTS[kind](path / FILE_NAMES[kind])


def forgery(path: Path) -> bool:
    """Return whether a forged file makes numbers of images; nothing else may be called normal."""
    kind = path.name.partition("-")[0]
    file = next(path.iterdir())
    if kind == "checkpoint":
        return bool(_checkpoint(file))
    images = torch.randint(256, (4, 3, SIZE, SIZE), dtype=torch.uint8)
    if kind == "encoder":
        network = load_network(file).network
        with torch.no_grad():
            features, _ = network(images / 255)
        return bool(features.isfinite().all())
    for verdict in Detector.load(file)(images):
        if not math.isfinite(verdict.score) and verdict.anomalous is False:
            raise RuntimeError(f"called normal, with the score {verdict.score}")
    return True


@contextmanager
def _stderr_in(path: Path) -> Iterator[None]:
    """Write what C libraries and Python write to stderr to a file instead."""
    kept = os.dup(2)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)


def _hash(*parts: object) -> str:
    """Return a hash of arrays, tensors and all that has a representation of its own."""
    digest = hashlib.sha256()
    for part in parts:
        is_array = hasattr(part, "shape")
        digest.update(np.ascontiguousarray(part).tobytes() if is_array else repr(part).encode())
    return digest.hexdigest()


def _hash_of_weights(module: Any) -> str:
    weights = module.state_dict()
    return _hash(*weights, *weights.values())


def _detector(path: Path) -> str:
    detector = Detector.load(path)
    calibration = detector.calibration
    return _hash(
        _hash_of_weights(detector.embedder.trained.network),
        detector.classes,
        detector.embedder.views,
        detector.rules,
        detector.provenance,
        detector.gaussians.mean,
        detector.gaussians.whitening,
        detector.references.embeddings,
        detector.references.paths,
        detector.references.thumbnails,
        None if calibration is None else calibration.scores,
        detector.threshold,
    )


def _encoder(path: Path) -> str:
    trained = load_network(path)
    network, about = _hash_of_weights(trained.network), (trained.classes, trained.image_size)
    return _hash(network, about, trained.model, trained.rotations, trained.data_fingerprint)


def _onnx(path: Path) -> str:
    opened = OnnxDetector.load(path, threads=1)
    outputs = opened.run(np.full((2, SIZE, SIZE, 3), 200, dtype=np.uint8))
    return _hash(opened.facts, *outputs.values())


def _checkpoint(path: Path) -> str:
    network, optimiser = network_and_optimiser()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        progress = load_newest_checkpoint(path.parent, network, optimiser)
        if progress != read_progress(path.parent):
            raise RuntimeError("it says two things of how far it is")
    state = [numbers for each in optimiser.state.values() for numbers in each.values()]
    return _hash(_hash_of_weights(network), progress, *state)


def _settings(path: Path) -> str:
    return _hash(read_settings(path))


def _provenance(path: Path) -> str:
    return _hash(RunDirectory(path.parent).provenance)


def _history(path: Path) -> str:
    return _hash(list(RunDirectory(path.parent).history()))


def _record(path: Path) -> str:
    record = read_record(path)
    return _hash(record, captions(record), [cells_of(record, row) for row in record.rows])


def _images(scheme: str, path: Path | str) -> str:
    images = load(f"{scheme}:{path}")
    return _hash(images.images, images.labels, images.classes)


_ARTIFACTS = {
    "detector": _detector,
    "encoder": _encoder,
    "checkpoint": _checkpoint,
    "onnx": _onnx,
    "settings": _settings,
    "provenance": _provenance,
    "history": _history,
    "record": _record,
    "cifar": lambda path: _images("cifar10", f"{path.parent}#test"),
    "cifarmeta": lambda path: _images("cifar10", f"{path.parent}#test"),
    "tar": lambda path: _images("cifar10", f"{path}#test"),
    "targz": lambda path: _images("cifar10", f"{path}#test"),
    "mat": lambda path: _images("svhn", path),
    "packedmat": lambda path: _images("svhn", path),
    "npz": lambda path: _images("arrays", path),
    "packednpz": lambda path: _images("arrays", path),
    "npy": lambda path: _images("arrays", path),
    "idx": lambda path: _images("idx", path),
    "idxgz": lambda path: _images("idx", path),
    "imglist": lambda path: _images("imglist", path),
    "tarshard": lambda path: _images("tar", path),
    "tarshardgz": lambda path: _images("tar", path),
    "parquet": lambda path: _images("parquet", path),
}
