"""What `notified()` gives: an awaitable bound to one token.

Invariants:

1. Each await has a future of its own. A future that two tasks share is cancelled for both when one of them is.
2. Nothing is made or registered before the first step: one that is never awaited leaves nothing, and warns of nothing.
3. It is a coroutine to asyncio, so `create_task` takes it; as a task it can be used once, awaited it can be any number
   of times.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Coroutine, Generator
from typing import Any

from loopctl.cancel._latch import Latch
from loopctl.cancel._registration import LoopWatch
from loopctl.record import CancelReason

__all__ = ["Notified"]


class Notified(Coroutine[Any, Any, CancelReason]):
    """Waits until its token is cancelled, and gives the reason.

    Cancellation:
        Cancelling the task that awaits it takes the waiter out again; nothing else is touched.
    """

    __slots__ = ("_at_least", "_latch", "_own")

    def __init__(self, latch: Latch, at_least: int) -> None:
        """Be bound to *latch* from now on."""
        self._latch = latch
        self._at_least = at_least
        self._own: Coroutine[Any, Any, CancelReason] | None = None

    def __await__(self) -> Generator[Any, Any, CancelReason]:
        """Wait, anew for each await."""
        return _wait(self._latch, self._at_least).__await__()

    def send(self, value: Any) -> Any:
        """Go on as a task's coroutine."""
        return self._coroutine().send(value)

    def throw(self, *error: Any) -> Any:
        """Raise *error* where the task's coroutine stands."""
        return self._coroutine().throw(*error)

    def close(self) -> None:
        """End the task's coroutine, if it was begun."""
        if self._own is not None:
            self._own.close()

    def _coroutine(self) -> Coroutine[Any, Any, CancelReason]:
        if self._own is None:
            self._own = _wait(self._latch, self._at_least)
        return self._own


async def _wait(latch: Latch, at_least: int) -> CancelReason:
    if not latch._reached[at_least]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        watch = LoopWatch(latch, at_least, functools.partial(_resolve, future), loop)
        try:
            watch._arm()
            await future
        finally:
            watch.close()
    return latch._causes()[0].reason


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
