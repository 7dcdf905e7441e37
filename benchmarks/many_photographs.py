"""Fit a detector to ever more photographs: processor time and memory.

    python benchmarks/many_photographs.py DIR

DIR holds train/ with one folder per class, as for photographs.py. Its pictures are cut and saved
again, each time elsewhere, until there are as many as wanted; each number of them is fitted by a
fresh process with an empty cache. Private memory is what the process has to itself; resident memory
also counts pages of the cached pixels, which the system takes back when it needs them. Linux only.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from PIL import Image

from measure import write_measurements
from photographs import FIT

NUMBERS = (1_000, 10_000)
ENCODER, SIZE = "efficientnet-lite0", 224
KEPT = 0.8  # of height and width of a picture, at least
SECONDS_BETWEEN = 0.05


def main(folder: str) -> None:
    """Measure, print and record."""
    rows = []
    for number in NUMBERS:
        with TemporaryDirectory() as work:
            write_cut_copies(Path(folder) / "train", Path(work) / "photos", number)
            rows.append({"photographs": number, **measure_fit(Path(work))})
        print(json.dumps(rows[-1]), flush=True)
    write_measurements(
        "many_photographs",
        arguments="DIR",
        seed=0,
        packages=["numpy", "pillow"],
        encoder=ENCODER,
        image_size=SIZE,
        rows=rows,
    )


def write_cut_copies(source: Path, target: Path, number: int) -> None:
    """Write so many pictures, each a random cut of one of the source's, in its class's folder."""
    originals, random = sorted(source.glob("*/*")), np.random.default_rng(0)
    for place in range(number):
        original = originals[place % len(originals)]
        path = target / original.parent.name / f"{place:06}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        with Image.open(original) as picture:
            size = np.array(picture.size)
            cut = (size * random.uniform(KEPT, 1, 2)).astype(int)
            left, top = random.integers(0, size - cut + 1)
            picture.crop((left, top, left + cut[0], top + cut[1])).save(path, quality=90)


def measure_fit(work: Path) -> dict[str, Any]:
    """Return seconds, processor time and the most memory of fitting what is in work/photos."""
    seconds = work / "seconds.json"
    arguments = (work / "photos", ENCODER, SIZE, False, work / "detector.oddone", seconds)
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", FIT, *map(str, arguments)],
        env={**os.environ, "ODDONE_CACHE": str(work / "cache")},
        stderr=subprocess.DEVNULL,
    )
    private = resident = 0.0
    while process.poll() is None:
        private = max(private, _mebibytes(process.pid, "RssAnon"))
        resident = max(resident, _mebibytes(process.pid, "VmHWM"))
        time.sleep(SECONDS_BETWEEN)
    if process.returncode != 0:
        raise SystemExit(f"fitting failed with exit code {process.returncode}")
    elapsed, processor = json.loads(seconds.read_text())
    return {
        "seconds": round(elapsed, 1),
        "processor_seconds": round(processor, 1),
        "private_mebibytes": round(private, 1),
        "resident_mebibytes": round(resident, 1),
    }


def _mebibytes(process: int, name: str) -> float:
    """Return a line of a process's status, or 0 where it has just ended."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    found = [line for line in lines if line.startswith(f"{name}:")]
    return int(found[0].split()[1]) / 1024 if found else 0.0


if __name__ == "__main__":
    main(*sys.argv[1:])
