"""Micro-batches, with a function that only notes what it was given."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from oddone.service.batching import Batcher

MOST = 4
MILLISECOND = 0.001

Body = Callable[[Batcher[int, int]], Awaitable[None]]


class Doubler:
    """Doubles numbers, keeps what it was called with, and can be held up."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.go_on = Event()
        self.go_on.set()

    def __call__(self, items: Sequence[int]) -> list[int]:
        self.calls.append(list(items))
        assert self.go_on.wait(timeout=10)
        if 13 in items:
            raise ValueError("13 brings bad luck")
        return [2 * item for item in items]


@pytest.fixture
def double() -> Doubler:
    return Doubler()


@pytest.fixture
def run(double: Doubler) -> Iterator[Callable[[Body], None]]:
    """Return a function that runs a coroutine function with a batcher."""
    with ThreadPoolExecutor(1) as executor:

        def run_it(body: Body) -> None:
            async def whole() -> None:
                batcher = Batcher(double, executor, most=MOST, wait_seconds=MILLISECOND)
                await asyncio.wait_for(body(batcher), timeout=10)

            asyncio.run(whole())

        yield run_it


def test_items_that_come_at_once_are_processed_in_one_call(
    run: Callable[[Body], None], double: Doubler
) -> None:
    async def body(batcher: Batcher[int, int]) -> None:
        assert await asyncio.gather(*map(batcher.submit, (3, 1, 2))) == [6, 2, 4]
        assert await batcher.submit(5) == 10  # after a pause it begins anew

    run(body)
    assert double.calls == [[3, 1, 2], [5]]


def test_a_batch_has_no_more_than_the_most(run: Callable[[Body], None], double: Doubler) -> None:
    async def body(batcher: Batcher[int, int]) -> None:
        found = await asyncio.gather(*map(batcher.submit, range(10)))
        assert found == [2 * number for number in range(10)]

    run(body)
    assert double.calls == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_what_comes_while_a_batch_is_processed_is_the_next_batch(
    run: Callable[[Body], None], double: Doubler
) -> None:
    async def body(batcher: Batcher[int, int]) -> None:
        double.go_on.clear()
        first = asyncio.create_task(batcher.submit(1))
        await until(lambda: double.calls == [[1]])
        others = [asyncio.create_task(batcher.submit(number)) for number in (2, 3)]
        await asyncio.sleep(5 * MILLISECOND)
        double.go_on.set()
        assert await asyncio.gather(first, *others) == [2, 4, 6]

    run(body)
    assert double.calls == [[1], [2, 3]]


def test_an_item_that_nobody_waits_for_is_left_out(
    run: Callable[[Body], None], double: Doubler
) -> None:
    async def body(batcher: Batcher[int, int]) -> None:
        tasks = [asyncio.create_task(batcher.submit(number)) for number in (1, 2, 3)]
        await asyncio.sleep(0)  # so that all are waiting
        tasks[1].cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert [found[0], found[2]] == [2, 6]
        assert isinstance(found[1], asyncio.CancelledError)

    run(body)
    assert double.calls == [[1, 3]]


def test_an_item_that_is_given_up_while_it_is_processed_leaves_the_others_alone(
    run: Callable[[Body], None], double: Doubler
) -> None:
    async def body(batcher: Batcher[int, int]) -> None:
        double.go_on.clear()
        tasks = [asyncio.create_task(batcher.submit(number)) for number in (1, 2)]
        await until(lambda: double.calls == [[1, 2]])
        tasks[0].cancel()
        double.go_on.set()
        assert await tasks[1] == 4
        assert await batcher.submit(3) == 6

    run(body)


def test_an_error_reaches_all_who_wait_and_none_who_come_later(
    run: Callable[[Body], None], double: Doubler
) -> None:
    async def body(batcher: Batcher[int, int]) -> None:
        found = await asyncio.gather(*map(batcher.submit, (1, 13)), return_exceptions=True)
        assert [str(error) for error in found] == ["13 brings bad luck"] * 2
        assert await batcher.submit(4) == 8

    run(body)
    assert double.calls == [[1, 13], [4]]


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110  (what another thread does)
        await asyncio.sleep(MILLISECOND)
