"""How long `oddone score` takes from its start to the first row of a folder of 200,000 files.

Each round is a process of its own, as a command is: Python and torch are imported, the detector is
opened, the folder listed, and the first batch decoded and scored.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from engines import peak_mebibytes_here, write_detector, write_photos
from measure import write_measurements

FILES = 200_000
ROUNDS = 3


def main() -> None:
    """Measure, print and record; with a detector and a folder, measure once and print."""
    if len(sys.argv) == 3:
        print(json.dumps(measure_here(*map(Path, sys.argv[1:]))))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_detector(folder / "detector.oddone")
        photos = write_photos(folder / "photos", FILES)
        rounds = [measure_apart(folder / "detector.oddone", photos) for _ in range(ROUNDS)]
    medians = {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}
    print(json.dumps(medians, indent=2))
    write_measurements(
        "first_verdict",
        seed=0,
        packages=["numpy"],
        files=FILES,
        rounds=rounds,
        median=medians,
        load_average=[round(load, 1) for load in os.getloadavg()],
    )


def measure_apart(detector: Path, photos: Path) -> dict[str, float]:
    """Return what a fresh process measures, and the seconds from its start to its end."""
    began = time.monotonic()
    command = [sys.executable, __file__, str(detector), str(photos)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    return {"seconds": round(time.monotonic() - began, 1), **json.loads(done.stdout)}


def measure_here(detector: Path, photos: Path) -> dict[str, Any]:
    """Return CPU seconds until the first verdict, those of the listing, and the memory."""
    from oddone.cli.loading import open_detector  # noqa: PLC0415  (imports are measured too)
    from oddone.data import stream  # noqa: PLC0415

    opened = open_detector(detector)
    before, before_listing = peak_mebibytes_here(), time.process_time()
    pictures = stream([str(photos)], size=opened.image_size)
    listed = time.process_time()
    taken = peak_mebibytes_here() - before
    next(iter(opened.score(pictures)))
    measured = {
        "cpu_seconds": round(time.process_time(), 1),
        "cpu_seconds_of_listing": round(listed - before_listing, 2),
        "mebibytes_of_listing": round(taken, 1),
        "mebibytes": round(peak_mebibytes_here(), 1),
    }
    pictures.close()
    return measured


if __name__ == "__main__":
    main()
