"""Start `oddone` on a disk that fails, or to be killed, at a chosen moment."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from started import output_of, start

HERE = Path(__file__).parent
KILLED = -9


class Finished(NamedTuple):
    """How a process ended."""

    code: int
    printed: str
    complained: str
    operations: list[str]
    """What it changed below the folder of the fault, such as "write /folder/scores.csv"."""


class Launcher:
    """Starts commands, one after the other."""

    def __init__(
        self, server: "subprocess.Popen[str]", folder: Path, environment: dict[str, str]
    ) -> None:
        self._server = server
        self._folder = folder
        self.environment = environment

    def run_apart(
        self, words: Sequence[str], folder: Path, *, fault: str = "nothing", number: int = 0
    ) -> Finished:
        """Run a command as its user does; the fault happens in each process that it starts."""
        log = self._folder / "log"
        log.write_text("")
        variables = {
            "LD_PRELOAD": str(_shim(self._folder)),
            "DISK_FOLDER": str(folder),
            "DISK_FAULT": fault,
            "DISK_NUMBER": str(number),
            "DISK_LOG": str(log),
        }
        command = start("-m", "oddone", *words, **self.environment, **variables)
        printed, complained = output_of(command)
        return Finished(command.returncode, printed, complained, log.read_text().splitlines())

    def run(
        self,
        words: Sequence[str],
        folder: Path,
        *,
        fault: str = "nothing",
        number: int = 0,
        kill_after: float | None = None,
        changes: Sequence[str] = (),
    ) -> Finished:
        """Run a command to its end.

        At its `number`-th change of a file below a folder a fault happens (`disk.c` lists them), or
        the process is killed after so many seconds. `changes` are functions of `changes.py`.
        """
        files = {name: str(self._folder / name) for name in ("stdout", "stderr", "log")}
        request = {
            "words": list(words),
            "folder": str(folder),
            "fault": fault,
            "number": number,
            "kill_after": kill_after,
            "changes": list(changes),
            "environment": self.environment,
            **files,
        }
        code = int(self._ask(json.dumps(request)))
        printed, complained, log = (Path(file).read_text() for file in files.values())
        return Finished(code, printed, complained, log.splitlines())

    def _ask(self, line: str) -> str:
        asked, answers = _pipes(self._server)
        asked.write(line + "\n")
        asked.flush()
        answer = answers.readline()
        assert answer, "the server of processes has ended"
        return answer


def _pipes(server: "subprocess.Popen[str]") -> tuple[IO[str], IO[str]]:
    assert server.stdin is not None
    assert server.stdout is not None
    return server.stdin, server.stdout


@contextmanager
def launcher(folder: Path, **environment: str) -> Iterator[Launcher]:
    """Yield what starts commands; what it needs for that is kept in a folder."""
    shim = str(_shim(folder))
    command = ["cc", "-O1", "-shared", "-fPIC", str(HERE / "disk.c"), "-o", shim, "-ldl"]
    subprocess.run(command, check=True)  # noqa: S603
    with subprocess.Popen(  # noqa: S603
        [sys.executable, str(HERE / "fork_server.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "LD_PRELOAD": shim,
            "OMP_NUM_THREADS": "1",
        },
    ) as server:
        try:
            yield Launcher(server, folder, environment)
        finally:
            for pipe in _pipes(server):
                pipe.close()
            server.wait()


def _shim(folder: Path) -> Path:
    return folder / "disk.so"


def reason_to_skip() -> str | None:
    """Return why no process can be started on a faulty disk here, if so."""
    if sys.platform != "linux":
        return "disk.c is for Linux"
    return None if shutil.which("cc") else "there is no C compiler, cc"
