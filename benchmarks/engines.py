"""Ray with two workers against the process that `oddone score` is without it.

Both score the same folder of small pictures into Parquet. What is timed is the work, from the first
picture to the last row: starting Ray, and importing torch in each process, are timed apart. Other
programs on the machine slow both down, so rounds alternate, and the ratio of each round counts.
The memory of a worker is its peak, for a tenth of the pictures and for all of them.
"""

import os

os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # as the command line does

import argparse
import hashlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from PIL import Image

from measure import write_measurements
from oddone.cli.loading import open_detector
from oddone.cli.score_parts import PartJob, score_in_parts, score_share
from oddone.cli.score_shares import ShareNote
from oddone.data import load
from oddone.data.stream import list_pieces
from oddone.detector import Detector, DetectorSettings
from oddone.encoders import load_network
from oddone.engines import MakeWorker, Summary
from oddone.engines.ray_data import _import_ray, _start, run_on_ray
from oddone.presets import smoke
from oddone.training import RunDirectory, train_network
from oddone.transforms import one_view

WORKERS = 2
ENCODER = "resnet10-w16"


def main() -> None:
    """Measure, print and record."""
    arguments = parse_arguments()
    if arguments.local is not None:
        print(json.dumps(score_here(*map(Path, arguments.local))))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_detector(folder / "detector.oddone")
        measured = measure(folder, arguments.images, arguments.rounds)
    print(json.dumps(measured, indent=2))
    write_measurements(
        "engines",
        seed=0,
        packages=["numpy", "pillow", "pyarrow", "ray"],
        arguments=f"--images {arguments.images} --rounds {arguments.rounds}",
        **measured,
    )


