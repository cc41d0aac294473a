"""Measures what the real pump adds to a stream: poll, clock and accumulate, in the child task of a real race.

The source suspends once per event. A second row stops a source that never suspends, and prints how many events it
still gave.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator

from benchmarks import Row
from loopctl import CancelSignal
from loopctl.concurrency import Grace, Patience, TaskWork, supervise
from loopctl.model import Delta, ReplyEnd, TextPart
from loopctl.streaming import Accumulator, Attempt, Fanout, pump

EVENTS = 20_000
ROUNDS = 9
BOUND = 1.10


async def source(count: int) -> AsyncIterator[Delta]:
    """Give *count* pieces of text, each after one turn of the loop."""
    for _ in range(count):
        await asyncio.sleep(0)
        yield TextPart("word ")
    yield ReplyEnd()


async def floor() -> float:
    """Read the source with a bare `async for`, in a task of its own as the pump is."""

    async def read() -> None:
        async for _ in source(EVENTS):
            pass

    gc.collect()
    began = time.perf_counter()
    await asyncio.create_task(read())
    return time.perf_counter() - began


async def ours() -> float:
    """Read it through the pump."""
    signal = CancelSignal()
    into, patience = Accumulator(), Patience(300, 120, 180)
    fanout = Fanout(asyncio.get_running_loop(), signal.token, lambda: None)
    attempt = Attempt(into, signal.token, patience, tidy_within=1)
    gc.collect()
    began = time.perf_counter()
    work = TaskWork(pump(lambda: source(EVENTS), attempt, fanout), has_begun=lambda: attempt.has_begun)
    ending = await supervise(work, signal.token, grace=Grace(1), patience=patience)
    took = time.perf_counter() - began
    assert ending.how == "returned"
    assert len(into.seal().text) == EVENTS * 5
    return took


async def overrun() -> int:
    """Stop a source that never suspends from inside of it, and count what was read after that."""
    signal = CancelSignal()
    given = 0

    async def buffered() -> AsyncIterator[Delta]:
        nonlocal given
        while given < 1_000_000:
            given += 1
            if given == 1000:
                signal.cancel()
            yield TextPart("word ")

    patience = Patience()
    fanout = Fanout(asyncio.get_running_loop(), signal.token, lambda: None)
    work = TaskWork(pump(buffered, Attempt(Accumulator(), signal.token, patience, tidy_within=1), fanout))
    await supervise(work, signal.token, grace=Grace(1), patience=patience)
    return given - 1000


async def measure() -> tuple[float, float, int]:
    """Give the best seconds of both, and the overrun."""
    rounds = [(await floor(), await ours()) for _ in range(ROUNDS)]
    floors, times = zip(*rounds, strict=True)
    return min(floors), min(times), await overrun()


def main() -> list[Row]:
    """Give the ratio and the overrun."""
    least, took, over = asyncio.run(measure())
    ratio = took / least
    return [
        Row("an event of a source that suspends each time, bare `async for`", f"{least / EVENTS * 1e9:.0f} ns"),
        Row("the same through the pump", f"{took / EVENTS * 1e9:.0f} ns"),
        Row("pump / bare `async for`", ratio, BOUND, ratio <= BOUND),
        Row("events read after the cancel, of a source that never suspends", str(over), "<= 1", over <= 1),
    ]
