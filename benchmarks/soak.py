"""Train, fit, score and serve side by side for an hour, and tell what leaks.

    python benchmarks/soak.py MINUTES

Four processes work without end, each with one thread of torch: one trains, is interrupted and
resumed; one fits a detector, saves and loads it; one scores a folder in which files come, go and
are cut short meanwhile; one serves these files, and stores what a user says of them. A fifth takes
half of the free memory (4 GiB at most) and gives it back, again and again; and after the warm-up
none of the four may take much more memory than before.

Every second the resident memory, open descriptors, threads, images and seconds of CPU of each are
noted. What still grows after the warm-up is a leak, and the exit code is 1. Linux only.
"""

import itertools
import multiprocessing
import os
import random
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import pairwise
from multiprocessing.process import BaseProcess
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from scipy import stats
from starlette.testclient import TestClient

import oddone
from measure import write_measurements
from oddone.api import fit_run
from oddone.data import load
from oddone.detector import Detector
from oddone.errors import DataWarning
from oddone.presets import smoke
from oddone.service.app import make_app
from oddone.service.service import Service
from oddone.service.settings import ServiceSettings
from oddone.training import RunDirectory, train_network

SEED = 0
WARM_UP = 0.2  # the share of the time in which memory may grow: caches fill, libraries load
BLOCKS = 20  # neighbouring samples are not independent of each other; their means nearly are
ALLOWED = {"resident_mebibytes": 16.0, "descriptors": 1.0, "threads": 1.0}
"""How much each may grow in an hour, or in the time measured if that is shorter."""
SLOWEST = 0.8  # of the images per second of CPU in the first tenth
LEAST_COUNTED = 4  # samples with new images, of which a speed can be told
ROOM = 256 << 20  # bytes of memory beyond the most of the warm-up
MOST_BALLAST = 4 << 30  # bytes
PHOTOS, STAYING_FILES, PASSING_FILES = 320, 60, 60

Count = Callable[[int], None]
Work = Callable[[Path, Count], None]


class Sample(NamedTuple):
    """What a process holds, and what it has done, at a moment."""

    seconds: float
    resident_mebibytes: float
    descriptors: int
    threads: int
    images: int
    cpu_seconds: float


class Slope(NamedTuple):
    """By how much something grows in an hour, with the ends of a 95 % confidence interval."""

    per_hour: float
    low: float
    high: float


def main(minutes: str = "60") -> int:
    """Soak, print and record; return 1 if something leaks, slows down or fails."""
    if sys.platform != "linux":
        print("benchmarks/soak.py reads /proc, which only Linux has")
        return 2
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        with running(hold_ballast):
            samples, failures = soak(Path(folder), WORKERS, float(minutes) * 60)
    findings = {
        name: measured(of_process)
        for name, of_process in samples.items()
        if len(of_process) >= 2 * BLOCKS  # not if one of them ended too early
    }
    faults = [
        *failures,
        *(f"{name}: {fault}" for name in findings for fault in faults_of(findings[name])),
    ]
    print_findings(findings, faults)
    write_measurements(
        "soak",
        kind="reliability",
        seed=SEED,
        packages=["numpy", "pillow", "safetensors"],
        arguments=minutes,
        minutes=float(minutes),
        warm_up=WARM_UP,
        allowed=ALLOWED | {"slowest": SLOWEST},
        processes=findings,
        faults=faults,
    )
    return 1 if faults else 0


def soak(
    folder: Path, workers: dict[str, Work], seconds: float
) -> tuple[dict[str, list[Sample]], list[str]]:
    """Return the samples of each worker after the warm-up, and which workers ended by themselves.

    The clock starts when each has done its work once.
    """
    generator, interval = random.Random(SEED), min(1, seconds / 200)  # noqa: S311
    spawn = multiprocessing.get_context("spawn")
    rounds = {name: spawn.Value("Q", 0) for name in workers}
    images = {name: spawn.Value("Q", 0) for name in workers}
    samples: dict[str, list[Sample]] = {name: [] for name in workers}
    with ExitStack() as stack:
        processes = {
            name: stack.enter_context(
                running(work_for_ever, work, folder, rounds[name], images[name])
            )
            for name, work in workers.items()
        }
        began, limited, elapsed = time.monotonic(), False, 0.0
        most_bytes = dict.fromkeys(workers, 0)
        while elapsed < seconds and all(process.is_alive() for process in processes.values()):
            if not all(each.value for each in rounds.values()):
                began = time.monotonic()
            for name, process in processes.items():
                most_bytes[name] = max(most_bytes[name], data_bytes(process.pid))
                if elapsed >= seconds * WARM_UP:
                    with suppress(PermissionError):  # it has just ended
                        samples[name].append(sample(process.pid, elapsed, images[name].value))
            if elapsed >= seconds * WARM_UP and not limited:
                limited = True
                for name, process in processes.items():
                    limit_data(process.pid, most_bytes[name] + ROOM)
            let_files_come_and_go(folder / "arriving", generator, for_seconds=interval)
            elapsed = time.monotonic() - began
        ended = [
            f"{name} ended by itself after {elapsed:.0f} seconds, with code {process.exitcode}"
            for name, process in processes.items()
            if not process.is_alive()
        ]
    return samples, ended


