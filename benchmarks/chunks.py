"""A batch in chunks (`batch.chunk`) against a whole one: the peak of memory in training.

Each takes two steps in a process of its own. The first is without what every later one finds: the
momentum of the weights and the gradient of the step before. Beside them is what the features and
embeddings of all rows take.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from measure import write_measurements
from oddone.data import ImageSet
from oddone.presets import paper
from processes import seconds_of_steps

CHUNK = 256
SIZES = (("resnet18", 8, 256, 8192), ("resnet18", 32, 256, 8192))
"""Encoder, image size, rows of the whole batch, and rows of the batch in chunks."""
ROWS_PER_IMAGE = 8
STEPS = 2


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and record; or be one of the processes that are measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memory", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--size", type=int, help="of images, in pixels; by default several")
    parser.add_argument("--rows", type=int, help="in chunks, with --size")
    chosen = parser.parse_args(arguments)
    if chosen.memory is not None:
        encoder, size, rows, chunk = chosen.memory
        print(json.dumps(memory_of_steps(encoder, int(size), int(rows), int(chunk) or None)))
        return
    sizes, words = SIZES, ""
    if chosen.size is not None:
        sizes = ((SIZES[0][0], chosen.size, CHUNK, chosen.rows),)
        words = f"--size {chosen.size} --rows {chosen.rows}"
    memory = [compare_memory(*each) for each in sizes]
    print(json.dumps(memory, indent=2))
    write_measurements("chunks", seed=0, packages=[], arguments=words, chunk=CHUNK, memory=memory)


def memory_of_steps(encoder: str, size: int, rows: int, chunk: int | None) -> dict[str, Any]:
    """Return the peak of memory by the end of each step, in mebibytes, and how long they take."""
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
    before, peaks = _memory("VmRSS"), []

    def note_peak() -> None:
        peaks.append(_memory("VmHWM") - before)

    seconds = seconds_of_steps(settings, source, STEPS, after_step=note_peak)
    return {"mebibytes": peaks, "seconds": seconds}


def compare_memory(encoder: str, size: int, whole_rows: int, rows: int) -> dict[str, Any]:
    """Return the memory of a batch in chunks beside that of a whole batch of one chunk's size."""
    whole = _memory_alone(encoder, size, whole_rows, 0)
    chunked = _memory_alone(encoder, size, rows, CHUNK)
    numbers = 512 + 128  # of the features and of the embeddings of a row
    return {
        "encoder": encoder,
        "image_size": size,
        "whole_rows": whole_rows,
        "whole_first_step_mebibytes": round(whole["mebibytes"][0], 1),
        "whole_mebibytes": round(whole["mebibytes"][-1], 1),
        "rows": rows,
        "chunked_first_step_mebibytes": round(chunked["mebibytes"][0], 1),
        "chunked_mebibytes": round(chunked["mebibytes"][-1], 1),
        "embeddings_mebibytes": round(4 * numbers * rows / 2**20, 1),
        "seconds": round(statistics.median(chunked["seconds"]), 1),
    }


def _memory_alone(encoder: str, size: int, rows: int, chunk: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--memory", encoder, str(size), str(rows), str(chunk)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _memory(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) / 1024


if __name__ == "__main__":
    main()
