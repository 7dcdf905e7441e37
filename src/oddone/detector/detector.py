"""The detector: images in, verdicts out."""

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from oddone.data import ImageSet, load
from oddone.data.stream import Source
from oddone.density import Gaussians, Shrinkage
from oddone.detector.calibration import Calibration
from oddone.detector.fitting import fit_statistics, names_of_groups
from oddone.detector.probe import LinearProbe
from oddone.detector.references import Neighbour, References
from oddone.detector.view_embedder import (
    EncodedViews,
    Pixels,
    Space,
    ViewEmbedder,
    as_tensor,
    batches_of,
)
from oddone.device import map_in_threads
from oddone.errors import SettingsError, SettingsWarning
from oddone.fusion import Fuse, PerView, Verdicts, decide, harmonic
from oddone.progress import Progress
from oddone.training import TrainedNetwork
from oddone.transforms import MakeViews, one_view, rotations_and_mirrors

Names = Literal["linear", "nearest"]


class Explanation(NamedTuple):
    """Why an image got its verdict."""

    score: float
    label: int
    anomalous: bool
    p_value: float | None
    """The share of normal images that are this odd or odder; None without a calibration."""
    distances: Float[Tensor, "views classes"]
    """How far each view is from each class; the score is the smallest after fusion."""
    probabilities: Float[Tensor, " classes"]
    """How likely each class is, if it is one of them at all."""
    neighbours: tuple[Neighbour, ...]


class Scored(NamedTuple):
    """What is thought of a picture, or why nothing is."""

    path: str
    label: str | None
    """The name of the nearest class, whether or not the picture is anomalous."""
    score: float | None
    p_value: float | None
    """The share of normal images that are this odd or odder; None without a calibration."""
    anomalous: bool | None
    """None without a calibration."""
    reason: str | None
    """Why it cannot be read, in which case all other verdicts are None."""
    neighbours: tuple[Neighbour, ...] = ()


class _Measured(NamedTuple):
    """All that is measured of some images."""

    distances: PerView
    probabilities: Float[Tensor, "images classes"]
    heads: Float[Tensor, "images head_dim"]


