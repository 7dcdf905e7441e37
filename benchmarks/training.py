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
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import torch

from measure import compare, print_comparisons, print_profile, profile_of, seconds_of, write_record
from oddone.data import load
from oddone.presets import cpu
from oddone.training.allocator import keep_freed_memory
from oddone.training.loop import _Trainer
from oddone.training.run_directory import RunDirectory

ROUNDS, IN_A_ROW = 9, 8


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
    ready = trainer.batches.make(0, trainer.device).images
    trainer.network.train()

    def bare() -> None:
        trainer.optimiser.zero_grad()
        trainer.network(ready).embeddings.square().mean().backward()

    with ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(1,)) as worker:
        coming = [worker.submit(trainer.batches.make, 0, trainer.device)]

        def step() -> None:  # as the loop does it
            batch = coming.pop().result()
            coming.append(worker.submit(trainer.batches.make, trainer.step + 1, trainer.device))
            trainer.one_step(batch)

        # Several of a kind in a row, so that the batch that is made ahead is paid for by a step.
        tasks = {
            "training step": lambda: [step() for _ in range(IN_A_ROW)],
            "bare forward and backward": lambda: [bare() for _ in range(IN_A_ROW)],
        }
        alone = seconds_of(tasks, ROUNDS)
        with busy_program():
            beside = seconds_of(tasks, ROUNDS)
        profile = profile_of(step, repeats=5)
    names = {"ours": "training step", "peer": "bare forward and backward"}
    comparisons = [compare(alone, **names), compare(beside, **names)]
    comparisons[1]["ours"] += ", one core busy"
    for row in comparisons:
        row["our_milliseconds"] = round(row["our_milliseconds"] / IN_A_ROW, 1)
        row["peer_milliseconds"] = round(row["peer_milliseconds"] / IN_A_ROW, 1)
    return comparisons, profile


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
