"""Micro-batches: images that arrive within a few milliseconds share a forward pass."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from itertools import islice
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Batcher(Generic[Item, Result]):
    """Gathers items of many callers and processes them together, in the order they came."""

    def __init__(
        self,
        process: Callable[[Sequence[Item]], Sequence[Result]],
        executor: Executor,
        *,
        most: int,
        wait_seconds: float,
    ) -> None:
        self._process = process
        self._executor = executor
        self._most = most
        self._wait_seconds = wait_seconds
        self._waiting: deque[tuple[Item, asyncio.Future[Result]]] = deque()
        self._running: asyncio.Task[None] | None = None

    async def submit(self, item: Item) -> Result:
        """Return what becomes of an item; who no longer waits for it takes it out again."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        """Process batch after batch until nothing waits."""
        try:
            while self._waiting:
                if len(self._waiting) < self._most:
                    await asyncio.sleep(self._wait_seconds)
                wanted = (each for each in _popped(self._waiting) if not each[1].done())
                batch = list(islice(wanted, self._most))
                if batch:
                    await self._run_batch(batch)
        finally:
            self._running = None

    async def _run_batch(self, batch: list[tuple[Item, asyncio.Future[Result]]]) -> None:
        loop, items = asyncio.get_running_loop(), [item for item, _ in batch]
        try:
            results = await loop.run_in_executor(self._executor, self._process, items)
        except Exception as error:  # noqa: BLE001  (whoever waits for it gets it)
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), result in zip(batch, results, strict=True):
            if not future.done():
                future.set_result(result)


def _popped(
    waiting: deque[tuple[Item, asyncio.Future[Result]]],
) -> Iterator[tuple[Item, asyncio.Future[Result]]]:
    while waiting:
        yield waiting.popleft()