@dataclass(frozen=True, eq=False)
class Detector:
    """A classifier that knows when it is looking at something it has never seen."""

    encoder: ViewEmbedder
    gaussians: Gaussians
    """One per (pose, class), to measure how odd an image is."""
    probe: LinearProbe | None
    """What says which class it is; None: the nearest, as in the paper."""
    fuse: Fuse
    references: References
    calibration: Calibration | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """Where the detector comes from: versions, command, data."""

    @staticmethod
    def fit(  # noqa: PLR0913  (all but two are choices with a default)
        trained: TrainedNetwork,
        source: ImageSet | str,
        *,
        indices: Int[np.ndarray, " some"] | None = None,
        views: MakeViews = rotations_and_mirrors,
        fuse: Fuse = harmonic,
        space: Space = "head",
        shrinkage: Shrinkage = "oas",
        tied: bool = False,
        names: Names = "linear",
        progress: Progress | None = None,
    ) -> "Detector":
        """Return a detector: one Gaussian per (pose, class) of the un-augmented training images.

        `only` are the numbers of the images to fit on, all by default. The images are read once,
        a batch at a time. With names="nearest", the label is the class whose distance is the
        score, as in the paper; a linear classifier on the same encoder's features is more often
        right (docs/decisions/0008-names-by-a-linear-classifier.md).
        """
        if views is not one_view and trained.settings.rotations != "task":
            name = getattr(views, "__name__", "any other")
            warnings.warn(
                f"the encoder was trained with rotations={trained.settings.rotations!r}, so it "
                f"cannot tell turns apart and views={name} will make it worse; use one_view, or "
                f"train with rotations='task'",
                SettingsWarning,
                stacklevel=2,
            )
        source = _loaded(source, trained)
        indices = checked_indices(source, indices)
        encoder = ViewEmbedder(trained, views, space)
        statistics = fit_statistics(encoder, source, indices, progress)
        group_names = names_of_groups(statistics.moments, trained.classes)
        gaussians = Gaussians.fit(statistics.moments, shrinkage, tied, group_names)
        probe = None
        if names == "linear":
            poses = encoder.poses.cpu()
            probe = LinearProbe.fit(
                statistics.features, poses, statistics.labels, len(trained.classes)
            )
        return Detector(
            encoder,
            gaussians.to(dtype=torch.float32),
            probe,
            fuse,
            statistics.references,
        ).to(encoder.device)

    def save(self, path: Path | str) -> None:
        """Write the detector to one file, with all that is needed to judge images."""
        from oddone.detector.artifact import save_detector  # noqa: PLC0415  (which imports this)

        save_detector(path, self)

    @staticmethod
    def load(path: Path | str, *, body: nn.Module | None = None) -> "Detector":
        """Return the detector in a file, on the CPU.

        One whose encoder has a `body` of your own needs such a body again.
        """
        from oddone.detector.artifact import load_detector  # noqa: PLC0415  (which imports this)

        return load_detector(path, body=body)

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the labels."""
        return self.encoder.trained.classes

    @property
    def image_size(self) -> int:
        """Height and width of the images that the encoder sees."""
        return self.encoder.trained.image_size

    @property
    def threshold(self) -> float:
        """The score above which an image is anomalous; without a calibration none is."""
        return float("inf") if self.calibration is None else self.calibration.threshold

    def to(self, device: torch.device | str) -> "Detector":
        """Return the detector on another device; its network moves there."""
        self.encoder.trained.network.to(device)
        probe = None if self.probe is None else self.probe.to(device)
        return replace(self, gaussians=self.gaussians.to(device), probe=probe)

    def __call__(self, images: Pixels | np.ndarray) -> Verdicts:
        """Return the verdicts on images of the encoder's size: uint8, or floats from 0 to 1.

        The score is the smallest of the `distances`; the label is the likeliest class.
        """
        return self._verdicts(self._measured(images))

    def calibrate(
        self,
        source: ImageSet | str,
        *,
        false_alarms: float = 0.05,
        indices: Int[np.ndarray, " some"] | None = None,
        progress: Progress | None = None,
    ) -> "Detector":
        """Return a detector with a threshold that flags this share of normal images.

        The source holds normal images that were not trained on; their labels do not matter.
        """
        source = _loaded(source, self.encoder.trained)
        indices = checked_indices(source, indices)
        scores = [torch.empty(0)]
        for _, images in batches_of(source.images, indices, self.encoder.images_at_once):
            scores.append(self(images).scores)
            if progress is not None:
                progress(sum(map(len, scores)), len(indices), "calibrating")
        calibration = Calibration.of(torch.cat(scores), false_alarms)
        return replace(self, calibration=calibration)

    def p_values(self, scores: Float[Tensor, " images"]) -> Float[Tensor, " images"]:
        """Return the share of normal images that are this odd or odder, for each score."""
        if self.calibration is None:
            raise SettingsError("p-values need a calibration; use detector.calibrate(source) first")
        return self.calibration.p_values(scores)

    def explain(self, images: Pixels | np.ndarray, neighbours: int = 3) -> list[Explanation]:
        """Return for each image its distance per view and class, and similar training images."""
        measured = self._measured(images)
        verdicts = self._verdicts(measured)
        p_values = (
            [None] * len(verdicts.scores)
            if self.calibration is None
            else self.p_values(verdicts.scores).tolist()
        )
        near = self.references.nearest(measured.heads, neighbours)
        return [
            Explanation(
                verdicts.scores[image].item(),
                int(verdicts.labels[image]),
                bool(verdicts.anomalous[image]),
                p_values[image],
                measured.distances[:, image],
                measured.probabilities[image],
                near[image],
            )
            for image in range(len(near))
        ]

    def score(
        self,
        source: Source,
        *,
        batch_size: int | None = None,
        neighbours: int = 0,
        progress: Progress | None = None,
    ) -> Iterator[Scored]:
        """Return the verdicts on pictures of any number, in order, as they are asked for.

        The source is what `oddone.data.load` takes, a folder or file of pictures, or several.
        Pictures are read and resized on the way; one that cannot be read comes with its reason.
        """
        from oddone.detector.scoring import score  # noqa: PLC0415  (which imports this)

        return score(self, source, batch_size, neighbours, progress)

    def _verdicts(self, measured: _Measured) -> Verdicts:
        decided = decide(self.fuse(measured.distances), self.threshold)
        return decided._replace(labels=measured.probabilities.argmax(dim=1))

    def _measured(self, images: Pixels | np.ndarray) -> _Measured:
        batches = map_in_threads(self._measured_batch, self._batches(images), self.encoder.device)
        return _Measured(
            torch.cat([batch.distances for batch in batches], dim=1).cpu(),
            torch.cat([batch.probabilities for batch in batches]).cpu(),
            torch.cat([batch.heads for batch in batches]),
        )

    @torch.no_grad()
    def _measured_batch(self, images: Pixels) -> _Measured:
        encoded = self.encoder(images)
        views = encoded.embeddings.shape[:2]
        rows, poses = encoded.embeddings.flatten(0, 1), encoded.poses.repeat_interleave(views[1])
        n_poses = len(self.gaussians.mean) // len(self.classes)
        distances = self.gaussians.pose_distances(rows, poses, n_poses)
        distances = distances.reshape(*views, len(self.classes))
        return _Measured(distances, self._probabilities(encoded, distances), encoded.heads)

    def _probabilities(
        self, encoded: EncodedViews, distances: PerView
    ) -> Float[Tensor, "images classes"]:
        if self.probe is not None:
            return self.probe.probabilities(encoded.features, encoded.poses)
        # Those of Gaussians of equal volume; the nearest is the likeliest.
        return (-self.fuse(distances).square() / 2).softmax(dim=1)

    def _batches(self, images: Pixels | np.ndarray) -> tuple[Tensor, ...]:
        images = as_tensor(images)
        self.encoder.check(images)
        at_once = max(1, self.encoder.images_at_once // 2)  # as two are judged side by side
        batches: tuple[Tensor, ...] = images.split(at_once)
        return batches  # one empty batch where there are no images


def _loaded(source: ImageSet | str, trained: TrainedNetwork) -> ImageSet:
    if isinstance(source, str):
        return load(source, size=trained.image_size)
    return source


def checked_indices(
    source: ImageSet, indices: Int[np.ndarray, " some"] | None
) -> Int[np.ndarray, " some"]:
    """Return the numbers of the images that are meant, which by default are all."""
    if indices is None:
        return np.arange(len(source))
    if not np.issubdtype(indices.dtype, np.integer):
        raise SettingsError(f"only holds {indices.dtype}; pass the numbers of the images to use")
    outside = indices[(indices < 0) | (indices >= len(source))]
    if len(outside) > 0:
        raise SettingsError(
            f"only holds {outside[0]}, and the {len(source)} images are numbered from 0"
        )
    return indices
