"""The long form of tests/faults: what oddone was put through, and what of it it did not survive.

python benchmarks/torture.py [SHARE [PART]]

SHARE is how much of the long form is tried: 1 unless set. PART chooses tests as pytest's -k does,
such as kill or "not kill", so that parts can be tried one after the other; each leaves a record of
its own in results/.
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from measure import RESULTS, write_measurements

TESTS = "tests/faults"


def main(share: str = "1", part: str = "") -> int:
    """Try everything, print and record the figures, and return the exit code of pytest."""
    with tempfile.TemporaryDirectory() as folder:
        figures = Path(folder) / "figures.jsonl"
        figures.touch()
        code = subprocess.run(  # noqa: S603
            [sys.executable, "-m", "pytest", TESTS, "-q", "-k", part],
            cwd=RESULTS.parent,
            env={
                **os.environ,
                "ODDONE_TORTURE": str(float(share)),
                "ODDONE_TORTURE_FIGURES": str(figures),
            },
            check=False,
        ).returncode
        sums = summed([json.loads(line) for line in figures.read_text().splitlines()])
    print_sums(sums)
    write_measurements(
        "torture",
        kind="reliability",
        seed=0,
        packages=["numpy", "pillow", "safetensors", "pyarrow"],
        arguments=shlex.join([share, part] if part else [share]),
        share=float(share),
        part=part,
        passed=code == 0,
        trials=sums,
    )
    return code


def summed(figures: Sequence[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Return how many trials of each name were made, and how many failed, sorted by name."""
    sums: dict[str, dict[str, int]] = {}
    for line in sorted(figures, key=lambda line: str(line["name"])):
        row = sums.setdefault(line["name"], {"tried": 0, "failed": 0})
        for column in row:
            row[column] += line[column]
    return sums


def print_sums(sums: dict[str, dict[str, int]]) -> None:
    """Print one line for each name, and one for all."""
    print(f"\n{'':<40}{'tried':>10}{'failed':>10}")
    for name, row in sums.items():
        print(f"{name:<40}{row['tried']:>10,}{row['failed']:>10,}")
    tried, failed = (sum(row[column] for row in sums.values()) for column in ("tried", "failed"))
    print(f"{'all':<40}{tried:>10,}{failed:>10,}")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