def parse_arguments() -> argparse.Namespace:
    """Return what to measure, and how long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=50_000, help="pictures of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--local", nargs=3, metavar=("DETECTOR", "PHOTOS", "OUT"))
    return parser.parse_args()


def write_detector(path: Path) -> None:
    """Write a detector on a network that has learned nothing, which sees images as they are."""
    source, settings = load("fashion:known", size=32), replace(smoke(), steps=1)
    model = replace(settings.model, encoder_name=ENCODER)
    run = RunDirectory.create(path.parent / "run", replace(settings, model=model), {})
    train_network(source, run.settings, run)
    settings_of_views = DetectorSettings(views=one_view)
    Detector.fit(load_network(run.encoder_path), source, settings_of_views).save(path)


def write_photos(folder: Path, number: int) -> Path:
    """Write so many pictures of 32 pixels, of which many are the same file under other names."""
    pixels = load("fashion:known#test", size=32).images
    for place in range(number):
        path = folder / f"{place // 1000:04}" / f"{place:07}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        original = folder / "0000" / f"{place % 1000:07}.png"
        if place < 1000:
            Image.fromarray(pixels[place].transpose(1, 2, 0)).save(path)
        else:
            os.link(original, path)
    return folder


def measure(folder: Path, images: int, rounds: int) -> dict[str, Any]:
    """Return rates and memory of both engines."""
    detector = folder / "detector.oddone"
    photos = write_photos(folder / "photos", images)
    began = time.monotonic()
    ray = _import_ray()
    _start(ray, WORKERS)
    started = time.monotonic() - began
    found: list[dict[str, Any]] = []
    for number in range(rounds):
        local = run_apart(detector, photos, folder / f"local-{number}.parquet")
        on_ray = score_on_ray(detector, photos, folder / f"ray-{number}")
        found.append({"local": local, "ray": on_ray})
        print(f"round {number + 1}: local {local}, Ray {on_ray}", flush=True)
    some = write_photos(folder / "some", images // 10)
    few, many = score_on_ray(detector, some, folder / "some-rows"), found[0]["ray"]
    ray.shutdown()
    ratios = [r["ray"]["images_per_second"] / r["local"]["images_per_second"] for r in found]
    per_cpu = [
        r["ray"]["images_per_cpu_second"] / r["local"]["images_per_cpu_second"] for r in found
    ]
    return {
        "encoder": ENCODER,
        "views": 1,
        "size": 32,
        "images": images,
        "workers": WORKERS,
        "rounds": found,
        "ray_over_local": median_and_all(ratios),
        "ray_over_local_per_cpu_second": median_and_all(per_cpu),
        "seconds_to_start_ray": round(started, 1),
        "memory": {"few": few, "many": many},
        "memory_ratio": round(many["worker_mebibytes"] / few["worker_mebibytes"], 3),
        "load_average": [round(load, 1) for load in os.getloadavg()],
    }


def median_and_all(ratios: list[float]) -> dict[str, Any]:
    """Return ratios as they are recorded."""
    return {
        "median": round(statistics.median(ratios), 3),
        "all": [round(ratio, 3) for ratio in ratios],
    }


# --- One process ------------------------------------------------------------------------------


def run_apart(*arguments: Path) -> dict[str, Any]:
    """Score in a fresh process, as a command would."""
    command = [sys.executable, __file__, "--local", *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def score_here(detector: Path, photos: Path, out: Path) -> dict[str, Any]:
    """Score all pictures of a folder in this process."""
    opened, note = open_detector(detector), note_on(detector)
    warm_up(opened)
    began, began_cpu = time.monotonic(), time.process_time()
    tally, _ = score_share(opened, list_pieces([str(photos)])[0], out, note)
    return rates(
        tally.images,
        time.monotonic() - began,
        time.process_time() - began_cpu,
        peak_mebibytes_here(),
        out.stat().st_size,
    )


def warm_up(detector: Any) -> None:
    """Let torch make its threads and choose its kernels."""
    detector(load("fashion:known#test", size=detector.image_size).images[: detector.batch_size])


def note_on(detector: Path) -> ShareNote:
    """Return what a table says of the detector that made it."""
    sha256 = hashlib.sha256(detector.read_bytes()).hexdigest()
    return ShareNote(detector=sha256, source="", number=1, shares=1, neighbours=0)


def rates(
    images: int, seconds: float, cpu: float, mebibytes: float, written: int
) -> dict[str, Any]:
    """Return what was measured of so many images."""
    return {
        "images": images,
        "images_per_second": round(images / seconds, 1),
        "images_per_cpu_second": round(images / cpu, 1),
        "worker_mebibytes": round(mebibytes, 1),
        "bytes_written_per_image": round(written / images, 1),
    }


def peak_mebibytes_here() -> float:
    """Return the peak resident memory of this process (Linux only)."""
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1024


# --- Ray --------------------------------------------------------------------------------------


class MeasuredWorker:
    """Does what another worker does, and says when, in how much CPU time and memory."""

    def __init__(self, make_worker: MakeWorker) -> None:
        self._work = make_worker()
        warm_up(self._work._detector)  # type: ignore[attr-defined]

    def __call__(self, job: int) -> Summary:
        began, began_cpu = time.time(), time.process_time()
        summary = self._work(job)
        return {
            **summary,
            "process": os.getpid(),
            "began_ms": int(began * 1e3),
            "ended_ms": int(time.time() * 1e3),
            "cpu_ms": int((time.process_time() - began_cpu) * 1e3),
            "kibibytes": int(peak_mebibytes_here() * 1024),
        }


def score_on_ray(detector: Path, photos: Path, out: Path) -> dict[str, Any]:
    """Score all pictures of a folder by two workers."""
    summaries: list[Summary] = []

    def run(make_worker: Callable[[], Any], jobs: list[int]) -> list[Summary]:
        measured = run_on_ray(partial(MeasuredWorker, make_worker), jobs, workers=WORKERS)
        summaries.extend(measured)
        return summaries

    job = PartJob(out, detector, note_on(detector))
    opened = open_detector(detector)
    score_in_parts(
        job, list_pieces([str(photos)])[0], batch_size=opened.batch_size, run=run, progress=None
    )
    # The first actor may begin while another still imports torch; time is counted from when both
    # have begun, and what the first has done before that is left out.
    start = max(
        min(each["began_ms"] for each in summaries if each["process"] == process)
        for process in {each["process"] for each in summaries}
    )
    counted = [each for each in summaries if each["began_ms"] >= start]
    end = max(each["ended_ms"] for each in counted)
    return rates(
        sum(each["images"] for each in counted),
        (end - start) / 1e3,
        sum(each["cpu_ms"] for each in counted) / 1e3,
        max(each["kibibytes"] for each in summaries) / 1024,
        int(
            sum(path.stat().st_size for path in out.glob("*.parquet"))
            * sum(each["images"] for each in counted)
            / sum(each["images"] for each in summaries)
        ),
    )


if __name__ == "__main__":
    main()
