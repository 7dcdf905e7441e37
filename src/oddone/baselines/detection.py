"""The detector of this package, as one method among the others."""

from jaxtyping import UInt8
from torch import Tensor

from oddone.baselines.judging import Judge, Judged, in_batches
from oddone.detector import Detector


def detection(detector: Detector) -> Judge:
    """Return the judge that says what the detector says."""

    def judge_batch(images: UInt8[Tensor, "images 3 height width"]) -> Judged:
        verdicts = detector(images)
        return Judged(verdicts.scores, verdicts.labels)

    return in_batches(judge_batch, detector.encoder.images_at_once)