@contextmanager
def running(target: Callable[..., None], *arguments: object) -> Iterator[BaseProcess]:
    """Run a function in a new process, and end it."""
    process = multiprocessing.get_context("spawn").Process(
        target=target, args=arguments, daemon=True
    )
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def work_for_ever(work: Work, folder: Path, rounds: Any, images: Any) -> None:
    """Do one kind of work again and again; count how often, and the images that it took."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", DataWarning)  # that there are few images, which is so
    os.environ["ODDONE_CACHE"] = str(folder / "cache")

    def count(number: int) -> None:
        images.value += number

    while True:
        work(folder, count)
        rounds.value += 1


def train(folder: Path, count: Count) -> None:
    """Train a network, interrupted after every fifth step and resumed, and fit its detector."""
    source = load(str(folder / "photos"), size=32)
    settings = smoke()
    run = RunDirectory.create(folder / "run", settings, {})
    steps = itertools.count(1)
    while not run.finished:
        train_network(
            source,
            settings,
            run,
            watch=lambda report: count(report.rows),
            stop=lambda: next(steps) % 5 == 0,
        )
    fit_run(run, source).save(run.detector_path)
    run.remove()


def fit(folder: Path, count: Count) -> None:
    """Fit a detector, save it and load it."""
    encoder, path = torch.nn.Flatten(), folder / "fitted.oddone"
    detector = oddone.fit(str(folder / "photos"), encoder=encoder, image_size=16)
    detector.save(path)
    Detector.load(path, encoder=encoder)
    count(detector.provenance["data"]["images"])


def score(folder: Path, count: Count) -> None:
    """Load a detector, and score a folder in which files come and go."""
    detector = Detector.load(folder / "detector.oddone")
    for _ in range(5):
        for _ in detector.score(str(folder / "arriving")):
            count(1)


def serve(folder: Path, count: Count) -> None:
    """Start a service, let it score files that come and go, store feedback, and stop it."""
    service = Service(
        {"garments": folder / "detector.oddone"},
        ServiceSettings(decoders=1),
        feedback=folder / "feedback.sqlite",
    )
    with TestClient(make_app(service)) as client:
        for path in sorted((folder / "arriving").iterdir()) * 5:
            with suppress(FileNotFoundError):  # it has just gone
                answer = client.post("/v1/score", files={"files": path.read_bytes()}).json()
                (image,) = answer["images"]
                said = {"sha256": image["sha256"], "said": "normal"}
                if image["reason"] is None:
                    client.post("/v1/feedback", json=said).raise_for_status()
                count(1)


WORKERS = {work.__name__: work for work in (train, fit, score, serve)}


def hold_ballast() -> None:
    """Take half of the memory that is free, or 4 GiB, and give it back, every ten seconds."""
    while True:
        size = min(available_bytes() // 2, MOST_BALLAST)
        ballast = np.ones(size, dtype=np.uint8)  # written, so it is resident
        time.sleep(2)
        del ballast
        time.sleep(8)


def prepare(folder: Path) -> None:
    """Make photos to learn from, pictures to score, and the detector that scores them."""
    warnings.simplefilter("ignore", DataWarning)
    garments = load("fashion:known", size=32)
    for index in range(0, len(garments), len(garments) // PHOTOS):
        class_folder = folder / "photos" / garments.classes[garments.labels[index]]
        class_folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(garments.images[index].transpose(1, 2, 0)).save(
            class_folder / f"{index}.png"
        )
    photos = load(str(folder / "photos"), size=32)
    run = RunDirectory.create(folder / "prepared", replace(smoke(), steps=1), {})
    train_network(photos, run.settings, run)
    fit_run(run, photos).save(folder / "detector.oddone")
    (folder / "arriving").mkdir()
    for number in range(STAYING_FILES):
        write_picture(folder / "arriving" / f"staying-{number}.png", number)


def write_picture(path: Path, seed: int) -> None:
    """Write a picture of noise."""
    pixels = np.random.default_rng(seed).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


def let_files_come_and_go(folder: Path, generator: random.Random, *, for_seconds: float) -> None:
    """Write files, cut some of them short, and remove them."""
    end = time.monotonic() + for_seconds
    while time.monotonic() < end:
        path = folder / f"passing-{generator.randrange(PASSING_FILES)}.png"
        if not path.exists():
            write_picture(path, generator.randrange(1000))
        elif generator.random() < 0.3:
            os.truncate(path, path.stat().st_size // 2)
        else:
            path.unlink()
        time.sleep(0.02)


def sample(pid: int, seconds: float, images: int) -> Sample:
    """Return what a process holds now."""
    process = Path("/proc") / str(pid)
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])  # in user mode and in the kernel
    return Sample(
        seconds,
        status(process, "VmRSS") / 1024,
        len(list((process / "fd").iterdir())),
        status(process, "Threads"),
        images,
        ticks / os.sysconf("SC_CLK_TCK"),
    )


def data_bytes(pid: int) -> int:
    """Return how much memory a process has asked for, as RLIMIT_DATA counts it."""
    return status(Path("/proc") / str(pid), "VmData") * 1024


def limit_data(pid: int, most: int) -> None:
    """Let a process ask for so much memory, and no more."""
    resource.prlimit(pid, resource.RLIMIT_DATA, (most, most))


def available_bytes() -> int:
    """Return how much memory the system can give."""
    return number_after("MemAvailable", Path("/proc/meminfo")) * 1024


def status(process: Path, name: str) -> int:
    """Return a number of a process's status."""
    return number_after(name, process / "status")


