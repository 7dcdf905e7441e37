"""What one of many processes holds and computes in a step: the gathered rows, and their loss.

The loss of 64 processes with 1,024 rows each is computed here as one of them would, on one core:
the rows of the others are copied in, as an all-gather would leave them, and the MCL loss of all
65,536 rows is taken with its gradient. Smaller groups give the constants of a model (time grows
with the square of the rows, memory with the rows), and the model's word for 64 is held against what
is measured. The all-gather itself is timed between two and four processes on this machine.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from measure import write_measurements
from oddone import distributed
from oddone.losses import MCLSettings, mcl_loss

DIM = 128
CLASSES = 10
ROWS_EACH = 1024
SMALL = (2, 4, 8)
"""How many processes the model is made from."""
LARGE = 64
REPEATS = 3
SEED = 0
SETTINGS = MCLSettings(alpha=0.01)
GATHERS = 20
GATHER_GROUPS = (2, 4)
BYTES_OF_FLOAT = 4


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and record; or be one of the processes that measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rank-of", type=int, metavar="PROCESSES", help=argparse.SUPPRESS)
    parser.add_argument("--gather", type=int, metavar="ROWS", help=argparse.SUPPRESS)
    parser.add_argument("--largest", type=int, default=LARGE, help="how many processes at most")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="of each smaller group")
    chosen = parser.parse_args(arguments)
    if chosen.rank_of is not None:
        print(json.dumps(step_of_rank(chosen.rank_of)))
    elif chosen.gather is not None:
        print(json.dumps(gather_seconds(chosen.gather)))
    else:
        record(chosen.largest, chosen.repeats)


def record(largest: int, repeats: int) -> None:
    """Measure groups of all sizes, and write what the model says of the largest beside it."""
    small = [measured(processes, repeats=repeats) for processes in SMALL]
    model = cost_model(small)
    large = measured(largest, repeats=1)
    predicted = model_of(model, largest * ROWS_EACH)
    for row in (*small, large):
        print(
            f"{row['processes']:>3} processes: {row['seconds']:.2f} s, {row['mebibytes']:.0f} MiB"
        )
    print(f"the model says {predicted['seconds']:.1f} s, {predicted['mebibytes']:.0f} MiB")
    write_measurements(
        "scale",
        seed=SEED,
        packages=[],
        arguments=f"--largest {largest} --repeats {repeats}",
        rows_each=ROWS_EACH,
        dim=DIM,
        threads=1,
        small=small,
        model=model,
        large={**large, "predicted": predicted},
        gather=[gather_between(processes) for processes in GATHER_GROUPS],
    )


# --- The loss of one process ------------------------------------------------------------------


def step_of_rank(processes: int) -> dict[str, Any]:
    """Return how long one of so many processes takes, and its memory before and at the peak."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(SEED)
    own = torch.randn(ROWS_EACH, DIM, generator=generator)
    mcl_loss(*_facts(own, generator), SETTINGS)  # the first call pays for libraries
    before = memory("VmRSS")
    began = time.process_time()  # of the processor: others may be busy meanwhile
    parts = [own.clone() for _ in range(processes)]  # what an all-gather leaves
    for part in parts[1:]:
        part.add_(torch.randn(1, DIM, generator=generator))
    gathered = torch.cat(parts).requires_grad_()
    copied = time.process_time()
    mcl_loss(*_facts(gathered, generator), SETTINGS).total.backward()
    ended = time.process_time()
    return {
        "processes": processes,
        "rows": len(gathered),
        "copy_seconds": copied - began,
        "seconds": ended - copied,
        "mebibytes": memory("VmHWM") - before,
    }


def _facts(rows: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
    """Return rows with labels, poses and parents as in a batch with all poses and two views."""
    parents = torch.arange(len(rows) // 2).repeat(2)
    images = parents // 4
    labels = torch.randint(CLASSES, (len(rows) // 8 + 1,), generator=generator)[images]
    return rows, labels, parents % 4, parents


def measured(processes: int, *, repeats: int) -> dict[str, Any]:
    """Return the median time and the memory of a process in a group, in fresh interpreters."""
    command = [sys.executable, __file__, "--rank-of", str(processes)]
    found = []
    for _ in range(repeats):
        done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
        found.append(json.loads(done.stdout.splitlines()[-1]))
    middle = {
        key: round(statistics.median(each[key] for each in found), 4)
        for key in ("copy_seconds", "seconds", "mebibytes")
    }
    return {"processes": processes, "rows": processes * ROWS_EACH, **middle}


def cost_model(small: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return seconds by rows squared, of the largest group, and memory by rows, of two groups."""
    first, last = small[0], small[-1]
    by_row = (last["mebibytes"] - first["mebibytes"]) / (last["rows"] - first["rows"])
    return {
        "nanoseconds_per_pair": round(1e9 * last["seconds"] / last["rows"] ** 2, 4),
        "bytes_per_row": round(by_row * 2**20, 1),
        "mebibytes_at_least": round(first["mebibytes"] - by_row * first["rows"], 1),
    }


def model_of(model: dict[str, float], rows: int) -> dict[str, float]:
    """Return what the model says of so many rows."""
    return {
        "seconds": round(model["nanoseconds_per_pair"] * rows**2 / 1e9, 2),
        "mebibytes": round(model["mebibytes_at_least"] + model["bytes_per_row"] * rows / 2**20, 1),
    }


def memory(name: str) -> float:
    """Return an entry of /proc/self/status in mebibytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) / 1024


# --- The all-gather ---------------------------------------------------------------------------


def gather_seconds(rows: int) -> list[float]:
    """Return how long this process waits for the rows of all, again and again."""
    torch.set_num_threads(1)
    seconds = []
    with distributed.joined():
        own = torch.zeros(rows, DIM)
        for _ in range(GATHERS):
            began = time.perf_counter()
            distributed.gather_rows(own)
            seconds.append(time.perf_counter() - began)
    return seconds


def gather_between(processes: int) -> dict[str, Any]:
    """Return the median time of an all-gather between processes, and its bytes a second."""
    by_rows = {rows: _median_gather(processes, rows) for rows in (1, ROWS_EACH)}
    received = (processes - 1) * ROWS_EACH * DIM * BYTES_OF_FLOAT
    return {
        "processes": processes,
        "bytes_received": received,
        "milliseconds": round(1e3 * by_rows[ROWS_EACH], 3),
        "milliseconds_of_one_row": round(1e3 * by_rows[1], 3),
        "gigabytes_per_second": round(received / by_rows[ROWS_EACH] / 1e9, 3),
    }


def _median_gather(processes: int, rows: int) -> float:
    with socket.socket() as listening:
        listening.bind(("localhost", 0))
        port = listening.getsockname()[1]
    shared = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    members = [
        subprocess.Popen(  # noqa: S603
            [sys.executable, __file__, "--gather", str(rows)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(processes)
    ]
    printed = [member.communicate()[0] for member in members]
    return statistics.median(json.loads(printed[0].splitlines()[-1])[1:])


if __name__ == "__main__":
    main()
