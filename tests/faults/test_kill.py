"""A process that is killed at any moment leaves nothing that looks complete and is not.

To run the command once more, or to resume it, then leads to what it would have led to undisturbed.
"""

import random
import time
from collections.abc import Sequence

import pytest
from commands import (
    COMMANDS,
    Stage,
    check_again,
    check_again_by_one,
    check_equal,
    check_old_or_new,
    chosen_numbers,
)
from contents import contents_of
from launcher import KILLED
from trials import Rounds, Trials


def check_killed(stage: Stage, name: str, changes: Sequence[str] = (), **fault: object) -> None:
    """Kill a command, and check what it leaves and what comes of it."""
    _, wanted = stage.undisturbed(name)
    stage.set_up(COMMANDS[name].before)
    before = contents_of(stage.work)
    killed = stage.run(name, changes, **fault)
    assert killed.code in {KILLED, 0}, killed.complained  # 0: it was over before
    between = contents_of(stage.work)
    check_old_or_new(between, before, wanted)
    check_again(stage, name, between, wanted)


@pytest.mark.parametrize("name", COMMANDS)
def test_killed_at_any_change_of_a_file(
    stage: Stage, name: str, trials: Trials, rounds: Rounds
) -> None:
    operations = stage.undisturbed(name)[0].operations
    for number in chosen_numbers(operations, rounds(2 if COMMANDS[name].slow else 6, 200)):
        with trials.trial(f"kill: {name}", f"at {number}, {operations[number - 1]}"):
            check_killed(stage, name, fault="kill", number=number)


@pytest.mark.parametrize("name", COMMANDS)
def test_killed_at_any_moment(stage: Stage, name: str, trials: Trials, rounds: Rounds) -> None:
    stage.undisturbed(name)
    stage.set_up(COMMANDS[name].before)
    began = time.monotonic()
    stage.run(name)
    seconds = time.monotonic() - began
    moments = random.Random(name)  # noqa: S311
    for _ in range(rounds(1 if COMMANDS[name].slow else 4, 200)):
        moment = moments.uniform(0, seconds)
        with trials.trial(f"kill: {name}", f"after {moment:.3f} s"):
            check_killed(stage, name, kill_after=moment)


def check_killed_together(stage: Stage, name: str, number: int) -> None:
    """Let two processes run a command, kill the one that writes, and let one go on."""
    _, wanted = stage.undisturbed(name)
    stage.set_up(COMMANDS[name].before)
    before = contents_of(stage.work)
    killed = stage.run_together(name, fault="kill", number=number)
    assert killed.code == 2, (killed.code, killed.complained)
    assert "Traceback" not in killed.complained, killed.complained
    assert killed.complained.count("oddone: ") == 1, killed.complained
    assert "go on with oddone train --resume" in killed.complained
    check_again_by_one(stage, name, before, wanted)


@pytest.mark.parametrize("name", ["train", "extend"])
def test_one_of_two_processes_killed_at_any_change_of_a_file(
    stage: Stage, name: str, trials: Trials, rounds: Rounds
) -> None:
    operations = stage.undisturbed(name)[0].operations  # the first of the two does all of these
    for number in chosen_numbers(operations, rounds(1, 200)):
        details = f"at {number}, {operations[number - 1]}"
        with trials.trial(f"kill: {name} by two processes", details):
            check_killed_together(stage, name, number)


def test_a_process_of_this_harness_does_what_one_of_a_user_does(stage: Stage) -> None:
    _, wanted = stage.undisturbed("train")
    stage.set_up(COMMANDS["train"].before)
    stage.run_alone("train")
    check_equal(contents_of(stage.work), wanted)
