"""A detector in one file: tensors and JSON, nothing that could run, and a digest of it all.

The digest tells of damage, not of forgery: who can write the file can write its digest. So all that
is read is checked as if a stranger had written it.
"""

import hashlib
import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar, get_args

import numpy as np
import torch
from torch import Tensor, nn

from oddone import __version__
from oddone.density import Gaussians
from oddone.detector.calibration import Calibration
from oddone.detector.detector import Detector
from oddone.detector.probe import LinearProbe
from oddone.detector.references import References
from oddone.detector.view_embedder import Space, ViewEmbedder
from oddone.errors import ArtifactError, SettingsError
from oddone.files import write_tensors
from oddone.fusion import FUSIONS
from oddone.tensor_file import TensorFile
from oddone.training.encoder_file import described, rebuilt
from oddone.transforms import VIEW_SETS

KIND = "detector"
FORMAT = 1

SPACES: dict[str, Space] = {space: space for space in get_args(Space)}

Choice = TypeVar("Choice")


def save_detector(path: Path | str, detector: Detector) -> None:
    """Write a detector to a file, as a whole or not at all."""
    about = _about(detector)
    tensors = {
        name: tensor.detach().cpu().contiguous() for name, tensor in _tensors(detector).items()
    }
    digest = _digest(tensors, _as_header(about))
    try:
        write_tensors(Path(path), tensors, {**about, "digest": digest})
    except OSError as error:
        raise ArtifactError(f"{path} cannot be written: {error.strerror}") from error


def load_detector(path: Path | str, *, body: nn.Module | None = None) -> Detector:
    """Return the detector in a file that `save_detector` wrote, on the CPU.

    One whose encoder has a `body` of your own needs such a body again.
    """
    file = TensorFile.read(Path(path))
    _check_kind(file)
    _check_digest(file)
    encoder = ViewEmbedder(
        rebuilt(file, file.below("network."), body=body),
        _chosen(file, "views", VIEW_SETS),
        _chosen(file, "space", SPACES),
    )
    return Detector(
        encoder,
        _gaussians(file, encoder),
        _probe(file, encoder),
        _chosen(file, "fuse", FUSIONS),
        _references(file, encoder),
        _calibration(file),
        file.entry("provenance", dict),
    )


def _about(detector: Detector) -> dict[str, Any]:
    encoder, calibration = detector.encoder, detector.calibration
    about = {
        "kind": KIND,
        "format": FORMAT,
        "oddone": __version__,
        **described(encoder.trained),
        "views": _name_of(encoder.views, "views", VIEW_SETS),
        "space": encoder.space,
        "fuse": _name_of(detector.fuse, "fuse", FUSIONS),
        "paths": detector.references.paths,
        "provenance": dict(detector.provenance),
    }
    if calibration is not None:
        about["false_alarms"] = calibration.false_alarms
    return about


def _tensors(detector: Detector) -> dict[str, Tensor]:
    references = detector.references
    weights = detector.encoder.trained.network.state_dict()
    tensors = {
        **{f"network.{name}": tensor for name, tensor in weights.items()},
        "gaussians.mean": detector.gaussians.mean.float(),
        "gaussians.whitening": detector.gaussians.whitening.float(),
        "references.embeddings": references.embeddings,
        "references.labels": references.labels,
        "references.thumbnails": torch.from_numpy(
            np.frombuffer(b"".join(references.thumbnails), np.uint8).copy()
        ),
        "references.ends": torch.tensor(list(map(len, references.thumbnails))).long().cumsum(0),
    }
    if detector.probe is not None:
        tensors["naming.weight"] = detector.probe.weight
        tensors["naming.bias"] = detector.probe.bias
    if detector.calibration is not None:
        tensors["calibration.scores"] = detector.calibration.scores
    return tensors


def _name_of(chosen: Choice, what: str, named: Mapping[str, Choice]) -> str:
    for name, choice in named.items():
        if choice is chosen:
            return name
    raise SettingsError(
        f"{what}={getattr(chosen, '__name__', chosen)} is a function of your own, which a file "
        f"cannot hold; to save the detector, choose one of {', '.join(named)}"
    )


def _as_header(about: Mapping[str, Any]) -> dict[str, str]:
    try:
        return {name: json.dumps(entry) for name, entry in about.items()}
    except (TypeError, ValueError) as error:
        raise SettingsError(f"the provenance cannot be written as JSON: {error}") from error


