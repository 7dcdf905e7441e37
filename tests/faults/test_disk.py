"""A disk that fails at any moment: what was there stays, and the error is a line that helps.

On a healthy disk, the same command then leads to what it would have led to at first.
"""

import random
from collections.abc import Callable, Sequence

import pytest
from commands import (
    COMMANDS,
    Stage,
    check_again,
    check_again_by_one,
    check_equal,
    check_is_one_line,
    check_kept,
    chosen_numbers,
)
from contents import HISTORY, Contents, contents_of
from launcher import Finished
from trials import Rounds, Trials

REASONS = {
    "ENOSPC": "No space left on device",
    "EIO": "Input/output error",
    "EACCES": "Permission denied",
}
ON_OPEN_FILES = ("write", "fsync", "fdatasync", "ftruncate", "ftruncate64")
AFFECTED: dict[str, Callable[[str], bool]] = {
    "EACCES": lambda operation: operation not in ON_OPEN_FILES,
    "short": lambda operation: operation == "write",
}
"""Which operations a fault happens to, where it does not happen to all."""
FLIPPED = {
    "calibrate": ("run/detector.oddone", "run/detector.oddone"),
    "extend": ("run/checkpoints/000000003.safetensors", "run/encoder.safetensors"),
}
"""Which file a command reads, and which it makes of it."""


def check_faulty(
    stage: Stage, name: str, fault: str, number: int, changes: Sequence[str] = ()
) -> None:
    """Run a command on a disk that fails; check what it says, what it leaves, and what comes."""
    _, wanted = stage.undisturbed(name)
    stage.set_up(COMMANDS[name].before)
    before = contents_of(stage.work)
    disturbed = stage.run(name, changes, fault=fault, number=number)
    between = contents_of(stage.work)
    if disturbed.code == 0:  # what failed was not needed, or there was another way
        check_equal(_without_cache(between), _without_cache(wanted))
        return
    check_refused(stage, disturbed, fault)
    check_kept(between, before, wanted)
    check_again(stage, name, between, wanted)


def check_refused(stage: Stage, disturbed: Finished, fault: str) -> None:
    """Check that a command has said in one line what the disk has done."""
    check_is_one_line(disturbed, stage.work)
    assert REASONS[fault] in disturbed.complained, disturbed.complained


def _without_cache(contents: Contents) -> Contents:
    """Return what a command is run for; what cannot be kept in the cache is computed again."""
    return {name: content for name, content in contents.items() if not name.startswith("cache/")}


def check_flipped(
    stage: Stage, name: str, *, byte: int, bit: int, changes: Sequence[str] = ()
) -> None:
    """Flip a bit of a file that a command reads: that is told, or it makes no difference.

    Of a checkpoint that was altered the one before is used, which leads to other weights where a
    run is extended: its learning rates follow from its length.
    """
    _, wanted = stage.undisturbed(name)
    stage.set_up(COMMANDS[name].before)
    read, made = FLIPPED[name]
    content = bytearray((stage.work / read).read_bytes())
    content[byte] ^= 1 << bit
    (stage.work / read).write_bytes(content)
    finished = stage.run(name, changes)
    if finished.code == 0:
        complained = finished.complained.replace("\n", " ")
        told = any(f"{read} {what}" in complained for what in ("was altered", "is damaged"))
        same = contents_of(stage.work)[made] == wanted[made]
        assert told or same, f"nobody has noticed that {read} was altered"
    else:
        check_is_one_line(finished, stage.work)


def unflushed(operations: Sequence[str]) -> list[str]:
    """Return which files got a name, or were in a folder that did, before the disk had them.

    After a power failure such a name may belong to an empty file.
    """
    written: set[str] = set()
    found: list[str] = []
    for operation, path in (line.split(" ", 1) for line in operations):
        if operation == "write" and not path.endswith(("/.lock", HISTORY)):
            written.add(path)
        elif operation == "fsync":
            written.discard(path)
        elif operation == "rename":
            found += written
            written.clear()
    return found


@pytest.mark.parametrize("fault", ["ENOSPC", "EIO", "EACCES", "short"])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_disk_that_fails_at_any_change_of_a_file(
    stage: Stage, name: str, fault: str, trials: Trials, rounds: Rounds
) -> None:
    operations = stage.undisturbed(name)[0].operations
    affected = AFFECTED.get(fault, lambda _: True)
    for number in chosen_numbers(operations, rounds(1, 200), affected):
        with trials.trial(f"disk, {fault}: {name}", f"at {number}, {operations[number - 1]}"):
            check_faulty(stage, name, fault, number)


@pytest.mark.parametrize("fault", ["ENOSPC", "EIO"])
def test_a_disk_that_fails_under_several_processes(
    stage: Stage, fault: str, trials: Trials, rounds: Rounds
) -> None:
    operations = stage.undisturbed("extend")[0].operations  # the first of them does all of these
    for number in chosen_numbers(operations, rounds(1, 30)):
        details = f"at {number}, {operations[number - 1]}"
        with trials.trial(f"disk, {fault}: extend by two processes", details):
            check_faulty_together(stage, "extend", fault, number)


def check_faulty_together(stage: Stage, name: str, fault: str, number: int) -> None:
    """Let two processes run a command on a disk that fails, and then one on a healthy disk."""
    _, wanted = stage.undisturbed(name)
    stage.set_up(COMMANDS[name].before)
    before = contents_of(stage.work)
    disturbed = stage.run_together(name, fault=fault, number=number)
    if disturbed.code == 0:
        assert sorted(contents_of(stage.work)) == sorted(wanted)
        return
    check_refused(stage, disturbed, fault)
    check_again_by_one(stage, name, before, wanted)


@pytest.mark.parametrize("name", FLIPPED)
def test_a_bit_that_flips_is_noticed(
    stage: Stage, name: str, trials: Trials, rounds: Rounds
) -> None:
    stage.set_up(COMMANDS[name].before)
    size = (stage.work / FLIPPED[name][0]).stat().st_size
    chosen = random.Random(0)  # noqa: S311
    for _ in range(rounds(5, 200)):
        byte, bit = chosen.randrange(size), chosen.randrange(8)
        with trials.trial(f"disk, a flipped bit: {name}", f"bit {bit} of byte {byte}"):
            check_flipped(stage, name, byte=byte, bit=bit)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_disk_has_a_file_before_it_gets_its_name(stage: Stage, name: str) -> None:
    operations = stage.undisturbed(name)[0].operations
    assert any(operation.startswith("rename ") for operation in operations)
    assert unflushed(operations) == []
