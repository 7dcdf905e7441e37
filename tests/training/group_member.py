"""Groups of processes for `test_distributed.py`.

They are forked from one that has imported torch, and computed nothing, which takes no time.
"""

import json
import os
import socket
import sys
import traceback
from pathlib import Path

import torch
from group_cases import CASES, fit, go_on, normalise, step_of
from safetensors.torch import save_file
from torch import Tensor

from oddone import distributed
from oddone.errors import OddOneError, ProcessError, SettingsError


def main() -> None:
    """Let two processes, then three, do all that is compared, and one wait for nobody."""
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    for size in (2, 3):
        run_group(size, folder / str(size))
    os.environ |= {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost"}
    os.environ["MASTER_PORT"] = str(free_port())
    try:
        with distributed.joined(join_seconds=0.2):
            pass
    except ProcessError as error:
        (folder / "alone.txt").write_text(str(error))


def run_group(size: int, folder: Path) -> None:
    """Start so many processes, and wait for them."""
    port, members = free_port(), []
    for rank in range(size):
        child = os.fork()
        if child == 0:
            os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank)}
            os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
            try:
                work(folder)
            except BaseException:  # noqa: BLE001  (a child must not go on as its parent)
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        members.append(child)
    codes = [os.waitpid(child, 0)[1] for child in members]
    if any(codes):
        sys.exit(f"processes of a group of {size} ended with {codes}")


def work(folder: Path) -> None:
    """Do all that is compared, and let the first process write what came of it."""
    with distributed.joined(join_seconds=60):
        for number, (name, case) in enumerate(CASES.items()):
            keep(folder, name, step_of(case, folder / f"run {number}"))
        keep(folder, "batch norm", normalise())
        keep(folder, "fit", fit())
        go_on(folder / "begun")
        said = {
            "same": complaint({"images": "same"}),
            "other": complaint({"images": distributed.rank()}),
            "missing": complaint({} if distributed.is_first() else {"outliers": 3}),
            "first": distributed.from_first(lambda: {"rank": distributed.rank()}),
            "largest": distributed.largest(float(distributed.rank()), -1.0),
            "described": distributed.describe(),
        }
        if distributed.is_first():
            (folder / "said.json").write_text(json.dumps(said))
    try:
        with distributed.joined(join_seconds=60):
            fail_by_turns()
    except OddOneError as error:
        (folder / f"failed {os.environ['RANK']}.txt").write_text(str(error))
    except SystemExit as ended:
        (folder / f"silent {os.environ['RANK']}.txt").write_text(str(ended.code))


def fail_by_turns() -> None:
    """Let the last process fail; the others then fail because it is gone."""
    if distributed.rank() == distributed.count() - 1:
        raise SettingsError("the last process has no images")
    distributed.gather_rows(torch.zeros(1))


def keep(folder: Path, name: str, found: dict[str, Tensor]) -> None:
    if distributed.is_first():
        contiguous = {key: numbers.contiguous() for key, numbers in found.items()}
        save_file(contiguous, folder / f"{name}.safetensors")


def complaint(facts: dict[str, object]) -> str:
    try:
        distributed.check_same(facts)
    except SettingsError as error:
        return str(error)
    return ""


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("localhost", 0))
        port: int = listening.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
