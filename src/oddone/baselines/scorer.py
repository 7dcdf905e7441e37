"""What every baseline is in the end: a scorer, from a batch of images to verdicts."""

from collections.abc import Callable
from dataclasses import dataclass

from oddone.scoring import ImageBatch
from oddone.verdicts import Verdicts


@dataclass(frozen=True, eq=False)
class BaselineScorer:
    """A way to score images of the network's size; see `oddone.scoring.Scorer`."""

    score_batch: Callable[[ImageBatch], Verdicts]
    image_size: int
    batch_size: int

    def __call__(self, images: ImageBatch) -> Verdicts:
        return self.score_batch(images)
