"""Groups of processes on this machine, each started by hand as `torchrun` would start them."""

import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

HERE = Path(__file__).parent
SECONDS = 300


def run_group(size: int, script: str, *words: str, **variables: str) -> None:
    """Let so many processes run a script of this folder, and wait until all have ended well."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent), *sys.path]),
        "OMP_NUM_THREADS": "1",
        "WORLD_SIZE": str(size),
        "MASTER_ADDR": "localhost",
        **variables,
    }
    members = [
        subprocess.Popen(  # noqa: S603
            [sys.executable, str(HERE / script), *words],
            stderr=subprocess.PIPE,
            text=True,
            env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(size)
    ]
    try:
        complaints = [member.communicate(timeout=SECONDS)[1] for member in members]
    finally:
        for member in members:
            member.kill()
    assert [member.returncode for member in members] == [0] * size, complaints


def free_ports(number: int) -> list[int]:
    """Return ports at which nobody listens now."""
    with ExitStack() as open_sockets:
        sockets = [open_sockets.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("localhost", 0))
        return [each.getsockname()[1] for each in sockets]
