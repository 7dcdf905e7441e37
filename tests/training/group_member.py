"""One of several processes for the fixture `groups`.

Its arguments are a folder, a port at which nobody is, one to meet at, and those for commands.
"""

import json
import os
import sys
from pathlib import Path

import torch
from group_cases import CASES, DTYPES, fit, go_on, normalise, step_of
from group_commands import run_commands
from safetensors.torch import save_file
from torch import Tensor

from oddone import distributed
from oddone.errors import OddOneError, ProcessError, SettingsError


def main() -> None:
    """Do all that is compared in a group; the last of it is to fail."""
    folder, number = Path(sys.argv[1]), os.environ["RANK"]
    unused, port, *ports = sys.argv[2:]
    if ports:
        run_commands(folder, ports)
    os.environ["MASTER_PORT"] = port
    os.environ["TORCHELASTIC_RESTART_COUNT"] = number  # each machine counts its own failures
    try:
        with distributed.joined(join_seconds=120):
            work(folder)
            fail_by_turns()
    except OddOneError as error:
        (folder / f"failed {number}.txt").write_text(str(error))
    except SystemExit as ended:
        (folder / f"silent {number}.txt").write_text(str(ended.code))
    if number == "1":
        look_for_nobody(folder, unused)


def look_for_nobody(folder: Path, port: str) -> None:
    """Join a group in which nobody else is."""
    os.environ["MASTER_PORT"] = port
    try:
        with distributed.joined(join_seconds=0.2):
            pass
    except ProcessError as error:
        (folder / "alone.txt").write_text(str(error))


def work(folder: Path) -> None:
    """Do all that is compared, and let the first process write what came of it."""
    for number, (name, case) in enumerate(CASES.items()):
        for kind, dtype in DTYPES.items():
            step = step_of(case, folder / f"run {number} {kind}", dtype)
            keep(folder, f"{name}, {kind}", step)
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


if __name__ == "__main__":
    main()