def number_after(name: str, path: Path) -> int:
    """Return the number on the line of a file that begins with a name and a colon.

    It is 0 if there is none: a process that has just ended has no memory.
    """
    lines = path.read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), 0)


def slope(seconds: Sequence[float], values: Sequence[float]) -> Slope:
    """Return the growth by least squares through the means of blocks of samples."""
    hours, means = (
        [fmean(block) for block in np.array_split(np.asarray(numbers, dtype=float), BLOCKS)]
        for numbers in (np.asarray(seconds) / 3600, values)
    )
    if min(means) == max(means):
        return Slope(0.0, 0.0, 0.0)
    line = stats.linregress(hours, means)
    margin = stats.t.ppf(0.975, BLOCKS - 2) * line.stderr
    return Slope(*(round(float(line.slope + shift), 2) for shift in (0, -margin, margin)))


def measured(samples: Sequence[Sample]) -> dict[str, Any]:
    """Return how what a process holds grows, and how fast it works at first and in the end."""
    seconds = [each.seconds for each in samples]
    tenth = len(samples) // 10
    found: dict[str, Any] = {"hours": round((seconds[-1] - seconds[0]) / 3600, 4)}
    for name in ALLOWED:
        values = [getattr(each, name) for each in samples]
        found[name] = {
            "first_tenth": round(fmean(values[:tenth]), 2),
            "last_tenth": round(fmean(values[-tenth:]), 2),
            "most": round(max(values), 2),
            "slope": slope(seconds, values)._asdict(),
        }
    counted = [after for before, after in pairwise(samples) if after.images > before.images]
    part = max(LEAST_COUNTED, len(counted) // 10)
    for clock in ("seconds", "cpu_seconds"):
        found[f"images_per_{clock.removesuffix('s')}"] = {
            "first_tenth": rate(counted[:part], clock),
            "last_tenth": rate(counted[-part:], clock),
        }
    found["counted"] = len(counted)
    found["images"] = samples[-1].images - samples[0].images
    return found


def rate(samples: Sequence[Sample], clock: str) -> float:
    """Return the images per second of a clock between the first sample and the last."""
    images, times = ([getattr(each, name) for each in samples] for name in ("images", clock))
    if not samples or times[-1] == times[0]:  # clocks of CPU tick a hundred times a second
        return 0.0
    return round((images[-1] - images[0]) / (times[-1] - times[0]), 1)


def faults_of(found: dict[str, Any]) -> Iterable[str]:
    """Yield what leaks and what slows down, in words."""
    for name, allowed in ALLOWED.items():
        growth = Slope(**found[name]["slope"])
        if growth.low > allowed / min(found["hours"], 1):
            yield (
                f"{name} grows by {growth.per_hour:g} an hour (95 %: {growth.low:g} to "
                f"{growth.high:g})"
            )
    first, last = found["images_per_cpu_second"].values()
    if found["counted"] < 2 * LEAST_COUNTED:
        yield f"{found['images']} images are too few to tell whether it slows down"
    elif last < SLOWEST * first:
        yield f"{first:g} images per second of CPU at first, {last:g} in the end"


def print_findings(findings: dict[str, dict[str, Any]], faults: Sequence[str]) -> None:
    """Print a line for each number of each process, then what is wrong."""
    for name, found in findings.items():
        for what in ALLOWED:
            numbers = found[what]
            growth = Slope(**numbers["slope"])
            print(
                f"{name:<8}{what:<20}{numbers['first_tenth']:>8g} to {numbers['last_tenth']:<8g}"
                f"{growth.per_hour:>8g} an hour ({growth.low:g} to {growth.high:g})"
            )
        first, last = found["images_per_cpu_second"].values()
        print(f"{name:<8}{'images/s of CPU':<20}{first:>8g} to {last:<8g}")
    print("\n".join(f"FAULT: {fault}" for fault in faults) or "nothing leaks")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
