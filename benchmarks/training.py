"""The whole training step against the bare network, alone and beside a busy program.

The bare network runs forward and backward on tensors that are ready; the step also picks,
turns, crops and colours its images, computes the MCL loss and updates the weights.
"""

import os

os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # as the command line does

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from measure import compare, print_comparisons, print_profile, profile_of, seconds_of, write_record
from oddone.data import load
from oddone.presets import cpu
from oddone.training.allocator import keep_freed_memory
from oddone.training.loop import _Trainer
from oddone.training.run_directory import RunDirectory

ROUNDS = 25


def main() -> None:
    """Measure, print and record."""
    settings = cpu()
    source = load("fashion", size=32)
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as folder:
        run = RunDirectory.create(Path(folder) / "run", settings, {})
        trainer = _Trainer.start(source, settings, run)
        comparisons, profile = measure(trainer)
    print_comparisons(comparisons)
    print_profile("the step", profile)
    views = settings.views * settings.batch.images * settings.poses_per_image
    for row in comparisons:
        row["views_per_second"] = round(views / row["our_milliseconds"] * 1e3)
    write_record(
        "training",
        seed=settings.seed,
        packages=[],
        preset="cpu",
        encoder=settings.model.encoder,
        views_per_step=views,
        rounds=ROUNDS,
        speed=comparisons,
        profile=profile,
    )


def measure(trainer: _Trainer) -> tuple[list[dict[str, object]], dict[str, float]]:
    """Return the rate of the step over that of the bare network, twice, and a profile."""
    rows = trainer.batches.rows(0)
    ready = trainer.batches.images(0, rows, trainer.device)
    ready = ready.contiguous(memory_format=torch.channels_last)
    trainer.network.train()

    def bare() -> None:
        trainer.optimiser.zero_grad()
        trainer.network(ready).embeddings.square().mean().backward()

    tasks = {"training step": trainer.one_step, "bare forward and backward": bare}
    alone = seconds_of(tasks, ROUNDS)
    with busy_program():
        beside = seconds_of(tasks, ROUNDS)
    names = {"ours": "training step", "peer": "bare forward and backward"}
    comparisons = [compare(alone, **names), compare(beside, **names)]
    comparisons[1]["ours"] += ", one core busy"
    return comparisons, profile_of(trainer.one_step, repeats=5)


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
