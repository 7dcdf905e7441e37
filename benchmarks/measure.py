"""How the benchmarks measure: interleaved rounds, peak memory in fresh processes, records."""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from oddone.files import write_dated_json
from oddone.provenance import machine, now, versions

RESULTS = Path(__file__).parent.parent / "results"


def seconds_of(tasks: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Return the duration of each task in each round; in a round every task runs once.

    What slows the machine down for a while then slows all tasks, and their ratios stand.
    """
    for task in tasks.values():
        task()  # the first call pays for memory and threads
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(rounds):
        for name, task in tasks.items():
            start = time.perf_counter()
            task()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def compare(seconds: dict[str, list[float]], *, ours: str, peer: str) -> dict[str, Any]:
    """Return how many times as fast we are as the peer: the median and quartiles over rounds."""
    ratios = [theirs / our for our, theirs in zip(seconds[ours], seconds[peer], strict=True)]
    low, median, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return {
        "ours": ours,
        "peer": peer,
        "our_milliseconds": round(statistics.median(seconds[ours]) * 1e3, 1),
        "peer_milliseconds": round(statistics.median(seconds[peer]) * 1e3, 1),
        "times_as_fast": round(median, 2),
        "quartiles": [round(low, 2), round(high, 2)],
    }


def profile_of(task: Callable[[], object], repeats: int) -> dict[str, float]:
    """Return the share of the time that each torch operation takes, the ten largest."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        for _ in range(repeats):
            task()
    events = sorted(profiler.key_averages(), key=lambda event: -event.self_cpu_time_total)
    total = sum(event.self_cpu_time_total for event in events)
    return {event.key: round(event.self_cpu_time_total / total, 3) for event in events[:10]}


def print_profile(name: str, shares: dict[str, float]) -> None:
    """Print where the time of a task goes."""
    listed = ", ".join(f"{operation} {share:.0%}" for operation, share in shares.items())
    print(f"\nwhere {name} spends its time: {listed}")


def peak_mebibytes(script: str, *arguments: str) -> float:
    """Return the peak resident memory of a fresh interpreter that runs the script (Linux only).

    Read from VmHWM: `getrusage` would start from the memory of the process that forked it.
    """
    report = "print(next(line for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    command = [sys.executable, "-c", f"{script}\n{report}", *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    kibibytes = int(done.stdout.split()[-2])
    return round(kibibytes / 1024, 1)


def write_measurements(
    name: str,
    *,
    seed: int,
    packages: Sequence[str],
    kind: str = "speed",
    arguments: str = "",
    **content: object,
) -> None:
    """Write a record of what was measured, on what and with what, into results/.

    `arguments` are those of the command, with DIR for every folder of the machine.
    """
    record = {
        "name": name,
        "command": f"python benchmarks/{name}.py {arguments}".strip(),
        "date": now(),
        "seed": seed,
        "machine": asdict(machine()),
        "versions": versions(*packages),
        **content,
    }
    path = write_dated_json(RESULTS, f"{kind}-{name}", record)
    print(f"\nwritten to {path.relative_to(RESULTS.parent)}")


def print_comparisons(comparisons: Sequence[dict[str, Any]]) -> None:
    """Print one line per comparison."""
    print(f"{'ours':<28}{'ms':>10}   {'peer':<42}{'ms':>10}   {'times as fast':<14}quartiles")
    for row in comparisons:
        low, high = row["quartiles"]
        print(
            f"{row['ours']:<28}{row['our_milliseconds']:>10.1f}   "
            f"{row['peer']:<42}{row['peer_milliseconds']:>10.1f}   "
            f"{row['times_as_fast']:<14.2f}{low:.2f} to {high:.2f}"
        )
