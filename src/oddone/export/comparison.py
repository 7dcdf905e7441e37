"""How the verdicts of a file differ from those of the detector that it was made from."""

from dataclasses import dataclass
from typing import NamedTuple

import torch

from oddone.export.onnx_detector import OnnxDetector
from oddone.metrics import auroc
from oddone.scoring import ImageBatch
from oddone.verdicts import Verdicts


@dataclass(frozen=True, eq=False)
class OnnxScorer:
    """An exported file as a `Scorer`, to be compared with a detector."""

    opened: OnnxDetector

    @property
    def image_size(self) -> int:
        """Height and width of the images that it takes."""
        return self.opened.image_size

    @property
    def batch_size(self) -> int:
        """How many images make a good batch."""
        return self.opened.batch_size

    def __call__(self, images: ImageBatch) -> Verdicts:
        """Return the verdicts on a batch of images."""
        outputs = self.opened.run(images.permute(0, 2, 3, 1).contiguous().numpy())
        tensors = {name: torch.from_numpy(values) for name, values in outputs.items()}
        return Verdicts(
            tensors["score"],
            tensors["label"],
            tensors.get("anomalous"),
            tensors.get("p_value"),
            tensors["probabilities"],
        )


class VerdictChange(NamedTuple):
    """How many of some images have another verdict, and how far scores are off."""

    images: int
    verdicts: int | None
    """Normal instead of anomalous, or the other way round; None without a threshold."""
    labels: int
    median_score: float
    largest_score: float
    """The difference of the scores, relative to the score of the detector."""

    @staticmethod
    def of(before: Verdicts, after: Verdicts) -> "VerdictChange":
        """Return the change from some verdicts to others on the same images."""
        changed = None
        if before.anomalous is not None and after.anomalous is not None:
            changed = int((before.anomalous != after.anomalous).sum())
        scores = before.scores.double()
        smallest = torch.finfo(torch.float32).tiny
        relative = (after.scores.double() - scores).abs() / scores.abs().clamp(min=smallest)
        return VerdictChange(
            len(before),
            changed,
            int((before.labels != after.labels).sum()),
            float(relative.median()),
            float(relative.max()),
        )

    def describe(self) -> str:
        """Return the change in words."""
        found = [f"{self.labels:,} labels"]
        if self.verdicts is not None:
            found = [f"{self.verdicts:,} verdicts", *found]
        return (
            f"of {self.images:,} images, {' and '.join(found)} are others than the detector's; "
            f"scores differ by {self.median_score:.2g} (median) to {self.largest_score:.2g} of "
            f"their value"
        )


class AurocChange(NamedTuple):
    """How well images of no known class are told, by the detector and by the file."""

    name: str
    before: float
    after: float

    @staticmethod
    def of(
        name: str, ind: tuple[Verdicts, Verdicts], ood: tuple[Verdicts, Verdicts]
    ) -> "AurocChange":
        """Return the AUROC of the verdicts before and after, on normal and on OOD images."""
        before, after = (
            auroc(of_ind.scores, of_ood.scores) for of_ind, of_ood in zip(ind, ood, strict=True)
        )
        return AurocChange(name, before, after)

    def describe(self) -> str:
        """Return the change in words."""
        points = 100 * (self.after - self.before)
        return (
            f"AUROC against {self.name}: {self.after:.2%}, and {self.before:.2%} by the detector "
            f"({points:+.2f} points)"
        )
