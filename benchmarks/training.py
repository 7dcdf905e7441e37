"""The whole training step against the bare network, alone and beside a busy program.

The bare network runs forward and backward on tensors that are ready, all rows at once, with all of
torch's threads; the step also picks, rotates, crops and colours its images, computes the MCL loss
and updates the weights. It takes the rows in parts (docs/decisions/0009).
"""

import os

os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # as the command line does

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch

from measure import (
    compare,
    print_comparisons,
    print_profile,
    profile_of,
    seconds_of,
    write_measurements,
)
from oddone.data import load
from oddone.device import keep_freed_memory
from oddone.presets import cpu
from oddone.training import RunDirectory
from oddone.training.batches import Batches, colour_views
from oddone.training.initialise import initial_network
from oddone.training.loop import _StepRunner, _Trainer


class Effort(NamedTuple):
    """How much is measured."""

    in_a_row: int
    rounds: int


ENCODERS = {
    "resnet10-w16": Effort(8, 15),
    "resnet10-w32": Effort(4, 11),
    "resnet18": Effort(1, 5),  # a step takes seconds
}
NAMES = {"ours": "training step", "peer": "bare forward and backward"}


def main() -> None:
    """Measure, print and record."""
    settings, source = cpu(), load("fashion", size=32)
    keep_freed_memory()
    comparisons, profile = [], {}
    for encoder, effort in ENCODERS.items():
        chosen = replace(settings, model=replace(settings.model, encoder_name=encoder))
        with tempfile.TemporaryDirectory() as folder:
            run = RunDirectory.create(Path(folder) / "run", chosen, {})
            network = initial_network(source, chosen)
            trainer = _Trainer.resume(network, Batches(source, chosen), chosen, run)
            compared, shares = measure(trainer, effort)
        print(f"\n{encoder}")
        print_comparisons(compared)
        comparisons += [{"encoder": encoder, "rounds": effort.rounds, **row} for row in compared]
        if encoder == settings.model.encoder_name:
            profile = shares
    print_profile("the preset's step", profile)
    views = settings.views * settings.batch.images * settings.poses_per_image
    for row in comparisons:
        row["views_per_second"] = round(views / row["our_milliseconds"] * 1e3)
    write_measurements(
        "training",
        seed=settings.seed,
        packages=[],
        preset="cpu",
        views_per_step=views,
        speed=comparisons,
        profile=profile,
    )


def measure(trainer: _Trainer, effort: Effort) -> tuple[list[dict[str, object]], dict[str, float]]:
    """Return the rate of the step over that of the bare network, and a profile.

    Several steps are timed in a row, so that the batch that is made ahead is paid for by a step.
    """
    ready = colour_views(trainer.batches.make(0, trainer.device).views)
    trainer.network.train()

    threads = torch.get_num_threads()

    def bare() -> None:
        before = torch.get_num_threads()
        torch.set_num_threads(threads)  # all of them; a step has other uses for some
        for _ in range(effort.in_a_row):
            trainer.optimiser.zero_grad()
            trainer.network(ready).embeddings.square().mean().backward()
        torch.set_num_threads(before)

    with trainer._worker_threads() as workers:
        runner = _StepRunner(trainer, workers)

        def steps() -> None:
            for _ in range(effort.in_a_row):
                runner.next()

        tasks = {NAMES["ours"]: steps, NAMES["peer"]: bare}
        compared = [compare(seconds_of(tasks, effort.rounds), **NAMES)]
        with busy_program():
            compared.append(compare(seconds_of(tasks, effort.rounds), **NAMES))
        compared[-1]["ours"] += ", one core busy"
        profile = profile_of(steps, repeats=1)
    for row in compared:
        row["our_milliseconds"] = round(row["our_milliseconds"] / effort.in_a_row, 1)
        row["peer_milliseconds"] = round(row["peer_milliseconds"] / effort.in_a_row, 1)
    return compared, profile


@contextmanager
def busy_program() -> Iterator[None]:
    """Keep one core busy with something else."""
    program = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        program.kill()
        program.wait()


if __name__ == "__main__":
    main()
