"""The clients of `benchmarks/load.py`, which locust runs: each sends one picture after another.

Locust replaces Python's sockets and threads, so it has a process of its own.
"""

import itertools
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from locust import FastHttpUser, events, task
from locust.env import Environment

BOUNDARY = "a-boundary-that-no-picture-has"
HEADERS = {
    "Content-Type": f"multipart/form-data; boundary={BOUNDARY}",
    "Connection": "close",  # each picture comes from another stranger
}
GAPS = random.Random(0)  # noqa: S311  (no secret)


@events.init_command_line_parser.add_listener
def add_options(parser: Any, **_: object) -> None:
    """Add what `benchmarks/load.py` sets."""
    parser.add_argument("--pictures", help="A folder of the pictures to send")
    parser.add_argument("--gap", type=float, help="Mean seconds between two pictures of a client")
    parser.add_argument("--answers", help="A file for what became of each picture")


@events.init.add_listener
def prepare(environment: Environment, **_: object) -> None:
    """Read the pictures, and open the file of answers: start, milliseconds and status of each."""
    options: Any = environment.parsed_options
    Client.bodies = itertools.cycle(
        [form_of(path) for path in sorted(Path(options.pictures).iterdir())]
    )
    Client.gap = options.gap
    answers = Path(options.answers).open("w", buffering=1)  # noqa: SIM115  (as long as the process)

    @events.request.add_listener
    def note(
        start_time: float, response_time: float, response: Any, exception: object, **_: object
    ) -> None:
        status = response.status_code or type(exception).__name__
        answers.write(f"{start_time},{response_time},{status}\n")


def form_of(picture: Path) -> bytes:
    """Return the body of a form with one file."""
    head = (
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="files"; '
        f'filename="{picture.name}"\r\nContent-Type: image/jpeg\r\n\r\n'
    )
    return head.encode() + picture.read_bytes() + f"\r\n--{BOUNDARY}--\r\n".encode()


class Client(FastHttpUser):
    """Sends a picture as soon as it has the last answer, or at random times, as strangers do."""

    bodies: Iterator[bytes]
    gap: float
    began = 0.0

    def on_start(self) -> None:
        """Wait for the first picture as for any other, or all would come at once."""
        self.began = time.monotonic()
        time.sleep(self.wait_time())

    @task
    def score(self) -> None:
        self.began = time.monotonic()
        self.client.post("/v1/score", data=next(self.bodies), headers=HEADERS)

    def wait_time(self) -> float:
        """Return how long to wait until the next picture: as if the last had taken no time."""
        gap = GAPS.expovariate(1 / self.gap) if self.gap else 0.0
        return max(0.0, self.began + gap - time.monotonic())
