"""Run the demo and record what it reaches.

    python benchmarks/demo.py DIR

DIR is kept: run again, training goes on where it stopped.
"""

import os

os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # as the command line does

import sys
import time
from pathlib import Path

from measure import write_measurements
from oddone.cli.demo import compare
from oddone.evaluation import as_json
from oddone.presets import demo


def main(folder: str) -> None:
    """Train, measure, print and record."""
    began = time.monotonic()
    settings = demo()
    _, results = compare(Path(folder), settings)
    minutes = (time.monotonic() - began) / 60
    for name, result in results.items():
        odd = "  ".join(f"{ood} {o.metrics.auroc:.1%}" for ood, o in result.oods.items())
        print(f"{name}: accuracy {result.accuracy:.1%}  {odd}")
    print(f"{minutes:.1f} minutes in all")
    write_measurements(
        "demo",
        kind="quality",
        arguments="DIR",
        seed=settings.seed,
        packages=["numpy", "scikit-learn"],
        minutes_per_network=settings.minutes,
        minutes_in_all=round(minutes, 1),
        results={name: as_json(result) for name, result in results.items()},
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
