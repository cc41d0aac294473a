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

from loopctl.cancel import CancelToken, levels
from loopctl.concurrency import Patience, breathe, clock_of
from loopctl.model import Delta, TextPart
from loopctl.record import Event, TextDelta, Urgency
from loopctl.streaming._accumulate import Accumulator
from loopctl.streaming._fanout import Fanout

__all__ = ["Attempt", "iterator_of", "pump"]

_NO_MORE, _STOPS = Urgency.DRAIN.value, Urgency.STOP.value
"""A drained run begins no stream; one that flows goes on to its end."""

_BREATH = 0.002
"""Seconds after which the loop gets a turn, so that a stream that never suspends does not hold it."""


@dataclass(slots=True)
class Attempt:
    """One request of a turn, while it is streamed."""

    into: Accumulator
    """Takes the deltas, until it is sealed: then nobody waits for the stream any more."""
    token: CancelToken
    """Polled for each event; once it has fired nothing more is accepted or delivered."""
    patience: Patience
    """Told of each event; its clock stands still while a reader holds the run back."""
    tidy_within: float
    """Seconds that the stream may take to end when its reply is whole."""
    has_begun: bool = False
    """True once the request was begun."""
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
        asyncio.CancelledError: The token had fired before it began.

    Cancellation:
        Polls before it begins. Closes the stream in this task, then lets the cancellation through.
    """
    reached, patience = levels(attempt.token), attempt.patience
    if reached[_NO_MORE]:
        raise asyncio.CancelledError
    attempt.has_begun = True
    now, takers = clock_of(asyncio.get_running_loop()), fanout.takers
    run_id, add_text, breath_at = attempt.into.run_id, attempt.into.text_sink(), 0.0
    async with _Stream(start, attempt) as stream:
        async for delta in stream:
            if reached[_STOPS]:
                break
            patience.last = moment = now()
            if delta.__class__ is TextPart and (text := delta.text).__class__ is str:
                add_text(text)
                if takers:
                    await _show(TextDelta(text, run_id), attempt, fanout)
            elif await _take(delta, attempt, fanout):
                break
            else:
                add_text = attempt.into.text_sink()
            if moment > breath_at:
                breath_at = moment + _BREATH
                await breathe()


class _Stream:
    """What `start` gives, ended and closed on every path; a class, so that no frame stands before the stream's."""

    def __init__(self, start: Callable[[], AsyncIterator[Delta]], attempt: Attempt) -> None:
        self._start = start
        self._attempt = attempt

    async def __aenter__(self) -> AsyncIterator[Delta]:
        self._stream = iterator_of(self._start(), "Model.stream")
        return self._stream

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self._attempt.tidy()
        try:
            if error is None and self._attempt.into.is_whole:
                # To its very end: a connection whose answer was not read to the end cannot be used again.
                await anext(self._stream, None)
        finally:
            close = getattr(self._stream, "aclose", None)
            if close is not None:
                await close()


def iterator_of(given: object, what: str) -> AsyncIterator[Delta]:
    """Give *given*, which *what* gave, as the stream that it should be.

    Raises:
        TypeError: It is a coroutine: the common mistake.
    """
    if inspect.iscoroutine(given):
        given.close()
        raise TypeError(f"{what} gave a coroutine: write it as an async generator (`async def` with `yield`)")
    return cast("AsyncIterator[Delta]", given)


async def _take(delta: Delta, attempt: Attempt, fanout: Fanout) -> bool:
    """Take what is not plain text; True if the reply is whole with it."""
    event = attempt.into.add(delta)
    if event is not None:
        await _show(event, attempt, fanout)
    return attempt.into.is_whole


async def _show(event: Event, attempt: Attempt, fanout: Fanout) -> None:
    if attempt.into.is_sealed:
        fanout.late += 1
    elif not fanout.offer(event):
        await fanout.deliver(event, attempt.patience)
