"""Pull a model's stream, in the one task that is the whole request.

Invariants: the token is polled for each event (a buffered stream never suspends, so the poll is what stops it);
the stream is closed by the task that ran it, on every path; an event costs a poll, a clock read and an append.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from typing import cast

from loopctl.cancel import CancelToken
from loopctl.concurrency import Patience, breathe
from loopctl.model import Delta, TextPart
from loopctl.record import Event, TextDelta
from loopctl.streaming._accumulate import Accumulator
from loopctl.streaming._fanout import Fanout

__all__ = ["pump"]

_BREATH = 64
"""After so many events the loop gets a turn, so that a stream that never suspends does not hold it."""


async def pump(
    start: Callable[[], AsyncIterator[Delta]],
    into: Accumulator,
    token: CancelToken,
    patience: Patience,
    fanout: Fanout,
) -> None:
    """Read the stream that *start* gives until its `ReplyEnd`, its end, or a cancel.

    Args:
        start: Begins the request.
        into: Takes the deltas.
        token: Polled for each event; once it has fired nothing more is accepted or delivered.
        patience: Told of each event; its clock stands still while a reader holds the run back.
        fanout: Where the readers are.

    Raises:
        TypeError: What *start* gave is no async iterator, or what that gave is no delta.

    Cancellation:
        Closes the stream in this task, then lets the cancellation through.
    """
    given: object = start()
    if inspect.iscoroutine(given):
        given.close()
        raise TypeError("Model.stream gave a coroutine: write it as an async generator (`async def` with `yield`)")
    stream = cast("AsyncIterator[Delta]", given)
    try:
        await _read(stream, into, token, patience, fanout)
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()


async def _read(
    stream: AsyncIterator[Delta],
    into: Accumulator,
    token: CancelToken,
    patience: Patience,
    fanout: Fanout,
) -> None:
    is_cancelled = token.is_cancelled
    now = asyncio.get_running_loop().time
    readers = fanout.readers
    sink = None
    count = 0
    async for delta in stream:
        if is_cancelled():
            return
        patience.last = now()
        count += 1
        if delta.__class__ is TextPart:
            if sink is None:
                sink = into.text_sink()
            sink(delta.text)
            event: Event | None = TextDelta(delta.text) if readers else None
        else:
            sink = None
            event = into.add(delta)
            if into.is_whole:
                return
        if event is not None and not fanout.offer(event):
            await fanout.deliver(event, patience)
        if not count % _BREATH:
            await breathe()
