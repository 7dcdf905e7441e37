import threading
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from oddone.detector.side_by_side import side_by_side

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

    assert side_by_side(work, [torch.tensor(n) for n in range(6)], CPU) == [
        (n, 1) for n in range(6)
    ]
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("_two_threads")
@pytest.mark.parametrize(("batches", "device"), [(1, "cpu"), (0, "cpu"), (3, "meta")])
def test_one_batch_and_other_devices_are_served_where_they_are_asked_for(
    batches: int, device: str
) -> None:
    names = side_by_side(
        lambda _: threading.current_thread().name, [torch.empty(0)] * batches, torch.device(device)
    )
    assert names == [threading.current_thread().name] * batches


def test_one_thread_takes_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    names = side_by_side(lambda _: threading.current_thread().name, [torch.empty(0)] * 3, CPU)
    assert names == [threading.current_thread().name] * 3


@pytest.mark.usefixtures("_two_threads")
def test_an_error_in_a_batch_is_raised() -> None:
    def work(batch: Tensor) -> None:
        if batch == 3:
            raise ValueError("three")

    with pytest.raises(ValueError, match="three"):
        side_by_side(work, [torch.tensor(n) for n in range(6)], CPU)
