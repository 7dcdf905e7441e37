"""Several processes that train as one: some are killed or told to stop, and the run goes on."""

import json
import os
import random
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from started import Started, children_of, end, start, wait_until, wait_until_gone
from trials import Rounds, Trials

from oddone.cli import app
from runs import tiny_source

STEPS = 24
OPTIONS = (
    *("--preset", "smoke", "--steps", str(STEPS), "--checkpoint-seconds", "0"),
    *("--batch.images", "12", "--batch.parts", "1", "--held-out", "0"),
    *("--optimiser.learning-rate", "0.001"),  # so that rounding does not grow
)
KILLS = (("one", 3), ("all", 1), ("starter", 2))
"""Who is killed, and how many processes go on with the run."""


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> str:
    if sys.platform != "linux":
        pytest.skip("it looks for processes in /proc")
    source = tiny_source()
    path = tmp_path_factory.mktemp("images") / "images.npz"
    np.savez(path, images=source.images.transpose(0, 2, 3, 1), labels=source.labels)
    return f"arrays:{path}"


@pytest.fixture(scope="module")
def alone(images: str, tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """Return the losses of a run of one process that nothing disturbs."""
    run = tmp_path_factory.mktemp("alone") / "run"
    assert app.meta(["train", images, "--out", str(run), *OPTIONS]) == 0
    return steps_and_losses(run)[1]


def wait_for_step(run: Path, step: int, process: Started) -> None:
    """Wait until a run has a checkpoint of a step or of one after it."""

    def is_there() -> bool:
        assert process.poll() is None, process.communicate()
        return any(int(path.stem) >= step for path in (run / "checkpoints").glob("0*.safetensors"))

    wait_until(is_there)


def ranks_of(process: Started) -> list[int]:
    """Return the processes that a process has started, in the order of their numbers."""
    found = {}
    for child in children_of(process.pid):
        try:
            variables = Path(f"/proc/{child}/environ").read_text().split("\0")
        except OSError:
            continue  # it has just ended
        found |= {each: child for each in variables if each.startswith("RANK=")}
    return [found[rank] for rank in sorted(found)]


def steps_and_losses(run: Path) -> tuple[list[int], list[float]]:
    history = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    return [line["step"] for line in history], [line["loss"] for line in history]


def check_whole(run: Path, alone: Sequence[float]) -> None:
    """Check that every step was made once, and as one process makes them that nothing disturbs."""
    steps, losses = steps_and_losses(run)
    assert steps == list(range(1, STEPS + 1))
    assert losses == pytest.approx(alone, rel=1e-3)
    assert (run / "encoder.safetensors").is_file()
    assert (run / "detector.oddone").is_file()


def test_processes_that_are_killed_and_told_to_stop_lose_nothing(
    images: str, alone: list[float], tmp_path: Path, trials: Trials, rounds: Rounds
) -> None:
    steps = random.Random(0)  # noqa: S311
    for number in range(rounds(1, 30)):
        who, others = KILLS[number % len(KILLS)]
        step = steps.randrange(1, 10)
        run = tmp_path / str(number)
        with trials.trial("processes", f"{who} killed at {step}, {others} go on"):
            kill_and_go_on(images, run, step, who, others)
            check_whole(run, alone)


def kill_and_go_on(images: str, run: Path, step: int, who: str, others: int) -> None:
    begun = start("-m", "oddone", "train", images, "--out", str(run), *OPTIONS, "--processes", "2")
    wait_for_step(run, step, begun)
    first, second = ranks_of(begun)
    for process in {"one": [second], "all": [first, second], "starter": [begun.pid]}[who]:
        os.kill(process, signal.SIGKILL)
    code, _, told = end(begun)
    if who != "starter":
        assert code == 2
        assert told.count("\n") == 0
        assert "go on with oddone train --resume" in told
    wait_until_gone(first, second)
    assert not (run / "encoder.safetensors").exists()
    stopped = start("-m", "oddone", "train", "--resume", str(run), "--processes", str(others))
    wait_for_step(run, max(steps_and_losses(run)[0]) + 3, stopped)
    os.kill(stopped.pid, signal.SIGINT)
    code, printed, told = end(stopped)
    assert (code, told) == (130, "")
    assert printed.count("nothing is lost. Go on with:") == 1
    finished = start("-m", "oddone", "train", "--resume", str(run))
    assert end(finished)[::2] == (0, "")


def test_torchrun_on_two_machines_goes_on_by_itself_when_a_process_is_killed(
    images: str, alone: list[float], tmp_path: Path
) -> None:
    """The two machines are two launchers on this one, which meet at an address."""
    run = tmp_path / "run"
    meeting = ("--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{free_port()}")
    launch = ("-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1", *meeting)
    train = ("-m", "oddone", "train", images, "--out", str(run), *OPTIONS)
    words = (*launch, "--rdzv-id", "birds", "--max-restarts", "1", *train)
    machines = [start(*words), start(*words)]
    wait_for_step(run, 3, machines[0])
    os.kill(ranks_of(machines[1])[0], signal.SIGKILL)
    codes, printed, _ = zip(*map(end, machines), strict=True)
    assert codes == (0, 0)
    assert "".join(printed).count(f"done: {STEPS} steps") == 1
    check_whole(run, alone)
    provenance = json.loads((run / "provenance.json").read_text())
    assert (provenance["processes"], provenance["launch"]) == (2, "birds")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return int(listener.getsockname()[1])
