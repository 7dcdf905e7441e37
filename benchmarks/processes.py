"""Two processes with one thread each, against one process with two threads: rows a second.

Programs are started in turn, several times, and each counts only its steps.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from measure import write_measurements
from oddone import distributed
from oddone.data import ImageSet, load
from oddone.device import keep_freed_memory
from oddone.presets import mcl
from oddone.training import RunDirectory, TrainSettings
from oddone.training.batches import Batches
from oddone.training.initialise import initial_network
from oddone.training.loop import _StepRunner, _Trainer

ROUNDS = 3
STEPS = 8
WARM_UP = 3


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and record; or be one of the processes that are measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps-in-parts", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.steps_in_parts is not None:
        print(json.dumps(rows_per_second(chosen.steps_in_parts)))
    else:
        speed = [compare_processes(parts) for parts in (1, 2)]
        print(json.dumps(speed, indent=2))
        write_measurements("processes", seed=0, packages=[], speed=speed)


def rows_per_second(parts: int) -> float:
    """Return the rows a second of this process and those it has joined, by the median step."""
    keep_freed_memory()
    with distributed.joined():
        settings = mcl()
        settings = replace(settings, batch=replace(settings.batch, parts=parts))
        seconds = seconds_of_steps(settings, load("fashion", size=32), WARM_UP + STEPS)
        rows = settings.views * settings.poses_per_image * settings.batch.images
        return rows / statistics.median(seconds[WARM_UP:])


def seconds_of_steps(
    settings: TrainSettings,
    source: ImageSet,
    steps: int,
    *,
    after_step: Callable[[], None] = lambda: None,
) -> list[float]:
    """Return how long each of so many steps takes."""
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(distributed.from_first(lambda: folder)) / "run"
        run = RunDirectory.create(path, settings, {})
        network = initial_network(source, settings)
        trainer = _Trainer.resume(network, Batches(source, settings), settings, run)
        trainer.network.train()
        with trainer._worker_threads() as workers:
            runner = _StepRunner(trainer, workers)
            for _ in range(steps):
                began = time.perf_counter()
                runner.next()
                seconds.append(time.perf_counter() - began)
                after_step()
        distributed.largest(0.0)  # the first keeps the folder until all are done
    return seconds


def compare_processes(parts: int) -> dict[str, Any]:
    """Return how fast two processes are beside one with two threads, over several rounds."""
    one, two = [], []
    for _ in range(ROUNDS):
        one.append(_group(1, threads=2, parts=parts))
        two.append(_group(2, threads=1, parts=parts))
    low, ratio, high = statistics.quantiles(
        [several / alone for several, alone in zip(two, one, strict=True)], n=4, method="inclusive"
    )
    return {
        "encoder": mcl().model.encoder_name,
        "parts": parts,
        "rounds": ROUNDS,
        "rows_per_second_of_two_processes": round(statistics.median(two)),
        "rows_per_second_of_two_threads": round(statistics.median(one)),
        "ratio": round(ratio, 2),
        "quartiles": [round(low, 2), round(high, 2)],
    }


def _group(size: int, *, threads: int, parts: int) -> float:
    """Return the rows a second of a group of fresh processes."""
    with socket.socket() as listening:
        listening.bind(("localhost", 0))
        port = listening.getsockname()[1]
    shared = {"WORLD_SIZE": str(size), "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    members = [
        subprocess.Popen(  # noqa: S603
            [sys.executable, __file__, "--steps-in-parts", str(parts)],
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                **shared,
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "OMP_NUM_THREADS": str(threads),
                "GOMP_SPINCOUNT": "1000",  # as the command line does
            },
        )
        for rank in range(size)
    ]
    printed = [member.communicate()[0] for member in members]
    return float(json.loads(printed[0].splitlines()[-1]))


if __name__ == "__main__":
    main()
