"""The directory of a run: whole or not there, whatever ends the process, and for one at a time."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from oddone.errors import SettingsError
from oddone.training import RunDirectory, train_network
from runs import tiny_settings, tiny_source

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork"),
    pytest.mark.filterwarnings("ignore::oddone.errors.SettingsWarning"),
]

CHANGES = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.truncate"}


def killed_before_change(number: int, work: Callable[[], object]) -> bool:
    """Do some work in a process that is killed before it touches files for the nth time.

    Return whether it was killed, and not done before.
    """
    child = os.fork()
    if child == 0:
        seen = 0

        def kill(event: str, _: object) -> None:
            nonlocal seen
            if event in CHANGES:
                seen += 1
                if seen == number:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(kill)
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def make(path: Path, *, overwrite: bool = False, seed: int = 3) -> RunDirectory:
    return RunDirectory.create(path, tiny_settings(seed=seed), {"seed": seed}, overwrite=overwrite)


def assert_no_dead_end(path: Path) -> None:
    """Fail unless there is a whole run, or one can be made there without a word more."""
    try:
        RunDirectory.check_free(path)
    except ValueError:
        run = RunDirectory.open(path)
        assert run.settings == tiny_settings(seed=run.provenance["seed"])
        make(path, overwrite=True, seed=5)
    else:
        make(path, seed=5)
    assert RunDirectory.open(path).settings.seed == 5
    assert not list(path.parent.glob(".*"))  # nothing is left beside it


@pytest.mark.parametrize("state", ["missing", "empty", "run"])
def test_a_kill_while_a_run_is_made_is_no_dead_end(tmp_path: Path, state: str) -> None:
    number = 0
    killed = True
    while killed:
        number += 1
        path = tmp_path / f"{number}" / "run"
        path.parent.mkdir()
        if state == "empty":
            path.mkdir()
        if state == "run":
            make(path)
            (path / "checkpoints" / "000000001.safetensors").touch()
            (path / "history.jsonl").touch()
        killed = killed_before_change(
            number, lambda path=path: make(path, overwrite=state == "run", seed=4)
        )
        assert_no_dead_end(path)
    assert number > 5


def test_a_kill_while_a_run_is_removed_is_no_dead_end(tmp_path: Path) -> None:
    def fail(run: RunDirectory) -> None:
        with run.removed_unless_begun():
            raise ValueError

    number = 0
    killed = True
    while killed:
        number += 1
        path = tmp_path / f"{number}" / "run"
        path.parent.mkdir()
        run = make(path)
        killed = killed_before_change(number, lambda run=run: fail(run))
        assert killed or not path.exists()
        assert_no_dead_end(path)
    assert number > 3


def test_a_run_can_be_made_where_a_folder_is_given_and_its_parent_is_not_ours(
    tmp_path: Path,
) -> None:
    """Such as a folder that is mounted there, or a link to a larger disk."""
    real, link = tmp_path / "disk" / "run", tmp_path / "run"
    real.mkdir(parents=True)
    link.symlink_to(real)
    make(link)
    inode = real.stat().st_ino
    make(link, overwrite=True)
    assert link.is_symlink()
    assert real.stat().st_ino == inode
    assert RunDirectory.open(real).settings == tiny_settings()


def held_elsewhere(path: Path, work: Callable[[], None]) -> None:
    """Do some work while another process holds the lock of a directory."""
    ready, done = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        with RunDirectory.open(path).locked():
            os.write(ready[1], b"r")
            os.read(done[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    try:
        work()
    finally:
        os.kill(child, signal.SIGKILL)  # an owner that ends without a word
        os.waitpid(child, 0)


def test_while_one_trains_in_a_directory_another_is_refused(tmp_path: Path) -> None:
    run = make(tmp_path / "run")
    before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}

    def train_too() -> None:
        for attempt in (
            lambda: train_network(tiny_source(), run.settings, run),
            lambda: make(run.path, overwrite=True),
            run.remove,
        ):
            with pytest.raises(SettingsError, match=r"run is in use by process \d+ on .*; wait"):
                attempt()
        with pytest.raises(SettingsError, match="in use"), run.removed_unless_begun():
            pass

    held_elsewhere(run.path, train_too)
    assert {path: path.read_bytes() for path in before} == before
    # The owner was killed: its lock is noticed to be stale.
    assert (run.path / ".lock").exists()
    assert train_network(tiny_source(), run.settings, run).finished
    assert not (run.path / ".lock").exists()


def test_a_lock_may_be_taken_again_by_who_holds_it(tmp_path: Path) -> None:
    run = make(tmp_path / "run")
    with run.locked(), run.locked(), run.removed_unless_begun():
        assert train_network(tiny_source(), run.settings, run).finished
    with run.locked(), pytest.raises(SettingsError, match="in use"):
        train_network(tiny_source(), run.settings, RunDirectory.open(run.path))


def test_what_killed_processes_have_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    run = make(tmp_path / "run")
    old, new = f".oddone-{'a' * 16}.part", f".oddone-{'b' * 16}.part"
    for folder in (run.path, run.checkpoints):
        for name in (old, new, "x.part", ".oddone-1.part"):
            (folder / name).touch()
        os.utime(folder / old, (0, 0))
    with run.locked():
        pass
    for folder in (run.path, run.checkpoints):
        left = {path.name for path in folder.iterdir()}
        assert left >= {new, "x.part", ".oddone-1.part"}
        assert old not in left
