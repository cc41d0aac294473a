"""Do several works side by side for one host task, and be gone when the last of them is.

Rules:

1. Each work has a task of ours, of which none outlives `together`: works are bounded by themselves (they wait through
   `supervise`), and the host waits for all of them on every path.
2. Works begin in order, at most so many at once; once one of them raised, no further one begins.
3. A `Cancelled` leaves the others alone, since the signal has told them too. Any other error, and a cancellation of the
   host, presses the others as `task.cancel()` does.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Generic, TypeVar

from loopctl.concurrency._tasks import spawn
from loopctl.errors import Cancelled

__all__ = ["together"]

T = TypeVar("T")


class _Group(Generic[T]):
    def __init__(self, works: Sequence[Callable[[], Coroutine[Any, Any, T]]], limit: int, name: str) -> None:
        self.values: dict[int, T] = {}
        self.stops: dict[int, Cancelled] = {}
        self.fault: BaseException | None = None
        self._queued = deque(enumerate(works))
        self._limit = limit
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._running: dict[asyncio.Task[BaseException | None], int] = {}
        self._over: asyncio.Future[None] | None = None
        self._is_pressed = False
        self._begin_more()

    async def wait(self) -> None:
        """Wait until no task is left; may be called again after the host was cancelled in it."""
        if self._running:
            self._over = self._loop.create_future()
            await self._over

    def is_over(self) -> bool:
        return not self._running

    def press(self) -> None:
        """Begin nothing more, and cancel what runs."""
        is_first, self._is_pressed = not self._is_pressed, True
        self._queued.clear()
        for task in self._running:
            if not (is_first and task.cancelling()):  # `asyncio.run` cancels every task at its end, ours too
                task.cancel()

    def _begin_more(self) -> None:
        while self._queued and len(self._running) < self._limit:
            index, work = self._queued.popleft()
            task = spawn(self._do(index, work), self._loop, self._name)
            self._running[task] = index
            task.add_done_callback(self._on_done)

    async def _do(self, index: int, work: Callable[[], Coroutine[Any, Any, T]]) -> BaseException | None:
        try:
            self.values[index] = await work()
        except BaseException as error:  # raised again by the host, whose it is
            return error
        return None

    def _on_done(self, task: asyncio.Task[BaseException | None]) -> None:
        index = self._running.pop(task)
        error = asyncio.CancelledError() if task.cancelled() else task.result()  # cancelled: before its first step
        match error:
            case None:
                self._begin_more()
            case Cancelled():
                self.stops[index] = error
                self._queued.clear()
            case _:
                self._on_fault(error)
        if not self._running and self._over is not None and not self._over.done():
            self._over.set_result(None)

    def _on_fault(self, error: BaseException) -> None:
        if self.fault is None:
            self.fault = error
        if not self._is_pressed:  # twice would take the grace away
            self.press()


async def together(
    works: Sequence[Callable[[], Coroutine[Any, Any, T]]], *, limit: int, name: str = "loopctl"
) -> tuple[T, ...]:
    """Do *works* side by side.

    Args:
        works: Each is called when its turn comes, and bounded by itself.
        limit: How many may go on at once, 1 or more.
        name: The name of their tasks.

    Returns:
        What each gave, in the order of *works*.

    Raises:
        asyncio.CancelledError: The host task was cancelled.
        Cancelled: That of the first work, in the order of *works*, that raised it.
        BaseException: What a work raised first, if it was anything else; it comes before every `Cancelled`.

    Cancellation:
        A checkpoint. Each cancellation of the host is passed on to what runs, and the first one goes on when all have
        ended.
    """
    group = _Group(works, limit, name)
    host_error: asyncio.CancelledError | None = None
    while not group.is_over():
        try:
            await group.wait()
        except asyncio.CancelledError as error:
            host_error = host_error or error
            group.press()
    fault = host_error or group.fault
    if fault is not None:
        raise fault
    if group.stops:
        raise group.stops[min(group.stops)]
    return tuple(group.values[index] for index in range(len(works)))
