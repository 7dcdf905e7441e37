"""The service under load, on this machine alone: throughput, latency, and four times too much.

`python benchmarks/load.py DETECTOR PICTURES` starts `oddone serve` on 127.0.0.1 and sends it the
pictures of a folder. Clients and service share the cores, so the service has less of them than
`detector.score`, with which it is compared. Rounds of both alternate: what slows the machine
down slows both.
"""

import asyncio
import itertools
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from measure import write_measurements
from oddone import Detector
from oddone.data.folder import pictures_below

CLIENTS = 32
ROUNDS = 5
HALF_SECONDS, OVERLOAD_SECONDS = 30.0, 60.0
MOST_OPEN = 600
"""Requests that are open at a time in overload; more clients than that would be their own test."""
PICTURES = 200
BOUNDARY = "a-boundary-that-no-picture-has"


def main() -> None:
    """Measure, print and record."""
    path, folder = Path(sys.argv[1]), Path(sys.argv[2])
    detector = Detector.load(path)
    pictures = [folder / name for name in pictures_below(folder)[:PICTURES]]
    bodies = [form_of(picture) for picture in pictures]
    with service(path) as server:
        closed = [compare_round(detector, pictures, server, bodies) for _ in range(ROUNDS)]
        served = statistics.median(each["served_images_per_second"] for each in closed)
        half = asyncio.run(open_loop(server, bodies, served / 2, HALF_SECONDS)).summary()
        before = server.mebibytes()
        overload = asyncio.run(open_loop(server, bodies, 4 * served, OVERLOAD_SECONDS)).summary()
        after = asyncio.run(open_loop(server, bodies, served / 2, 5.0)).summary()
        status = server.process.poll()
    ratio = statistics.median(each["ratio"] for each in closed)
    print(f"throughput {ratio:.2f} of detector.score, {served:.1f} images/s")
    print("half load", half)
    print("overload", overload, "memory before", before, "server ended with", status)
    trained = detector.embedder.trained
    write_measurements(
        "load",
        seed=0,
        packages=["numpy", "pillow", "fastapi", "uvicorn", "aiohttp"],
        arguments="DETECTOR DIR",
        detector={
            "encoder": trained.model.encoder_name,
            "image_size": detector.image_size,
            "views": len(detector.embedder.views),
        },
        pictures=len(pictures),
        clients=CLIENTS,
        rounds=closed,
        ratio=round(ratio, 2),
        half_load=half,
        overload={**overload, "mebibytes_before": before, "server_ended": status is not None},
        after_overload=after,
    )


# --- The server -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Server:
    """The process of `oddone serve`."""

    process: "subprocess.Popen[bytes]"
    port: int

    @property
    def url(self) -> str:
        """Where pictures are sent to."""
        return f"http://127.0.0.1:{self.port}/v1/score"

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


@dataclass
class Answers:
    """What became of the requests."""

    statuses: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    """Of those that were answered with 200."""
    refused_seconds: list[float] = field(default_factory=list)
    most_mebibytes: int = 0
    took: float = 0.0

    def summary(self) -> dict[str, object]:
        """Return it for a record."""
        return {
            "statuses": dict(self.statuses),
            "answered_per_second": round(len(self.seconds) / self.took, 1),
            "milliseconds": _percentiles(self.seconds),
            "milliseconds_of_refusals": _percentiles(self.refused_seconds),
            "most_mebibytes": self.most_mebibytes,
        }


def _percentiles(seconds: Sequence[float]) -> dict[str, float] | None:
    if len(seconds) < 2:
        return None
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    named = {"p50": cuts[49], "p99": cuts[98], "most": max(seconds)}
    return {name: round(value * 1e3, 1) for name, value in named.items()}


def form_of(picture: Path) -> bytes:
    """Return the body of a form with one file."""
    head = (
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="files"; '
        f'filename="{picture.name}"\r\nContent-Type: image/jpeg\r\n\r\n'
    )
    return head.encode() + picture.read_bytes() + f"\r\n--{BOUNDARY}--\r\n".encode()


async def send(session: aiohttp.ClientSession, url: str, body: bytes, answers: Answers) -> None:
    """Send one picture, and note what becomes of it."""
    began = time.monotonic()
    headers = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
    try:
        async with session.post(url, data=body, headers=headers) as answer:
            await answer.read()
            status = str(answer.status)
    except (aiohttp.ClientError, TimeoutError) as error:
        status = type(error).__name__
    answers.statuses[status] += 1
    took = time.monotonic() - began
    (answers.seconds if status == "200" else answers.refused_seconds).append(took)


def compare_round(
    detector: Detector, pictures: Sequence[Path], server: Server, bodies: Sequence[bytes]
) -> dict[str, float]:
    """Return how many images a second the detector scores by itself, and the service."""
    began = time.monotonic()
    scored = list(detector.score([str(picture) for picture in pictures]))
    alone = len(scored) / (time.monotonic() - began)
    answers = asyncio.run(closed_loop(server, bodies))
    if answers.statuses.keys() != {"200"}:
        sys.exit(f"not all pictures were scored: {answers.statuses}")
    served = len(bodies) / answers.took
    return {
        "alone_images_per_second": round(alone, 1),
        "served_images_per_second": round(served, 1),
        "ratio": round(served / alone, 3),
    }


async def closed_loop(server: Server, bodies: Sequence[bytes]) -> Answers:
    """Let each client send a picture as soon as it has the answer to the one before."""
    answers, waiting, began = Answers(), iter(bodies), time.monotonic()

    async def client(session: aiohttp.ClientSession) -> None:
        for body in waiting:
            await send(session, server.url, body, answers)

    async with aiohttp.ClientSession() as session:
        await asyncio.gather(*(client(session) for _ in range(CLIENTS)))
    answers.took = time.monotonic() - began
    return answers


async def open_loop(
    server: Server, bodies: Sequence[bytes], rate: float, seconds: float
) -> Answers:
    """Send pictures at a rate, whatever becomes of those before, as strangers do."""
    answers, began, open_requests = Answers(), time.monotonic(), set[asyncio.Task[None]]()
    connector = aiohttp.TCPConnector(limit=MOST_OPEN)
    async with aiohttp.ClientSession(connector=connector) as session:
        for number, body in enumerate(itertools.cycle(bodies)):
            now = time.monotonic() - began
            if now > seconds:
                break
            await asyncio.sleep(max(0.0, number / rate - now))
            if len(open_requests) >= MOST_OPEN:
                await asyncio.wait(open_requests, return_when=asyncio.FIRST_COMPLETED)
            request = asyncio.create_task(send(session, server.url, body, answers))
            open_requests.add(request)
            request.add_done_callback(open_requests.discard)
            if number % max(1, round(rate)) == 0:
                answers.most_mebibytes = max(answers.most_mebibytes, server.mebibytes())
        await asyncio.gather(*open_requests)
    answers.took = time.monotonic() - began
    return answers


if __name__ == "__main__":
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    main()
