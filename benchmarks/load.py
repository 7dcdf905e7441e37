"""The service under load, on this machine alone: throughput, latency, and four times too much.

`python benchmarks/load.py DETECTOR PICTURES` starts `oddone serve` on 127.0.0.1, and locust sends
it the pictures of a folder. Clients and service share the cores, so the service has less of them
than `oddone score`, with which it is compared. Rounds of both alternate: what slows the machine
down slows both.
"""

import os
import re
import shlex
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from measure import write_measurements
from oddone import Detector
from oddone.data.folder import pictures_below

CLIENTS = 32
STRANGERS = 2_000
"""Clients that come at random: so many that each has longer between two pictures than it waits for
an answer, and those who wait are not missed."""
OVERLOAD = 4.5
"""How many times too much is meant to be sent; clients that wait for an answer send less."""
ROUNDS = 5
ROUND_SECONDS, HALF_SECONDS, OVERLOAD_SECONDS, AFTER_SECONDS = 12, 60, 60, 10
PICTURES = 200


def main() -> None:
    """Measure, print and record."""
    path, source = Path(sys.argv[1]), Path(sys.argv[2])
    detector = Detector.load(path)
    with TemporaryDirectory() as temporary, service(path) as server:
        folder = Path(temporary) / "pictures"
        folder.mkdir()
        for number, name in enumerate(pictures_below(source)[:PICTURES]):
            shutil.copy(source / name, folder / f"{number}{Path(name).suffix}")
        load = Load(server, folder)
        rounds = [compare_round(path, load) for _ in range(ROUNDS)]
        served = statistics.median(each["served_images_per_second"] for each in rounds)
        half = load.by_strangers(served / 2, HALF_SECONDS).summary()
        before = server.mebibytes()
        overload = load.by_strangers(OVERLOAD * served, OVERLOAD_SECONDS).summary()
        after = load.by_strangers(served / 2, AFTER_SECONDS).summary()
        ended = server.process.poll() is not None
        pictures = len(list(folder.iterdir()))
    ratio = statistics.median(each["ratio"] for each in rounds)
    print(f"throughput {ratio:.2f} of oddone score, {served:.1f} images/s")
    for name, answers in {"half load": half, "overload": overload, "after it": after}.items():
        print(name, answers)
    print(f"memory before overload {before} MiB, {'it has ended' if ended else 'it goes on'}")
    trained = detector.embedder.trained
    write_measurements(
        "load",
        seed=0,
        packages=["numpy", "pillow", "fastapi", "uvicorn", "locust"],
        arguments="DETECTOR DIR",
        detector={
            "encoder": trained.model.encoder_name,
            "image_size": detector.image_size,
            "views": len(detector.embedder.views),
        },
        pictures=pictures,
        clients=CLIENTS,
        rounds=rounds,
        ratio=round(ratio, 2),
        half_load=half,
        overload={**overload, "mebibytes_before": before, "server_ended": ended},
        after_overload=after,
    )


def compare_round(path: Path, load: "Load") -> dict[str, Any]:
    """Return how many images a second `oddone score` scores after its start, and the service."""
    alone = images_per_second(path, load.folder)
    answers = load.by_clients(ROUND_SECONDS)
    served = answers.per_second
    return {
        "alone_images_per_second": round(alone, 1),
        "served_images_per_second": round(served, 1),
        "ratio": round(served / alone, 3),
        "statuses": answers.statuses,
        "client_cores": answers.client_cores,
    }


