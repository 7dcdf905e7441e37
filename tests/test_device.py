import os
import platform
import resource
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import Tensor

from oddone.device import (
    choose_device,
    keep_freed_memory,
    map_in_threads,
    release_freed_memory,
)
from oddone.errors import SettingsError

CPU = torch.device("cpu")


@pytest.fixture
def _two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("_two_threads")
def test_two_threads_take_one_batch_each_at_the_same_time() -> None:
    together = threading.Barrier(2, timeout=60)

    def work(batch: Tensor) -> tuple[int, int]:
        together.wait()  # which nobody passes alone
        return int(batch), torch.get_num_threads()

    assert map_in_threads(work, [torch.tensor(n) for n in range(6)], CPU) == [
        (n, 1) for n in range(6)
    ]
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("_two_threads")
@pytest.mark.parametrize(("batches", "device"), [(1, "cpu"), (0, "cpu"), (3, "meta")])
def test_one_batch_and_other_devices_are_served_where_they_are_asked_for(
    batches: int, device: str
) -> None:
    names = map_in_threads(
        lambda _: threading.current_thread().name, [torch.empty(0)] * batches, torch.device(device)
    )
    assert names == [threading.current_thread().name] * batches


@pytest.mark.parametrize("batches", [1, 4])
def test_a_callers_autocast_changes_nothing(batches: int) -> None:
    def multiply(rows: Tensor) -> torch.dtype:
        return (rows @ rows).dtype

    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert multiply(torch.ones(2, 2)) == torch.bfloat16
        found = map_in_threads(multiply, [torch.ones(2, 2)] * batches, torch.device("cpu"))
    assert found == [torch.float32] * batches


def test_one_thread_takes_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    names = map_in_threads(lambda _: threading.current_thread().name, [torch.empty(0)] * 3, CPU)
    assert names == [threading.current_thread().name] * 3


def threads_of_a_new_thread() -> int:
    with ThreadPoolExecutor(1) as one:
        return one.submit(torch.get_num_threads).result()


@pytest.mark.usefixtures("_two_threads")
def test_new_threads_see_as_many_torch_threads_as_before() -> None:
    map_in_threads(lambda _: None, [torch.empty(0)] * 4, CPU)
    assert threads_of_a_new_thread() == 2
    with pytest.raises(ZeroDivisionError):
        map_in_threads(lambda _: 1 // 0, [torch.empty(0)] * 4, CPU)
    assert threads_of_a_new_thread() == 2


@pytest.mark.usefixtures("_two_threads")
def test_calls_in_many_threads_leave_torch_its_threads() -> None:
    def call(_: int) -> int:
        map_in_threads(lambda _: time.sleep(0.002), [torch.empty(0)] * 4, CPU)
        return torch.get_num_threads()

    for _ in range(5):
        with ThreadPoolExecutor(8) as callers:
            list(callers.map(call, range(24)))
        assert threads_of_a_new_thread() == 2
        assert torch.get_num_threads() == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_computes_and_does_not_hang(run_python: Callable[[str], str]) -> None:
    script = """
        import os, signal, sys, torch
        import oddone.device
        torch.set_num_threads(2)
        numbers = torch.rand(2_000_000)
        numbers.sin().sum()  # with a team of threads, which no child inherits
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            numbers.sin().sum()
            os._exit(torch.get_num_threads())
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), torch.get_num_threads())
    """
    assert run_python(script) == "1 2"


@pytest.mark.usefixtures("_two_threads")
def test_an_error_in_a_batch_is_raised() -> None:
    def work(batch: Tensor) -> None:
        if batch == 3:
            raise ValueError("three")

    with pytest.raises(ValueError, match="three"):
        map_in_threads(work, [torch.tensor(n) for n in range(6)], CPU)


def test_the_fastest_device_that_is_available_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_device("cpu").type == "cpu"
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: True)
    assert choose_device().type == "mps"
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert choose_device().type == "cuda"
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    with pytest.raises(SettingsError, match="device='mps' is not available; choose 'auto' or"):
        choose_device("mps")


def test_glibc_is_asked_to_keep_memory_and_others_are_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("platform.libc_ver", lambda: ("musl", "1.2"))
    assert not keep_freed_memory()
    monkeypatch.setattr("ctypes.CDLL", lambda _: pytest.fail("another C library was asked"))
    release_freed_memory()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_glibc_understands() -> None:
    assert keep_freed_memory()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_freed_memory_between_what_is_in_use_is_given_back() -> None:
    pieces = [torch.ones(2**14) for _ in range(1024)]  # 64 KiB each, too small to be mapped alone
    kept = pieces[::2]
    del pieces
    before = resident_bytes()
    release_freed_memory()
    assert before - resident_bytes() > 2**24  # of the 2**25 that are free
    assert len(kept) == 512


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()
