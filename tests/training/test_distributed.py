"""Several processes are one: what they compute together is what one computes alone."""

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from comparing import begun, losses
from group_cases import CASES, DTYPES, SIZES, fit, normalise, run_settings, step_of
from groups import free_ports, run_group
from safetensors.torch import load_file
from torch import Tensor

from oddone import distributed
from oddone.errors import DataError, ProcessError, SettingsError
from oddone.training import BatchSettings, RunDirectory, train_network
from oddone.training.shares import RowShare, check_shares, own_share
from runs import tiny_source

WITH_A_JUMP = "mcl, all poses"
"""In one process in float32, the input of a ReLU passes zero (docs/guides/several-gpus.md)."""


def assert_same(found: dict[str, Tensor], wanted: dict[str, Tensor], most: float) -> None:
    """Fail unless all tensors are as near to each other as that, relative to their length."""
    assert found.keys() == wanted.keys()
    for name, numbers in wanted.items():
        apart = (found[name].double() - numbers.double()).norm()
        assert apart <= most * numbers.double().norm(), name


Steps = Callable[[str, str], dict[str, Tensor]]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Steps:
    """Return a function from a case and a kind of numbers to the step of one process."""

    @cache
    def step(name: str, kind: str) -> dict[str, Tensor]:
        return step_of(CASES[name], tmp_path_factory.mktemp("alone") / "run", DTYPES[kind])

    return step


def step_of_group(groups: Path, size: int, name: str, kind: str) -> dict[str, Tensor]:
    return load_file(groups / str(size) / f"{name}, {kind}.safetensors")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", CASES)
def test_a_step_of_several_processes_is_that_of_one(
    groups: Path, alone: Steps, name: str, size: int
) -> None:
    exact = alone(name, "float64")
    assert_same(step_of_group(groups, size, name, "float64"), exact, most=1e-9)
    assert_same(step_of_group(groups, size, name, "float32"), exact, most=1e-5)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", CASES)
def test_in_float32_several_processes_are_as_near_to_one_as_rounding_lets_it_be(
    groups: Path, alone: Steps, name: str, size: int
) -> None:
    """A ReLU whose input passes zero by rounding, as in one case, is no error of the processes."""
    together, one = step_of_group(groups, size, name, "float32"), alone(name, "float32")
    assert_same(whole(together), whole(one), most=1e-2 if name == WITH_A_JUMP else 1e-5)


