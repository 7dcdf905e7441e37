"""A bench of toy size: every method trains in a moment."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from oddone.bench import TABLES, Bench, BenchImages, Record, Scale, sample
from oddone.bench.tables import scaling
from oddone.data import ImageSet
from oddone.data.cifar import CIFAR10
from oddone.encoders import TrainedNetwork
from oddone.training import Outcome, RunDirectory, TrainSettings, train_network
from runs import scale_of, tiny_settings, tiny_source

TRAINING = 60  # nearest neighbours ask for 50


def toy_scale(steps: int = 2) -> Scale:
    """Return a scale in which every network has so many steps."""
    return scale_of(tiny_settings(steps=steps, checkpoint_seconds=60.0), "toy")


TOY_TABLES = TABLES | {"scaling": scaling((1.0, 2.0))}
SECONDS_PER_STEP = 40.0
"""So that a minute of two cores pays for three steps."""


def toy_sets(*oods: str, outliers: bool = True) -> BenchImages:
    """Return images of ten classes, and OOD sets of these names that have other images."""
    names = oods or ("svhn", "cifar100", "textures")
    return BenchImages(
        known(TRAINING, seed=0),
        sample(known(20, seed=1), None),
        {name: sample(odd(12, seed), None) for seed, name in enumerate(names, start=2)},
        odd(12, 99) if outliers else None,
    )


def known(images: int, seed: int) -> ImageSet:
    """Return images whose classes are called like those of CIFAR-10."""
    return replace(tiny_source(images, classes=10, seed=seed), classes=CIFAR10.classes)


def odd(images: int, seed: int) -> ImageSet:
    """Return images whose colours are those of no class, without labels."""
    source = tiny_source(images, classes=10, seed=seed)
    return replace(source, images=255 - source.images, labels=source.labels * 0 - 1, classes=())


class Counting:
    """Training that counts, and can be told to stop after some networks."""

    def __init__(self, networks: int | None = None) -> None:
        self.trained: list[Path] = []
        self.networks = networks

    def __call__(
        self,
        source: ImageSet,
        settings: TrainSettings,
        run: RunDirectory,
        /,
        *,
        start: TrainedNetwork | None,
        outliers: ImageSet | None,
    ) -> Outcome:
        self.trained.append(run.path)
        stop = self.networks is not None and len(self.trained) > self.networks
        return train_network(
            source, settings, run, start=start, outliers=outliers, stop=lambda: stop
        )


class Toys(NamedTuple):
    """All tables of toy size, and what filled them."""

    bench: Bench
    train: Counting
    records: dict[str, Record]


def toy_bench(folder: Path, train: Counting, sets: BenchImages | None = None) -> Bench:
    """Return a bench of toy size."""
    return Bench(
        folder, sets or toy_sets(), toy_scale(), train, measure=lambda *_: SECONDS_PER_STEP
    )


def toy_record(bench: Bench, table: str, seeds: int = 1) -> Record:
    """Return the record of a table that the bench fills."""
    filled = bench.fill(TOY_TABLES[table], seeds)
    return Record.of(
        TOY_TABLES[table], bench.scale, seeds, bench.sets, filled, command="oddone bench"
    )
