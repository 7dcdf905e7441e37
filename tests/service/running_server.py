"""`oddone serve` in a process of its own, on a free port of this machine."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import uvicorn

from oddone.service.app import make_app
from oddone.service.service import Service

SECONDS_TO_START = 120.0


@dataclass(frozen=True)
class RunningServer:
    """A process, and where it is reached."""

    process: "subprocess.Popen[str]"
    url: str
    log: Path

    def complained(self) -> str:
        return self.log.read_text()


@contextmanager
def running_server(
    folder: Path, *words: str, before: Callable[[], None] | None = None
) -> Iterator[RunningServer]:
    """Yield a server that answers; it is killed in the end, if it still runs."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder / "server.log"
    command = [sys.executable, "-m", "oddone", "serve", *words, "--port", str(port)]
    with (
        log.open("w") as file,
        subprocess.Popen(  # noqa: S603
            [*command, "--decoders", "1"],
            stdout=file,
            stderr=file,
            text=True,
            preexec_fn=before,  # noqa: PLW1509
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
        ) as process,
    ):
        try:
            _wait(process, f"http://127.0.0.1:{port}", log)
            yield RunningServer(process, f"http://127.0.0.1:{port}", log)
        finally:
            process.kill()


@contextmanager
def served_in_thread(service: Service) -> Iterator[str]:
    """Yield the address of a service that runs in a thread of this process."""
    config = uvicorn.Config(make_app(service), port=0, log_level="error", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


def _wait(process: "subprocess.Popen[str]", url: str, log: Path) -> None:
    began = time.monotonic()
    while time.monotonic() - began < SECONDS_TO_START:
        assert process.poll() is None, log.read_text()
        try:
            if httpx.get(f"{url}/healthz", timeout=5).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise AssertionError(f"the server does not start: {log.read_text()}")


def score(server: RunningServer, content: bytes, name: str = "a.png") -> httpx.Response:
    """Return the answer to one picture."""
    return httpx.post(f"{server.url}/v1/score", files={"files": (name, content)}, timeout=60)