def images_per_second(path: Path, folder: Path) -> float:
    """Return how fast `oddone score` says that it was."""
    command = [sys.executable, "-m", "oddone", "score", str(path), str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    ((images, seconds),) = re.findall(r"^(\d+) images in ([\d.]+) s", done.stderr, re.MULTILINE)
    return int(images) / float(seconds)


# --- The server -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Server:
    """The process of `oddone serve`."""

    process: "subprocess.Popen[bytes]"
    port: int

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    def mebibytes(self) -> int:
        """Return the memory of the process and of those that decode for it."""
        listed = subprocess.run(  # noqa: S603
            ["ps", "-o", "pid=", "--ppid", str(self.process.pid)],  # noqa: S607
            capture_output=True,
            text=True,
            check=False,
        )
        pids = [str(self.process.pid), *listed.stdout.split()]
        return sum(map(_resident, pids)) // 1024


def _resident(pid: str) -> int:
    try:
        found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    except OSError:  # it has just ended
        return 0
    return int(found[1]) if found else 0


@contextmanager
def service(path: Path) -> Iterator[Server]:
    """Yield a service that answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "oddone", "serve", str(path), "--port", str(port)]
    with subprocess.Popen(command) as process:  # noqa: S603
        try:
            _wait_for(port, process)
            yield Server(process, port)
        finally:
            process.send_signal(signal.SIGTERM)


def _wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    sys.exit("the service does not start")


# --- The clients ------------------------------------------------------------------------------


class Answer(NamedTuple):
    """What became of one request, as locust saw it."""

    began: float
    seconds: float
    status: str
    """Of HTTP, or the name of the error if there was no answer."""


@dataclass(frozen=True)
class Answers:
    """What became of the requests."""

    each: Sequence[Answer]
    most_mebibytes: int
    """Of the service meanwhile."""
    client_cores: float
    """Processor time of the clients over time: the service has so much less."""

    @property
    def _took(self) -> float:
        ends = (answer.began + answer.seconds for answer in self.each)
        return max(ends) - min(answer.began for answer in self.each)

    @property
    def statuses(self) -> dict[str, int]:
        """How many had which."""
        return dict(sorted(Counter(each.status for each in self.each).items()))

    @property
    def per_second(self) -> float:
        """How many were accepted and answered."""
        return len(self._seconds(accepted=True)) / self._took

    def _seconds(self, *, accepted: bool) -> list[float]:
        return [each.seconds for each in self.each if (each.status == "200") == accepted]

    def summary(self) -> dict[str, Any]:
        """Return it for a record."""
        started = [each.began for each in self.each]
        return {
            "statuses": self.statuses,
            "sent_per_second": round(len(started) / (max(started) - min(started)), 1),
            "answered_per_second": round(self.per_second, 1),
            "milliseconds": _percentiles(self._seconds(accepted=True)),
            "milliseconds_of_refusals": _percentiles(self._seconds(accepted=False)),
            "most_mebibytes": self.most_mebibytes,
            "client_cores": self.client_cores,
        }


def _percentiles(seconds: Sequence[float]) -> dict[str, float] | None:
    if len(seconds) < 2:
        return None
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    named = {"p50": cuts[49], "p99": cuts[98], "most": max(seconds)}
    return {name: round(value * 1e3, 1) for name, value in named.items()}


@dataclass(frozen=True)
class Load:
    """Locust, which sends the pictures of a folder to a service."""

    server: Server
    folder: Path

    def by_clients(self, seconds: int) -> Answers:
        """Let each client send a picture as soon as it has the answer to the one before."""
        return self._send(seconds, users=CLIENTS, gap=0.0)

    def by_strangers(self, rate: float, seconds: int) -> Answers:
        """Send so many pictures a second, at random times, whatever becomes of those before."""
        return self._send(seconds, users=STRANGERS, gap=STRANGERS / rate)

    def _send(self, seconds: int, **options: float) -> Answers:
        answers = self.folder.with_name("answers.csv")
        command = [sys.executable, "-m", "locust", "--headless", "--skip-log-setup"]
        options_of_run = {
            "locustfile": Path(__file__).with_name("load_client.py"),
            "spawn-rate": 1000,  # all at once
            "exit-code-on-error": 0,  # refusals are what is counted here
            "host": self.server.url,
            "run-time": f"{seconds}s",
            "stop-timeout": 60,  # those that are under way have their answers
            "pictures": self.folder,
            "answers": answers,
            **options,
        }
        for name, value in options_of_run.items():
            command += [f"--{name}", str(value)]
        most, used, began = 0, _children_seconds(), time.monotonic()
        with subprocess.Popen(command) as locust:  # noqa: S603
            while locust.poll() is None:
                most = max(most, self.server.mebibytes())
                time.sleep(1)
        cores = (_children_seconds() - used) / (time.monotonic() - began)
        if locust.returncode != 0:
            sys.exit(f"locust ended with {locust.returncode}: {shlex.join(command)}")
        return Answers(read_answers(answers), most, round(cores, 2))


def _children_seconds() -> float:
    """Return the processor time of all processes that this one has started and that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def read_answers(file: Path) -> list[Answer]:
    """Return what `load_client.py` has written."""
    rows = (line.split(",") for line in file.read_text().splitlines())
    return [Answer(float(began), float(taken) / 1e3, status) for began, taken, status in rows]


if __name__ == "__main__":
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    main()