def whole(step: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the loss, and the gradient of all weights as one vector."""
    parts = [step[name].flatten() for name in sorted(step) if name.startswith("gradient of ")]
    return {"loss": step["loss"], "gradient": torch.cat(parts)}


@pytest.mark.parametrize("size", SIZES)
def test_batch_norm_sees_the_rows_of_all_processes(groups: Path, size: int) -> None:
    assert_same(load_file(groups / str(size) / "batch norm.safetensors"), normalise(), most=1e-12)


@pytest.mark.parametrize("size", SIZES)
def test_moments_and_samples_of_several_processes_are_those_of_one(groups: Path, size: int) -> None:
    assert_same(load_file(groups / str(size) / "fit.safetensors"), fit(), most=1e-12)


@pytest.mark.parametrize("size", SIZES)
def test_several_processes_go_on_with_a_run_that_one_has_begun(
    groups: Path, tmp_path: Path, size: int
) -> None:
    alone = begun(tmp_path / "run", run_settings())
    train_network(tiny_source(), alone.settings, alone)
    together = RunDirectory.open(groups / str(size) / "begun")
    assert together.finished
    assert [step for step, _ in losses(together)] == [1, 2, 3, 4]
    torch.testing.assert_close(losses(together), losses(alone), rtol=1e-4, atol=0)


def test_one_process_goes_on_with_a_run_that_several_have_begun(groups: Path) -> None:
    run = RunDirectory.open(groups / "2" / "begun")
    run.extend(replace(run.settings, steps=5))
    outcome = train_network(tiny_source(), run.settings, run)
    assert (outcome.finished, outcome.step) == (True, 5)


@pytest.mark.parametrize("size", SIZES)
def test_processes_compare_what_they_know(groups: Path, size: int) -> None:
    said = json.loads((groups / str(size) / "said.json").read_text())
    assert said["same"] == ""
    assert said["other"].startswith("images is 1 in process 1 on ")
    assert said["other"].endswith("; start all with the same")
    assert said["missing"].startswith("outliers is 3 in process 1")
    assert said["first"] == {"rank": 0}
    assert said["largest"] == [size - 1, -1]
    assert said["described"] == {"processes": size}


def test_an_error_in_one_process_is_raised_once(groups: Path) -> None:
    assert (groups / "2" / "failed 1.txt").read_text() == "the last process has no images"
    told = sorted(path.name for path in (groups / "2").glob("* [01].txt"))
    # The one that was left may find the notes of the others gone with the process that kept them.
    assert told in (["failed 1.txt", "silent 0.txt"], ["failed 0.txt", "failed 1.txt"])


def test_who_fails_in_its_turn_says_why_however_slowly_it_leaves(tmp_path: Path) -> None:
    run_group(2, "turn_member.py", str(tmp_path), *map(str, free_ports(1)))
    assert (tmp_path / "failed 0.txt").read_text() == "the disk is full; free some of it"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["failed 0.txt", "silent 1.txt"]


def test_a_process_that_finds_no_others_says_where_it_looked(groups: Path) -> None:
    said = (groups / "2" / "alone.txt").read_text()
    assert said.startswith("process 1 of 2 could not join the others at localhost:")
    assert said.endswith("; start them all, at an address that all can reach")


# --- Who takes what


def in_group(monkeypatch: pytest.MonkeyPatch, rank: int, size: int) -> None:
    monkeypatch.setattr(distributed, "rank", lambda: rank)
    monkeypatch.setattr(distributed, "count", lambda: size)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("batch", [{"parts": 1}, {"parts": 5}, {"parts": 1, "chunk": 5}])
def test_every_row_belongs_to_one_process_in_order(
    monkeypatch: pytest.MonkeyPatch, size: int, batch: dict[str, int]
) -> None:
    settings, ends = BatchSettings(**batch), [0]  # type: ignore[arg-type]
    for rank in range(size):
        in_group(monkeypatch, rank, size)
        rows, sizes = own_share(23, settings)
        assert rows.start == ends[-1]
        assert rows.stop - rows.start == sum(sizes)
        assert all(number >= 2 for number in sizes)
        assert max(sizes) <= (settings.chunk or 23)
        ends.append(rows.stop)
    assert ends[-1] == 23


@pytest.mark.parametrize(("wanted", "sizes"), [(5, [4, 5, 5, 5, 5]), (100, [2] * 12), (1, [24])])
def test_no_part_has_less_than_two_rows(wanted: int, sizes: list[int]) -> None:
    assert own_share(24, BatchSettings(parts=wanted)) == RowShare(slice(0, 24), sizes)


def test_more_processes_than_images_or_parts_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_group(monkeypatch, 0, 3)
    with pytest.raises(DataError, match="3 processes and 2 images a step; start at most 2"):
        check_shares(2, 16, BatchSettings())
    with pytest.raises(SettingsError, match=r"batch\.parts cuts .* 2 parts.* batch\.parts=3 "):
        check_shares(8, 16, BatchSettings(parts=2))
    with pytest.raises(SettingsError, match=r"batch\.chunk cuts a step into 2 parts"):
        check_shares(8, 16, BatchSettings(chunk=8))
    check_shares(8, 16, BatchSettings())
    check_shares(8, 16, BatchSettings(parts=4))
    distributed.check_device(torch.device("cpu"))
    with pytest.raises(SettingsError, match="device='mps' is for one process alone"):
        distributed.check_device(torch.device("mps"))


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({"chunk": 1}, r"batch\.chunk=1: choose 2 rows or more"),
        ({"chunk": 8, "parts": 2}, r"batch\.chunk=8 and batch\.parts=2 are two ways"),
    ],
)
def test_chunks_that_make_no_sense_are_refused(batch: dict[str, int], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        BatchSettings(**batch)  # type: ignore[arg-type]


# --- Starting them


def test_no_processes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match="--processes 0: choose 1 or more"):
        distributed.start(0, [])
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(SettingsError, match="in a process that torchrun has started"):
        distributed.start(2, [])


def test_processes_that_say_why_they_failed_give_the_exit_code() -> None:
    assert distributed._code_of({1: 2, 0: -15}) == 2
    assert distributed._code_of({0: 130, 1: 130}) == 130
    with pytest.raises(ProcessError, match="process 1 of the run was ended by SIGKILL; "):
        distributed._code_of({1: -9, 0: -15})


def test_a_launch_has_one_name_in_all_its_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    assert distributed.launch_name() is None
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")  # what torchrun sets where nobody chooses
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")
    assert distributed.restart_of() is None
    first = distributed.launch_name()
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert distributed.restart_of() == first
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "job 7")
    assert distributed.restart_of() == "job 7"


def test_a_failure_that_one_machine_has_counted_is_one_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "job 7")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")  # as where it was not a failure here
    monkeypatch.setattr(distributed, "largest", lambda own: (max(own, 1.0),))
    assert distributed.restart_of() == "job 7"


def test_each_attempt_has_a_name_of_its_own_that_all_its_processes_know() -> None:
    """The store keeps what earlier attempts have left, and the first process may come last."""
    store = distributed.dist.HashStore()
    names = []
    for _ in range(3):
        with ThreadPoolExecutor(3) as processes:
            others = [processes.submit(distributed._meet, store, each, 3, 60.0) for each in (2, 1)]
            time.sleep(0.12)  # so that they find what is left of the attempt before
            assert not any(each.done() for each in others)
            names.append(distributed._meet(store, 0, 3, 60.0))
        assert [each.result() for each in others] == [names[-1]] * 2
    assert len(set(names)) == 3


def test_a_process_gives_up_a_first_one_of_which_only_an_old_name_is_left() -> None:
    store = distributed.dist.HashStore()
    store.set("attempt", "an earlier one")
    with pytest.raises(RuntimeError, match="process 0 has not answered for 0.1 s"):
        distributed._meet(store, 1, 2, 0.1)
