"""Pull a model's stream, in the one task that is the whole request.

Invariants: the token is polled for each event (a buffered stream never suspends, so the poll is what stops it);
the stream is closed by the task that ran it, on every path; an event costs a poll, a clock read and an append.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import cast

from loopctl.cancel import CancelToken
from loopctl.concurrency import Patience, breathe
from loopctl.model import Delta, TextPart
from loopctl.record import Event, TextDelta
from loopctl.streaming._accumulate import Accumulator
from loopctl.streaming._fanout import Fanout

__all__ = ["Attempt", "pump"]

_BREATH = 0x3FF
"""A mask: each 1024 events the loop gets a turn, so that a stream that never suspends does not hold it."""


@dataclass(slots=True)
class Attempt:
    """One request of a turn, while it is streamed."""

    into: Accumulator
    """Takes the deltas."""
    token: CancelToken
    """Polled for each event; once it has fired nothing more is accepted or delivered."""
    patience: Patience
    """Told of each event; its clock stands still while a reader holds the run back."""
    tidy_within: float
    """Seconds that the stream may take to end when its reply is whole."""
    is_tidying: bool = False
    """True once nothing more is read and the stream is only ended."""

    def tidy(self) -> None:
        """Begin to end the stream."""
        self.is_tidying = True
        self.patience.hurry(self.tidy_within)


async def pump(start: Callable[[], AsyncIterator[Delta]], attempt: Attempt, fanout: Fanout) -> None:
    """Read the stream that *start* gives until its `ReplyEnd`, its end, or a cancel.

    Args:
        start: Begins the request.
        attempt: What is read into, and until when.
        fanout: Where the readers are.

    Raises:
        TypeError: What *start* gave is no async iterator, or what that gave is no delta.

    Cancellation:
        Closes the stream in this task, then lets the cancellation through.
    """
    stream = _started(start)
    try:
        await _read(stream, attempt, fanout)
        attempt.tidy()
        if attempt.into.is_whole:
            # To its very end: a connection whose answer was not read to the end cannot be used again.
            await anext(stream, None)
    finally:
        attempt.tidy()
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()


async def _read(stream: AsyncIterator[Delta], attempt: Attempt, fanout: Fanout) -> None:
    token, patience = attempt.token, attempt.patience
    now, readers = asyncio.get_running_loop().time, fanout.readers
    add_text, count = attempt.into.text_sink(), 0
    async for delta in stream:
        if token.is_cancelled():
            return
        patience.last = now()
        if delta.__class__ is TextPart and (text := delta.text).__class__ is str:
            add_text(text)
            if readers:
                await _show(TextDelta(text), attempt, fanout)
        elif await _take(delta, attempt, fanout):
            return
        else:
            add_text = attempt.into.text_sink()
        count += 1
        if not count & _BREATH:
            await breathe()
            add_text = attempt.into.text_sink()


def _started(start: Callable[[], AsyncIterator[Delta]]) -> AsyncIterator[Delta]:
    given: object = start()
    if inspect.iscoroutine(given):
        given.close()
        raise TypeError("Model.stream gave a coroutine: write it as an async generator (`async def` with `yield`)")
    return cast("AsyncIterator[Delta]", given)


async def _take(delta: Delta, attempt: Attempt, fanout: Fanout) -> bool:
    """Take what is not plain text; True if the reply is whole with it."""
    event = attempt.into.add(delta)
    if event is not None:
        await _show(event, attempt, fanout)
    return attempt.into.is_whole


async def _show(event: Event, attempt: Attempt, fanout: Fanout) -> None:
    if not fanout.offer(event):
        await fanout.deliver(event, attempt.patience)
