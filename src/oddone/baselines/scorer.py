"""What every baseline is in the end: a scorer, from a batch of images to verdicts."""

from collections.abc import Callable
from dataclasses import dataclass

from oddone.scoring import ImageBatch
from oddone.verdicts import Verdicts


@dataclass(frozen=True, eq=False)
class BaselineScorer:
    """A way to score images of the network's size; see `oddone.scoring.Scorer`.

    Examples
    --------
    >>> import torch
    >>> def darkness(images):
    ...     return Verdicts(-images.float().mean(dim=(1, 2, 3)), torch.zeros(len(images)).long())
    >>> scorer = BaselineScorer(darkness, image_size=8, batch_size=32)
    >>> scorer(torch.zeros(2, 3, 8, 8, dtype=torch.uint8)).labels
    tensor([0, 0])

    """

    score_batch: Callable[[ImageBatch], Verdicts]
    """From a batch of images to verdicts."""
    image_size: int
    """Height and width of the images."""
    batch_size: int
    """How many images make a good batch."""

    def __call__(self, images: ImageBatch) -> Verdicts:
        return self.score_batch(images)
