"""What a step of training costs in processor time, so that minutes become a number of steps.

A minute by the clock is worth less where others use the machine too, and no two runs are then
alike. Processor time counts only what the network itself has used. It is measured once for each
recipe, before anything is trained, and kept: from then on a budget in minutes is a number of steps,
the same whenever, wherever and beside whatever else the network is trained.
"""

import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import msgspec
import torch

from oddone.bench.recipes import Plan
from oddone.data import ImageSet
from oddone.errors import ArtifactError, SettingsError
from oddone.files import lock_folder, read_regular, write_json
from oddone.provenance import machine, now
from oddone.training import RunDirectory, StepReport, TrainSettings, train_network
from oddone.training.batches import Batches
from oddone.training.settings import LENGTHS
from oddone.training.settings_file import to_dict

CORES = 2
"""A minute of a budget is one of so many cores."""
ROUNDS, STEPS, WARM_UP = 3, 12, 4
"""Each recipe takes so many steps in each round, of which the first are not counted."""
LARGEST = 2**16  # bytes


@dataclass(frozen=True)
class StepCost:
    """What a step of a recipe costs."""

    name: str
    """Of the recipe, for who reads the file."""
    processor_seconds: Annotated[float, msgspec.Meta(gt=0)]
    """Of one core."""
    processor: str
    date: str

    def steps_in(self, minutes: float) -> int:
        """Return how many steps so many minutes pay for."""
        return max(1, round(60 * CORES * minutes / self.processor_seconds))


Measure = Callable[[Plan, ImageSet, ImageSet | None], float]
"""From a plan, its training images and its outliers to the processor seconds of a step."""


def measure_step(wanted: Plan, training: ImageSet, outliers: ImageSet | None) -> float:
    """Return the processor seconds of a step, by taking some on one thread.

    Only one: threads that wait for each other use processor time for nothing.
    """
    settings = replace(wanted.settings, steps=STEPS, minutes=None, epochs=None)
    read: list[float] = []

    def watch(_report: StepReport) -> None:
        read.append(time.process_time())

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with tempfile.TemporaryDirectory() as folder:
            run = RunDirectory.create(Path(folder) / "run", settings, {})
            train_network(training, settings, run, outliers=outliers, watch=watch)
    finally:
        torch.set_num_threads(threads)
    return median(after - before for before, after in pairwise(read[WARM_UP - 1 :]))


class StepCosts:
    """The costs that are known, in a folder: one file for each recipe."""

    def __init__(
        self, folder: Path, training: ImageSet, outliers: ImageSet | None, measure: Measure
    ) -> None:
        self.folder = folder
        self.training = training
        self.outliers = outliers
        self.measure = measure

    def path_of(self, wanted: Plan) -> Path:
        """Return the file of a plan's cost: that of all plans but for their length and seed.

        Where there are fewer images than a batch has, a step takes those, and costs less.
        """
        settings = wanted.settings
        images = Batches(self.training, settings).images_per_step
        outliers = wanted.outliers and min(images, len(self.outliers or ()))
        cut = replace(settings, batch=settings.batch.of_images(max(2, images)))
        decisive = [without_length(to_dict(cut)), self.training.images.shape[1:], outliers]
        text = json.dumps(decisive, sort_keys=True)
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"

    def known(self, wanted: Plan) -> StepCost | None:
        """Return what a step of a plan costs, if that was measured."""
        path = self.path_of(wanted)
        if not path.is_file():
            return None
        try:
            return msgspec.json.decode(read_regular(path, LARGEST), type=StepCost)
        except msgspec.MsgspecError as error:
            raise ArtifactError(
                f"{path} is damaged ({error}); remove that file, to measure anew"
            ) from error

    def adopt(self, wanted: Plan, cost: StepCost) -> None:
        """Keep what a step costs by an earlier record, so that minutes are the same as there."""
        kept, path = self.known(wanted), self.path_of(wanted)
        if kept is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_json(path, msgspec.to_builtins(cost))
        elif kept.processor_seconds != cost.processor_seconds:
            raise SettingsError(
                f"{path} says that a step of {wanted.name} costs {kept.processor_seconds:.3g} "
                f"seconds, and the earlier record of {cost.date} {cost.processor_seconds:.3g}, so "
                f"that their minutes are not the same; leave the record out, or choose another "
                f"--out"
            )

    def find(self, plans: Sequence[Plan], announce: Callable[[str], None]) -> None:
        """Measure what is not known yet: in turns, and the least of several rounds.

        Others who use the machine can only lengthen a step, and in turns they lengthen all alike.
        Where other recipes have a cost already, perhaps of a faster machine, one of them is
        measured again, and all costs are scaled so that its own stays: minutes are then the same.
        """
        missing = {self.path_of(each): each for each in plans if self.known(each) is None}
        if not missing:
            return
        announce(f"measuring what a step costs: {len(missing)} recipes")
        self.folder.mkdir(parents=True, exist_ok=True)
        with lock_folder(self.folder):
            kept = next(((each, cost) for each in plans if (cost := self.known(each))), None)
            least = self._least_seconds([*missing.values(), *(kept[:1] if kept else ())])
            scale = kept[1].processor_seconds / least[self.path_of(kept[0])] if kept else 1.0
            for path, wanted in missing.items():
                cost = StepCost(wanted.name, scale * least[path], machine().processor, now())
                write_json(path, msgspec.to_builtins(cost))

    def _least_seconds(self, plans: Sequence[Plan]) -> dict[Path, float]:
        """Return the least that a step of each plan cost in several rounds."""
        seconds: Mapping[Path, list[float]] = {self.path_of(each): [] for each in plans}
        for _ in range(ROUNDS):
            for each in plans:
                outliers = self.outliers if each.outliers else None
                seconds[self.path_of(each)].append(self.measure(each, self.training, outliers))
        return {path: min(each) for path, each in seconds.items()}


def without_length(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that decide what a step costs: all but length and seed."""
    ignored = {*LENGTHS, "seed", "checkpoint_seconds"}
    return {name: value for name, value in settings.items() if name not in ignored}


def in_steps(settings: TrainSettings, cost: StepCost) -> TrainSettings:
    """Return settings whose length is a number of steps instead of minutes."""
    assert settings.minutes is not None  # noqa: S101  (only such plans have a cost)
    return replace(settings, minutes=None, steps=cost.steps_in(settings.minutes))
