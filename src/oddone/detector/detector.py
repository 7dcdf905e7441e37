"""The detector: images in, verdicts out."""

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from oddone.data import ImageSet, load
from oddone.data.decode import Progress
from oddone.data.stream import Source
from oddone.density import Gaussians, Moments, Shrinkage
from oddone.detector.calibration import Calibration
from oddone.detector.references import (
    Neighbour,
    References,
    as_thumbnail,
    choose_references,
)
from oddone.detector.view_encoder import Pixels, Space, ViewEncoder, as_tensor, batches_of
from oddone.errors import DataError, SettingsError, SettingsWarning
from oddone.fusion import Fuse, PerView, Verdicts, decide, harmonic
from oddone.training import TrainedNetwork
from oddone.transforms import MakeViews, eight_turns, one_view

MOST_REFERENCES = 5000
IMAGES_PER_MOMENTS = 1024


class Explanation(NamedTuple):
    """Why an image got its verdict."""

    score: float
    label: int
    anomalous: bool
    p_value: float | None
    """The share of normal images that are this odd or odder; None without a calibration."""
    distances: Float[Tensor, "views classes"]
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


@dataclass(frozen=True, eq=False)
class Detector:
    """A classifier that knows when it is looking at something it has never seen."""

    encoder: ViewEncoder
    gaussians: Gaussians
    """One per (pose, class)."""
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
        only: Int[np.ndarray, " some"] | None = None,
        views: MakeViews = eight_turns,
        fuse: Fuse = harmonic,
        space: Space = "head",
        shrinkage: Shrinkage = "oas",
        tied: bool = False,
        progress: Progress | None = None,
    ) -> "Detector":
        """Return a detector: one Gaussian per (pose, class) of the un-augmented training images.

        `only` are the numbers of the images to fit on, all by default. The images are read once,
        a batch at a time.
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
        _check_classes(source, trained)
        only = _numbers(source, only)
        encoder = ViewEncoder(trained, views, space)
        moments, references = _one_pass(encoder, source, only, progress)
        gaussians = Gaussians.fit(moments, shrinkage, tied, _group_names(moments, trained.classes))
        return Detector(
            encoder,
            gaussians.to(encoder.device, torch.float32),
            fuse,
            references,
        )

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
        return replace(self, gaussians=self.gaussians.to(device))

    def __call__(self, images: Pixels | np.ndarray) -> Verdicts:
        """Return the verdicts on images of the encoder's size: uint8, or floats from 0 to 1."""
        return decide(self.fuse(self._distances(images)), self.threshold)

    def calibrate(
        self,
        source: ImageSet | str,
        *,
        false_alarms: float = 0.05,
        only: Int[np.ndarray, " some"] | None = None,
        progress: Progress | None = None,
    ) -> "Detector":
        """Return a detector with a threshold that flags this share of normal images.

        The source holds normal images that were not trained on; their labels do not matter.
        """
        source = _loaded(source, self.encoder.trained)
        only = _numbers(source, only)
        scores = [torch.empty(0)]
        for _, images in batches_of(source.images, only, self.encoder.images_at_once):
            scores.append(self(images).scores)
            if progress is not None:
                progress(sum(map(len, scores)), len(only), "calibrating")
        calibration = Calibration.of(torch.cat(scores), false_alarms)
        return replace(self, calibration=calibration)

    def p_values(self, scores: Float[Tensor, " images"]) -> Float[Tensor, " images"]:
        """Return the share of normal images that are this odd or odder, for each score."""
        if self.calibration is None:
            raise SettingsError("p-values need a calibration; use detector.calibrate(source) first")
        return self.calibration.p_values(scores)

    def explain(self, images: Pixels | np.ndarray, neighbours: int = 3) -> list[Explanation]:
        """Return for each image its distance per view and class, and similar training images."""
        distances, heads = [], []
        for batch in self._batches(images):
            encoded = self.encoder(batch)
            distances.append(self._measured(encoded.embeddings, encoded.poses))
            heads.append(encoded.heads)
        per_view = torch.cat(distances, dim=1).cpu()
        verdicts = decide(self.fuse(per_view), self.threshold)
        p_values = (
            [None] * len(verdicts.scores)
            if self.calibration is None
            else self.p_values(verdicts.scores).tolist()
        )
        near = self.references.nearest(torch.cat(heads), neighbours)
        return [
            Explanation(
                verdicts.scores[image].item(),
                int(verdicts.labels[image]),
                bool(verdicts.anomalous[image]),
                p_values[image],
                per_view[:, image],
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

    def _distances(self, images: Pixels | np.ndarray) -> PerView:
        """Return the distance of every view of every image to every class."""
        parts = []
        for batch in self._batches(images):
            encoded = self.encoder(batch)
            parts.append(self._measured(encoded.embeddings, encoded.poses))
        return torch.cat(parts, dim=1).cpu()

    def _batches(self, images: Pixels | np.ndarray) -> tuple[Tensor, ...]:
        images = as_tensor(images)
        self.encoder.check(images)
        batches: tuple[Tensor, ...] = images.split(self.encoder.images_at_once)
        return batches  # one empty batch where there are no images

    @torch.no_grad()
    def _measured(
        self, embeddings: Float[Tensor, "views images dim"], poses: Int[Tensor, " views"]
    ) -> PerView:
        views, images = embeddings.shape[:2]
        n_poses = len(self.gaussians.mean) // len(self.classes)
        rows = embeddings.flatten(0, 1)
        distances = self.gaussians.pose_distances(rows, poses.repeat_interleave(images), n_poses)
        return distances.reshape(views, images, len(self.classes))


def _loaded(source: ImageSet | str, trained: TrainedNetwork) -> ImageSet:
    if isinstance(source, str):
        return load(source, size=trained.image_size)
    return source


def _check_classes(source: ImageSet, trained: TrainedNetwork) -> None:
    if source.classes != trained.classes:
        raise DataError(
            f"the classes of the images are {_listed(source.classes)}, and the encoder was trained "
            f"on {_listed(trained.classes)}; fit on the images it was trained on"
        )


def _listed(classes: tuple[str, ...]) -> str:
    shown = ", ".join(classes[:5]) or "none"
    return f"{shown} and {len(classes) - 5} more" if len(classes) > 5 else shown


def _numbers(source: ImageSet, only: Int[np.ndarray, " some"] | None) -> Int[np.ndarray, " some"]:
    """Return the numbers of the images that are meant, which by default are all."""
    if only is None:
        return np.arange(len(source))
    if not np.issubdtype(only.dtype, np.integer):
        raise SettingsError(f"only holds {only.dtype}; pass the numbers of the images to use")
    outside = only[(only < 0) | (only >= len(source))]
    if len(outside) > 0:
        raise SettingsError(
            f"only holds {outside[0]}, and the {len(source)} images are numbered from 0"
        )
    return only


def _one_pass(
    encoder: ViewEncoder,
    source: ImageSet,
    only: Int[np.ndarray, " some"],
    progress: Progress | None,
) -> tuple[Moments, References]:
    """Return the moments of every (pose, class), and the images to remember."""
    classes = len(encoder.trained.classes)
    labels = source.labels[only]
    _check_labels(labels, classes)
    chosen = choose_references(labels, MOST_REFERENCES, encoder.trained.settings.seed)
    moments: Moments | None = None
    heads = []
    for start in range(0, len(only), IMAGES_PER_MOMENTS):
        part = only[start : start + IMAGES_PER_MOMENTS]
        remembered = chosen[(chosen >= start) & (chosen < start + len(part))] - start
        encoded = [
            encoder(images) for _, images in batches_of(source.images, part, encoder.images_at_once)
        ]
        here = _moments(
            torch.cat([batch.embeddings for batch in encoded], dim=1),
            encoded[0].poses,
            torch.from_numpy(source.labels[part]),
            classes,
        )
        moments = here if moments is None else moments + here
        heads.append(torch.cat([batch.heads for batch in encoded])[remembered])
        if progress is not None:
            progress(start + len(part), len(only), "fitting")
    assert moments is not None  # noqa: S101  (there is at least one image)
    return moments, References(
        torch.cat(heads).half().cpu(),
        torch.from_numpy(labels[chosen]),
        tuple(source.paths[number] for number in only[chosen]),
        tuple(as_thumbnail(source.images[number]) for number in only[chosen]),
    )


def _check_labels(labels: Int[np.ndarray, " images"], classes: int) -> None:
    if len(labels) == 0:
        raise DataError("0 images are too few to fit on; give at least 2 of each class")
    strange = int(((labels < 0) | (labels >= classes)).sum())
    if strange > 0:
        raise DataError(
            f"{strange} of {len(labels)} images have no label of the {classes} classes that the "
            f"encoder was trained on; fit on images with labels"
        )


def _moments(
    embeddings: Float[Tensor, "views images dim"],
    poses: Int[Tensor, " views"],
    labels: Int[Tensor, " images"],
    classes: int,
) -> Moments:
    """Return the moments of the views; a mirrored view belongs to the group of its turn."""
    groups = poses.cpu()[:, None] * classes + labels
    rows = embeddings.flatten(0, 1).cpu()  # in float64, which not every device has
    return Moments.of(rows, groups.flatten(), (int(poses.max()) + 1) * classes)


def _group_names(moments: Moments, classes: tuple[str, ...]) -> list[str]:
    n_poses = len(moments.count) // len(classes)
    turned = [f" turned by {90 * pose} degrees" if pose else "" for pose in range(n_poses)]
    return [f"{name}{how}" for how in turned for name in classes]