def _digest(tensors: Mapping[str, Tensor], header: Mapping[str, str]) -> str:
    """Return a hash that changes with any tensor and any entry of the header."""
    names = sorted(tensors)
    shapes = [(name, str(tensors[name].dtype), list(tensors[name].shape)) for name in names]
    digest = hashlib.sha256(json.dumps([sorted(header.items()), shapes]).encode())
    for name in names:
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _check_kind(file: TensorFile) -> None:
    if "kind" not in file.header and "settings" in file.header:
        raise ArtifactError(
            f"{file.path} is an encoder, not a detector; make one of it with Detector.fit"
        )
    if "kind" not in file.header or file.entry("kind", str) != KIND:
        raise ArtifactError(f"{file.path} is a safetensors file, but not a detector")
    written = file.entry("format", int)
    if written > FORMAT:
        raise ArtifactError(
            f"{file.path} has format {written}, and oddone {__version__} reads up to {FORMAT}; "
            f"upgrade oddone"
        )
    if written != FORMAT:
        raise file.inconsistent(f"there is no format {written}")


def _check_digest(file: TensorFile) -> None:
    others = {name: entry for name, entry in file.header.items() if name != "digest"}
    if file.entry("digest", str) != _digest(file.tensors, others):
        raise ArtifactError(
            f"{file.path} was altered after it was written: its contents do not match its digest; "
            f"copy it again"
        )


def _chosen(file: TensorFile, what: str, named: Mapping[str, Choice]) -> Choice:
    name = file.entry(what, str)
    if name not in named:
        raise file.inconsistent(f"{what} is {name!r}, which is none of {', '.join(named)}")
    return named[name]


def _gaussians(file: TensorFile, encoder: ViewEmbedder) -> Gaussians:
    trained = encoder.trained
    if not trained.classes:
        raise file.inconsistent("it has no classes")
    groups = (int(encoder.poses.max()) + 1) * len(trained.classes)
    in_head = encoder.space == "head"
    dim = trained.settings.model.head_dim if in_head else trained.network.encoder.feature_dim
    return Gaussians(
        file.tensor("gaussians.mean", torch.float32, groups, dim),
        file.tensor("gaussians.whitening", torch.float32, groups, dim, dim),
    )


def _probe(file: TensorFile, encoder: ViewEmbedder) -> LinearProbe | None:
    if "naming.weight" not in file.tensors:
        return None
    poses, classes = int(encoder.poses.max()) + 1, len(encoder.trained.classes)
    dim = encoder.trained.network.encoder.feature_dim
    return LinearProbe(
        file.tensor("naming.weight", torch.float32, poses, classes, dim),
        file.tensor("naming.bias", torch.float32, poses, classes),
    )


def _references(file: TensorFile, encoder: ViewEmbedder) -> References:
    classes, head_dim = len(encoder.trained.classes), encoder.trained.settings.model.head_dim
    paths = file.texts("paths")
    labels = file.tensor("references.labels", torch.int64, len(paths))
    if not ((labels >= 0) & (labels < classes)).all():
        raise file.inconsistent(f"references have labels that are none of {classes} classes")
    pictures = file.tensor("references.thumbnails", torch.uint8, None).numpy().tobytes()
    bounds = [0, *file.tensor("references.ends", torch.int64, len(paths)).tolist()]
    if bounds != sorted(bounds) or bounds[-1] != len(pictures):
        raise file.inconsistent("the thumbnails do not follow one another")
    return References(
        file.tensor("references.embeddings", torch.float16, len(paths), head_dim),
        labels,
        paths,
        tuple(pictures[start:end] for start, end in pairwise(bounds)),
    )


def _calibration(file: TensorFile) -> Calibration | None:
    if "false_alarms" not in file.header:
        return None
    false_alarms = file.entry("false_alarms", float)
    scores = file.tensor("calibration.scores", torch.float64, None)
    sorted_numbers = scores.isfinite().all() and (scores.diff() >= 0).all()
    if not 0 < false_alarms < 1 or len(scores) == 0 or not sorted_numbers:
        raise file.inconsistent(
            f"{len(scores)} scores and false_alarms={false_alarms:g} are no calibration"
        )
    return Calibration(scores, false_alarms)
