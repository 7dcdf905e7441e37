"""A detector in one file: tensors and JSON, nothing that could run, and a digest of it all.

The digest tells of damage, not of forgery: who can write the file can write its digest. So all that
is read is checked as if somebody else had written it.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from oddone import __version__
from oddone.density import Gaussians
from oddone.detector.adaptive import ViewStage, check_stages
from oddone.detector.calibration import Calibration
from oddone.detector.probe import LinearProbe, NetworkClassifier
from oddone.detector.references import References
from oddone.detector.rules import StandardisedRule, check_rules
from oddone.detector.view_embedder import Space, ViewEmbedder
from oddone.encoders.network_file import network_header, rebuild_network
from oddone.errors import ArtifactError, SettingsError, os_error_fix
from oddone.fusion import FUSIONS, Fuse
from oddone.tensor_file import TensorFile, content_digest, write_tensors
from oddone.transforms import ViewSet

KIND = "detector"
FORMAT = 3
MOST_VIEWS = 64


class DetectorParts(NamedTuple):
    """What makes up a `Detector`, in the order of its fields."""

    embedder: ViewEmbedder
    space: Space
    gaussians: Gaussians
    classifier: LinearProbe | NetworkClassifier | None
    fuse: Fuse
    references: References
    rules: tuple[StandardisedRule, ...]
    calibration: Calibration | None
    stages: tuple[ViewStage, ...]
    provenance: Mapping[str, Any]


def save_parts(path: Path | str, parts: DetectorParts) -> None:
    """Write a detector to a file, as a whole or not at all."""
    header = _header(parts)
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in _tensors(parts).items()}
    _check_json(header)
    try:
        write_tensors(Path(path), tensors, header)
    except OSError as error:
        raise ArtifactError(
            f"{path} cannot be written: {error.strerror}; {os_error_fix(error)}"
        ) from error


def scoring_digest(parts: DetectorParts) -> str:
    """Return a hash that two detectors share if they give every image the same score.

    How they are calibrated, and where they come from, makes no difference.
    """
    decides = ("views", "space", "fuse", "rules", "stages", "network_classifier", "classes")
    header = _header(parts)
    tensors = {
        name: tensor.detach().cpu().contiguous()
        for name, tensor in _tensors(parts).items()
        if not name.startswith("calibration.")
    }
    return content_digest(tensors, {name: json.dumps(header[name]) for name in decides})


def load_parts(
    path: Path | str, *, encoder: nn.Module | None = None, sha256: str | None = None
) -> DetectorParts:
    """Return the detector in a file that `save_parts` wrote, on the CPU.

    One that was trained with an `encoder` of the user's own needs such an encoder again. With
    `sha256`, a file of another SHA-256 is refused.
    """
    file = TensorFile.read(Path(path), sha256=sha256)
    _check_kind(file)
    file.check_digest()
    trained = rebuild_network(file, file.below("network."), encoder=encoder)
    header = file.header_as(DetectorHeader)
    if header.fuse not in FUSIONS:
        raise file.inconsistent(f"fuse is {header.fuse!r}, which is none of {', '.join(FUSIONS)}")
    if len(header.views) > MOST_VIEWS:
        raise file.inconsistent(f"it has {len(header.views)} views, over {MOST_VIEWS}")
    try:
        has_classifier = header.network_classifier or "probe.weight" in file.tensors
        check_rules(header.rules, has_classifier=has_classifier)
        calibrated = header.false_alarms is not None
        check_stages(header.stages, header.views, calibrated=calibrated)
    except SettingsError as error:
        raise file.inconsistent(str(error)) from error
    embedder = ViewEmbedder(trained, header.views)
    parts = DetectorParts(
        embedder,
        header.space,
        _gaussians(file, embedder, header.space),
        _classifier(file, embedder, of_network=header.network_classifier),
        FUSIONS[header.fuse],
        _references(file, embedder, header.paths),
        header.rules,
        _calibration(file, embedder, header.false_alarms),
        header.stages,
        header.provenance,
    )
    unused = sorted(file.tensors.keys() - _tensors(parts).keys())
    if unused:  # such as the scores of a calibration of which the header knows nothing
        raise file.inconsistent(f"{unused[0]} is there, which nothing of it uses")
    return parts


@dataclass(frozen=True, kw_only=True)
class DetectorHeader:
    """What a file must say of a detector, beside its network and its tensors."""

    views: ViewSet
    space: Space
    fuse: str
    rules: tuple[StandardisedRule, ...]
    paths: tuple[str, ...]
    provenance: dict[str, Any]
    false_alarms: float | None = None
    stages: tuple[ViewStage, ...] = ()
    network_classifier: bool = False
    """Whether the classifier that was trained with the network gives the labels."""


def _header(parts: DetectorParts) -> dict[str, Any]:
    header = DetectorHeader(
        views=parts.embedder.views,
        space=parts.space,
        fuse=_fusion_name(parts.fuse),
        rules=parts.rules,
        paths=parts.references.paths,
        provenance=dict(parts.provenance),
        false_alarms=None if parts.calibration is None else parts.calibration.false_alarms,
        stages=parts.stages,
        network_classifier=isinstance(parts.classifier, NetworkClassifier),
    )
    about = {"kind": KIND, "format": FORMAT, "oddone": __version__}
    return {**about, **network_header(parts.embedder.trained), **vars(header)} | {
        "views": asdict(header.views)
    }


def _tensors(parts: DetectorParts) -> dict[str, Tensor]:
    references = parts.references
    weights = parts.embedder.trained.network.state_dict()
    tensors = {
        **{f"network.{name}": tensor for name, tensor in weights.items()},
        "gaussians.mean": parts.gaussians.mean.float(),
        "gaussians.whitening": parts.gaussians.whitening.float(),
        "references.embeddings": references.embeddings,
        "references.labels": references.labels,
        "references.thumbnails": torch.from_numpy(
            np.frombuffer(b"".join(references.thumbnails), np.uint8).copy()
        ),
        "references.ends": torch.tensor(list(map(len, references.thumbnails))).long().cumsum(0),
    }
    if isinstance(parts.classifier, LinearProbe):
        tensors["probe.weight"] = parts.classifier.weight
        tensors["probe.bias"] = parts.classifier.bias
    if parts.calibration is not None:
        tensors["calibration.scores"] = parts.calibration.scores
        if parts.calibration.labels is not None:
            tensors["calibration.labels"] = parts.calibration.labels
    return tensors


def _fusion_name(fuse: Fuse) -> str:
    for name, known in FUSIONS.items():
        if known is fuse:
            return name
    raise SettingsError(
        f"fuse={getattr(fuse, '__name__', fuse)} is a function of your own, which a file cannot "
        f"hold; to save the detector, choose one of {', '.join(FUSIONS)}"
    )


def _check_json(header: Mapping[str, Any]) -> None:
    try:
        json.dumps(header)
    except (TypeError, ValueError) as error:
        raise SettingsError(f"the provenance cannot be written as JSON: {error}") from error


def _check_kind(file: TensorFile) -> None:
    kind, written = file.kind_and_format()
    if kind == "encoder":
        raise ArtifactError(
            f"{file.path} is an encoder, not a detector; make one of it with Detector.fit"
        )
    if kind != KIND:
        raise ArtifactError(f"{file.path} is a safetensors file, but not a detector")
    if written is not None and written > FORMAT:
        raise ArtifactError(
            f"{file.path} has format {written}, and oddone {__version__} reads up to {FORMAT}; "
            f"upgrade oddone"
        )
    if written != FORMAT:
        raise file.inconsistent(f"this version of oddone reads format {FORMAT}, not {written}")


def _gaussians(file: TensorFile, embedder: ViewEmbedder, space: Space) -> Gaussians:
    trained = embedder.trained
    if not trained.classes:
        raise file.inconsistent("it has no classes")
    n_poses = embedder.views.n_poses
    groups = n_poses * len(trained.classes)
    dim = trained.embedding_dim if space == "head" else trained.network.feature_dim
    whitening = file.tensors.get("gaussians.whitening")
    tied = whitening is not None and whitening.shape[:1] == (1,)
    covariances = 1 if tied else groups
    return Gaussians(
        file.tensor("gaussians.mean", torch.float32, groups, dim),
        file.tensor("gaussians.whitening", torch.float32, covariances, dim, dim),
        n_poses,
    )


def _classifier(
    file: TensorFile, embedder: ViewEmbedder, *, of_network: bool
) -> LinearProbe | NetworkClassifier | None:
    if of_network:
        if embedder.trained.network.classifier is None:
            raise file.inconsistent("its network has no classifier to give labels")
        return NetworkClassifier()
    if "probe.weight" not in file.tensors:
        return None
    poses, classes = embedder.views.n_poses, len(embedder.trained.classes)
    dim = embedder.trained.network.feature_dim
    return LinearProbe(
        file.tensor("probe.weight", torch.float32, poses, classes, dim),
        file.tensor("probe.bias", torch.float32, poses, classes),
    )


def _references(file: TensorFile, embedder: ViewEmbedder, paths: tuple[str, ...]) -> References:
    labels, dim = _labels(file, "references", len(paths), embedder), embedder.trained.embedding_dim
    pictures = file.tensor("references.thumbnails", torch.uint8, None).numpy().tobytes()
    bounds = [0, *file.tensor("references.ends", torch.int64, len(paths)).tolist()]
    if bounds != sorted(bounds) or bounds[-1] != len(pictures):
        raise file.inconsistent("the thumbnails do not follow one another")
    return References(
        file.tensor("references.embeddings", torch.float16, len(paths), dim),
        labels,
        paths,
        tuple(pictures[start:end] for start, end in pairwise(bounds)),
    )


def _calibration(
    file: TensorFile, embedder: ViewEmbedder, false_alarms: float | None
) -> Calibration | None:
    if false_alarms is None:
        return None
    scores = file.tensor("calibration.scores", torch.float64, None)
    ascending = (scores.diff() >= 0).all()
    if not 0 < false_alarms < 1 or len(scores) == 0 or not ascending:
        raise file.inconsistent(
            f"{len(scores)} scores and false_alarms={false_alarms:g} are no calibration"
        )
    if "calibration.labels" not in file.tensors:
        return Calibration(scores, false_alarms)
    labels = _labels(file, "calibration", len(scores), embedder)
    return Calibration(scores, false_alarms, labels)


def _labels(file: TensorFile, what: str, images: int, embedder: ViewEmbedder) -> Tensor:
    """Return the labels of so many images, each the number of a class."""
    labels = file.tensor(f"{what}.labels", torch.int64, images)
    classes = len(embedder.trained.classes)
    if not ((labels >= 0) & (labels < classes)).all():
        raise file.inconsistent(f"{what}.labels has labels that are none of {classes} classes")
    return labels
