"""Training on several processes: how fast two are beside one, and what chunks save.

- Two processes with one thread each, against one process with two threads: rows a second. Programs
  are started in turn, several times, and each counts only its steps.
- A batch in chunks (`batch.chunk`) against a whole one: the peak of memory, each in a process of its
  own, and what the rows themselves take (their pixels as bytes, features and embeddings).
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
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from measure import write_measurements
from oddone import distributed
from oddone.data import ImageSet, load
from oddone.device import keep_freed_memory
from oddone.presets import mcl, paper
from oddone.training import RunDirectory, TrainSettings
from oddone.training.batches import Batches
from oddone.training.initialise import initial_network
from oddone.training.loop import _StepRunner, _Trainer

ROUNDS = 3
STEPS = 12
WARM_UP = 3
CHUNK = 256
MEMORY = (("resnet18", 32, 256, 1024), ("resnet18", 8, 256, 8192))
"""Encoder, image size, rows of the whole batch, and rows of the batch in chunks."""
ROWS_PER_IMAGE = 8


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and record; or be one of the processes that are measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps-in-parts", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--memory", nargs=4, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.steps_in_parts is not None:
        print(json.dumps(rows_per_second(chosen.steps_in_parts)))
    elif chosen.memory is not None:
        encoder, size, rows, chunk = chosen.memory
        print(json.dumps(memory_of_step(encoder, int(size), int(rows), int(chunk) or None)))
    else:
        speed = [compare_processes(parts) for parts in (1, 2)]
        memory = [compare_memory(*each) for each in MEMORY]
        print(json.dumps([*speed, *memory], indent=2))
        write_measurements("processes", seed=0, packages=[], speed=speed, memory=memory)


# --- Two processes beside two threads ---------------------------------------------------------


def rows_per_second(parts: int) -> float:
    """Return the rows a second of this process and those it has joined, by the median step."""
    keep_freed_memory()
    with distributed.joined():
        settings = mcl()
        settings = replace(settings, batch=replace(settings.batch, parts=parts))
        seconds = seconds_of_steps(settings, load("fashion", size=32), WARM_UP + STEPS)
        rows = settings.views * settings.poses_per_image * settings.batch.images
        return rows / statistics.median(seconds[WARM_UP:])


def seconds_of_steps(settings: TrainSettings, source: ImageSet, steps: int) -> list[float]:
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


# --- Batches larger than memory ---------------------------------------------------------------


def memory_of_step(encoder: str, size: int, rows: int, chunk: int | None) -> dict[str, float]:
    """Return how much memory a step takes at its peak, in mebibytes, and how long."""
    torch.set_num_threads(1)
    settings = paper()
    settings = replace(
        settings,
        held_out=0.0,
        model=replace(settings.model, encoder_name=encoder),
        batch=replace(settings.batch, images=rows // ROWS_PER_IMAGE, chunk=chunk),
    )
    pixels = np.random.default_rng(0).integers(0, 255, (rows // 4, 3, size, size), dtype=np.uint8)
    labels = np.arange(len(pixels)) % 10
    names = tuple(f"class {label}" for label in range(10))
    source = ImageSet(pixels, labels, names, [str(label) for label in labels], "noise")
    before = _memory("VmRSS")
    (seconds,) = seconds_of_steps(settings, source, 1)
    return {"mebibytes": _memory("VmHWM") - before, "seconds": seconds}


def compare_memory(encoder: str, size: int, whole_rows: int, rows: int) -> dict[str, Any]:
    """Return the memory of a batch in chunks beside that of a whole batch of one chunk's size."""
    whole = _memory_alone(encoder, size, whole_rows, 0)
    chunked = _memory_alone(encoder, size, rows, CHUNK)
    numbers = 512 + 128  # of the features and of the embeddings of a row
    return {
        "encoder": encoder,
        "image_size": size,
        "chunk": CHUNK,
        "whole_rows": whole_rows,
        "whole_mebibytes": round(whole["mebibytes"], 1),
        "rows": rows,
        "chunked_mebibytes": round(chunked["mebibytes"], 1),
        "embeddings_mebibytes": round(4 * numbers * rows / 2**20, 1),
        "seconds": round(chunked["seconds"], 1),
    }


def _memory_alone(encoder: str, size: int, rows: int, chunk: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--memory", encoder, str(size), str(rows), str(chunk)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _memory(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) / 1024


if __name__ == "__main__":
    main()
