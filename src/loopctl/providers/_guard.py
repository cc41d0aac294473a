"""Owns the one place where a provider holds a cancellation back: while it gives a connection back.

Why it is needed: httpcore shields its closing with an anyio scope, which does not hold back a plain `Task.cancel()`.
After a second cancel in that moment the request stayed in the pool's books, and those that waited for its connection
were never woken.

Rules: creates no task. The cancellation is held back, not swallowed: it goes on as soon as the work is done. Only for
work that is known to be short; the engine's grace bounds it from outside.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from functools import partial
from typing import Any, Generic, TypeVar

__all__ = ["to_the_end"]

_T = TypeVar("_T")


class to_the_end(Generic[_T]):  # noqa: N801 - reads as what it does: `await to_the_end(response.aclose())`
    """Await *work* in this task without letting a cancellation into it; raise the last one held back afterwards."""

    def __init__(self, work: Coroutine[Any, Any, _T]) -> None:
        self._work = work

    def __await__(self) -> Generator[Any, Any, _T]:
        held: asyncio.CancelledError | None = None
        result: _T
        try:
            while True:
                held = (yield from _sit_out(self._work.send(None))) or held
        except StopIteration as done:
            result = done.value
        finally:
            self._work.close()
        if held is not None:
            raise held
        return result


def _sit_out(awaited: asyncio.Future[Any] | None) -> Generator[Any, Any, asyncio.CancelledError | None]:
    """Wait until *awaited* is done, or for one turn of the loop if it is None; give the last cancellation meanwhile."""
    if awaited is None:
        try:
            yield
        except asyncio.CancelledError as error:
            return error
        return None
    held = None
    while not awaited.done():
        # A future of our own, because a task that is cancelled cancels the future that it waits for.
        turn = awaited.get_loop().create_future()
        awaited.add_done_callback(partial(_end, turn))
        try:
            yield from turn
        except asyncio.CancelledError as error:
            held = error
    return held


def _end(turn: asyncio.Future[None], _: asyncio.Future[Any]) -> None:
    if not turn.done():
        turn.set_result(None)
