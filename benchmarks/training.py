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
from dataclasses import replace
from pathlib import Path

import torch

from measure import compare, print_comparisons, print_profile, profile_of, seconds_of, write_record
from oddone.data import load
from oddone.presets import cpu
from oddone.training.allocator import keep_freed_memory
from oddone.training.loop import _Trainer
from oddone.training.run_directory import RunDirectory

ENCODERS = {"resnet10-w16": 8, "resnet10-w32": 6}  # and how many steps in a row
ROUNDS = 5
NAMES = {"ours": "training step", "peer": "bare forward and backward"}


def main() -> None:
    """Measure, print and record."""
    settings, source = cpu(), load("fashion", size=32)
    keep_freed_memory()
    comparisons, profile = [], {}
    for encoder, in_a_row in ENCODERS.items():
        chosen = replace(settings, model=replace(settings.model, encoder=encoder))
        with tempfile.TemporaryDirectory() as folder:
            run = RunDirectory.create(Path(folder) / "run", chosen, {})
            trainer = _Trainer.start(source, chosen, run)
            compared, shares = measure(trainer, in_a_row)
        print(f"\n{encoder}")
        print_comparisons(compared)
        comparisons += [{"encoder": encoder, **row} for row in compared]
        if encoder == settings.model.encoder:
            profile = shares
    print_profile("the preset's step", profile)
    views = settings.views * settings.batch.images * settings.poses_per_image
    for row in comparisons:
        row["views_per_second"] = round(views / row["our_milliseconds"] * 1e3)
    write_record(
        "training",
        seed=settings.seed,
        packages=[],
        preset="cpu",
        views_per_step=views,
        rounds=ROUNDS,
        speed=comparisons,
        profile=profile,
    )


def measure(trainer: _Trainer, in_a_row: int) -> tuple[list[dict[str, object]], dict[str, float]]:
    """Return the rate of the step over that of the bare network, twice, and a profile.

    Several steps are timed in a row, so that the batch that is made ahead is paid for by a step.
    """
    ready = trainer.batches.make(0, trainer.device).images
    trainer.network.train()

    def bare() -> None:
        for _ in range(in_a_row):
            trainer.optimiser.zero_grad()
            trainer.network(ready).embeddings.square().mean().backward()

    with ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(1,)) as worker:
        coming = [worker.submit(trainer.batches.make, 0, trainer.device)]

        def steps() -> None:  # as the loop does it
            for _ in range(in_a_row):
                batch = coming.pop().result()
                coming.append(worker.submit(trainer.batches.make, trainer.step + 1, trainer.device))
                trainer.one_step(batch)

        tasks = {NAMES["ours"]: steps, NAMES["peer"]: bare}
        alone = compare(seconds_of(tasks, ROUNDS), **NAMES)
        with busy_program():
            beside = compare(seconds_of(tasks, ROUNDS), **NAMES)
        profile = profile_of(steps, repeats=1)
    beside["ours"] += ", one core busy"
    for row in (alone, beside):
        row["our_milliseconds"] = round(row["our_milliseconds"] / in_a_row, 1)
        row["peer_milliseconds"] = round(row["peer_milliseconds"] / in_a_row, 1)
    return [alone, beside], profile


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
