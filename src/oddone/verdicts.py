"""What is thought of images: one type for the detector and for every method it is compared with."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from oddone.verdict import Verdict


@dataclass(frozen=True, eq=False)
class Verdicts:
    """What is thought of some images. `verdicts[3]` is the `Verdict` on one of them.

    Examples
    --------
    >>> import torch
    >>> verdicts = Verdicts(scores=torch.tensor([1.0, 5.0]), labels=torch.tensor([0, 1]))
    >>> [verdict.label for verdict in verdicts if verdict.score > 2]
    [1]

    """

    scores: Float[Tensor, " images"]
    """The anomaly scores: higher = more anomalous, always."""
    labels: Int[Tensor, " images"]
    """The classes they look like, whether or not they are anomalous."""
    anomalous: Bool[Tensor, " images"] | None = None
    """Whether the scores exceed the threshold; None without a threshold."""
    p_values: Float[Tensor, " images"] | None = None
    """The shares of normal images that are at least as anomalous; None without a calibration."""
    probabilities: Float[Tensor, "images classes"] | None = None
    """How likely each class is, if it is one of them at all; None where that is not known."""

    def __len__(self) -> int:
        return len(self.scores)

    def __getitem__(self, index: int) -> Verdict:
        return Verdict(
            self.scores[index].item(),
            int(self.labels[index]),
            None if self.anomalous is None else bool(self.anomalous[index]),
            None if self.p_values is None else self.p_values[index].item(),
            None if self.probabilities is None else self.probabilities[index],
        )

    def __iter__(self) -> Iterator[Verdict]:
        return (self[index] for index in range(len(self)))

    @staticmethod
    def concatenate(parts: Sequence["Verdicts"]) -> "Verdicts":
        """Return the verdicts on all images of the parts, in order, on the CPU."""
        if not parts:
            return Verdicts(torch.empty(0), torch.empty(0, dtype=torch.long))
        return Verdicts(
            torch.cat([part.scores.cpu() for part in parts]),
            torch.cat([part.labels.cpu() for part in parts]),
            _joined([part.anomalous for part in parts]),
            _joined([part.p_values for part in parts]),
            _joined([part.probabilities for part in parts]),
        )


def exceeds(scores: Float[Tensor, " images"], threshold: float) -> Bool[Tensor, " images"]:
    """Return which scores are above the threshold; one that is no number always is.

    Of such an image nothing is known, least of all that it is normal.
    """
    return (scores > threshold) | ~scores.isfinite()


def _joined(values: Sequence[Tensor | None]) -> Tensor | None:
    """Return the values of all parts; None unless every part has some."""
    known = [value.cpu() for value in values if value is not None]
    return torch.cat(known) if len(known) == len(values) else None
