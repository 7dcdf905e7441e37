"""How the rows of a table judge images: by distances to classes, or by a baseline."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from oddone.baselines import Judge, Judged
from oddone.bench.distances import Look, Ways, distances_of
from oddone.data import ImageSet
from oddone.detector import Space
from oddone.fusion import Fuse, average, decide
from oddone.progress import Progress
from oddone.training import TrainedNetwork


@dataclass(frozen=True)
class Distance:
    """The distance to the nearest class, which is also the label (the paper's way)."""

    ways: Ways = 1
    fuse: Fuse = average  # of one view, every fusion is the same
    space: Space = "head"

    @property
    def look(self) -> Look:
        return Look(self.ways, self.space)

    @property
    def words(self) -> str:
        """How it judges, for people."""
        distance = f"distance to the nearest class by its Gaussian, {self.space}"
        return distance if self.ways == 1 else f"{distance}, {self.ways} views, {self._fusion}"

    @property
    def _fusion(self) -> str:
        return self.fuse.__name__.replace("_", "-")


@dataclass(frozen=True)
class Baseline:
    """A way to judge that is not the paper's."""

    words: str
    judge: Callable[[TrainedNetwork, ImageSet], Judge]
    """From a network and its training images."""


How = Distance | Baseline

Verdicts = Mapping[str, Judged]
"""Scores and labels by the name of the set of images."""


def judge_all(
    trained: TrainedNetwork,
    training: ImageSet,
    sets: Mapping[str, ImageSet],
    hows: list[How],
    progress: Progress,
) -> dict[How, Verdicts]:
    """Return what each way of judging thinks of all images of the sets."""
    looks = [how.look for how in hows if isinstance(how, Distance)]
    distances = distances_of(trained, training, sets, looks, progress) if looks else {}
    verdicts: dict[How, Verdicts] = {}
    for how in hows:
        if isinstance(how, Distance):
            decided = {name: decide(how.fuse(far)) for name, far in distances[how.look].items()}
            verdicts[how] = {
                name: Judged(found.scores, found.labels) for name, found in decided.items()
            }
        else:
            verdicts[how] = _by_baseline(how, trained, training, sets, progress)
    return verdicts


def _by_baseline(
    how: Baseline,
    trained: TrainedNetwork,
    training: ImageSet,
    sets: Mapping[str, ImageSet],
    progress: Progress,
) -> Verdicts:
    judge = how.judge(trained, training)
    verdicts = {}
    for done, (name, images) in enumerate(sets.items(), start=1):
        verdicts[name] = judge(images.images)
        progress(done, len(sets), how.words)
    return verdicts
