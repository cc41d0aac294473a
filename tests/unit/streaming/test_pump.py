"""The pump on its own: what it reads of a stream, and when it stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from loopctl import CancelSignal
from loopctl.concurrency import Patience
from loopctl.model import Delta, TextPart
from loopctl.streaming import Accumulator, Attempt, Fanout, pump
from loopctl.testing import virtual_run


async def pumped(start: object, signal: CancelSignal) -> Accumulator:
    loop = asyncio.get_running_loop()
    patience = Patience()
    patience.start(loop, lambda: None)
    attempt = Attempt(Accumulator(), signal.token, patience, tidy_within=1)
    try:
        await pump(start, attempt, Fanout(loop, signal.token, lambda: None))  # type: ignore[arg-type]
    finally:
        patience.stop()
    return attempt.into


def test_a_model_whose_stream_is_a_coroutine_is_told_what_is_wrong() -> None:
    async def not_a_generator() -> None:
        pass

    async def main() -> None:
        with pytest.raises(TypeError, match="async generator"):
            await pumped(not_a_generator, CancelSignal())

    virtual_run(main)


def test_a_stream_that_never_suspends_is_stopped_at_its_next_event() -> None:
    """Case I4: nothing but the poll can stop it, since no cancellation reaches a task that never waits."""
    signal = CancelSignal()
    given: list[int] = []

    async def stream() -> AsyncIterator[Delta]:
        for number in range(1_000_000):
            if number == 10:
                signal.cancel()
            given.append(number)
            yield TextPart("x")

    async def main() -> str:
        return (await pumped(stream, signal)).seal().text

    assert virtual_run(main) == "x" * 10
    assert len(given) == 11


def test_nothing_is_begun_when_the_signal_has_fired() -> None:
    signal = CancelSignal()
    signal.cancel()
    begun: list[str] = []

    def start() -> AsyncIterator[Delta]:
        begun.append("begun")
        raise AssertionError

    with pytest.raises(asyncio.CancelledError):
        virtual_run(lambda: pumped(start, signal))
    assert begun == []
