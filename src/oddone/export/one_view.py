"""A detector without Self-Ensemble Inference: one view of each image, for an eighth of the time."""

from dataclasses import replace

from oddone.data import ImageSet
from oddone.density import Gaussians
from oddone.detector import Detector, LinearProbe
from oddone.progress import Progress
from oddone.transforms import one_view


def without_sei(detector: Detector, images: ImageSet, progress: Progress | None = None) -> Detector:
    """Return a detector that looks at images as they are, with a threshold for what it then says.

    One that looks at no other view stays as it is. Scores by one view have another mean and
    deviation than those by all. So where several rules are summed, they are standardised anew, and
    the threshold is set anew.

    Parameters
    ----------
    detector
        The detector with all of its views.
    images
        Normal images that were not trained on.
    progress
        Called with how many images are done.

    """
    if detector.embedder.views == one_view:
        return detector
    gaussians, classifier, n_classes = (
        detector.gaussians,
        detector.classifier,
        len(detector.classes),
    )
    tied = len(gaussians.whitening) < len(gaussians.mean)
    upright = Gaussians(
        gaussians.mean[:n_classes],
        gaussians.whitening if tied else gaussians.whitening[:n_classes],
    )
    if isinstance(classifier, LinearProbe):
        classifier = LinearProbe(classifier.weight[:1], classifier.bias[:1])
    single = replace(
        detector,
        embedder=replace(detector.embedder, views=one_view),
        gaussians=upright,
        classifier=classifier,
        calibration=None,
        stages=(),
    )
    if len(single.rules) > 1:
        single = single.standardise(images, progress=progress)
    before = detector.calibration
    if before is None:
        return single
    return single.calibrate(
        images,
        false_alarms=before.false_alarms,
        per_class=before.labels is not None,
        progress=progress,
    )
