"""Groups of processes, which are started once: that takes seconds."""

from pathlib import Path

import pytest
from comparing import begun, train_until
from group_cases import SIZES, run_settings
from group_commands import COMMANDS, SIZE, write_images
from groups import free_ports, run_group

from runs import tiny_source


@pytest.fixture(scope="session")
def groups(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which groups of two and of three processes have left what they found.

    Each has gone on with a run that one process had begun; the three have run commands, too.
    """
    folder = tmp_path_factory.mktemp("groups")
    for size in SIZES:
        train_until(2, tiny_source(), begun(folder / str(size) / "begun", run_settings()))
        ports = free_ports(2 + (len(COMMANDS) if size == SIZE else 0))
        if size == SIZE:
            write_images(folder / str(size), 47)  # which three cannot share evenly
        run_group(
            size,
            "group_member.py",
            str(folder / str(size)),
            *map(str, ports),
            ODDONE_CACHE=str(folder / "cache"),
        )
    return folder
