"""How the rows of a table score images: by distances to classes, or by a baseline."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from oddone.api import fit_run
from oddone.bench.distances import NumberOfViews, Representation, class_distances
from oddone.data import ImageSet
from oddone.detector import DetectorSettings, Space
from oddone.detector.rules import StandardisedRule
from oddone.encoders import TrainedNetwork
from oddone.fusion import Fuse, average, decide
from oddone.progress import Progress
from oddone.scoring import Scorer, score_images
from oddone.training import RunDirectory
from oddone.transforms import moved_and_mirrored
from oddone.verdicts import Verdicts


@dataclass(frozen=True)
class ClassDistance:
    """The distance to the nearest class, which is also the label: the paper's rule."""

    n_views: NumberOfViews = 1
    fuse: Fuse = average  # of one view, every fusion is the same
    space: Space = "head"

    @property
    def representation(self) -> Representation:
        return Representation(self.n_views, self.space)

    @property
    def description(self) -> str:
        distance = f"distance to the nearest class by its Gaussian, {self.space}"
        fusion = self.fuse.__name__.replace("_", "-")
        return distance if self.n_views == 1 else f"{distance}, {self.n_views} views, {fusion}"


@dataclass(frozen=True)
class Baseline:
    """Another method of `oddone.baselines`."""

    description: str
    build: Callable[[TrainedNetwork, ImageSet, Progress], Scorer]
    """From a network, its training images, and who is told how far that is, to a scorer."""


@dataclass(frozen=True)
class AsTrained:
    """The detector that `oddone train` makes of the network's run."""

    description: str = "the detector of oddone train"

    def of(self, run: RunDirectory) -> Baseline:
        """Return the rule for the network of one run."""
        return Baseline(
            self.description,
            lambda _, training, progress: fit_run(run, training, progress=progress),
        )


UPRIGHT_MEAN = DetectorSettings(
    views=moved_and_mirrored,
    space="features",
    tied=True,
    rules=(StandardisedRule("mean_embedding"),),
)
"""What the preset cpu measures beside its energy: the mean of upright views, by one covariance."""

ScoringRule = ClassDistance | Baseline

VerdictsBySet = Mapping[str, Verdicts]
"""Verdicts by the name of the set of images."""


def score_sets(
    trained: TrainedNetwork,
    training: ImageSet,
    sets: Mapping[str, ImageSet],
    rules: list[ScoringRule],
    progress: Progress,
) -> dict[ScoringRule, VerdictsBySet]:
    """Return the verdicts of each rule on all images of the sets."""
    representations = [rule.representation for rule in rules if isinstance(rule, ClassDistance)]
    distances = (
        class_distances(trained, training, sets, representations, progress)
        if representations
        else {}
    )
    verdicts: dict[ScoringRule, VerdictsBySet] = {}
    for rule in rules:
        if isinstance(rule, ClassDistance):
            by_set = distances[rule.representation]
            verdicts[rule] = {name: decide(rule.fuse(each)) for name, each in by_set.items()}
        else:
            scorer = rule.build(trained, training, progress)
            verdicts[rule] = {
                name: score_images(
                    scorer, images, progress=progress, description=f"{rule.description}: {name}"
                )
                for name, images in sets.items()
            }
    return verdicts
