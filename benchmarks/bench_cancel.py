"""Measures the time from a cancel to control back: over a live stream and over an unanswered request.

The floor is what asyncio itself needs: a bare task that waits on the same kind of request is cancelled and awaited.
`race` is held to a bound. What a whole run adds (its record, its finalizer, waking whoever awaits it) is printed, and
so are the microseconds that `race` adds to an in-process await.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable

from benchmarks import Row
from benchmarks.bench_openai_stream import REQUEST, served
from loopctl import Agent, CancelSignal, RunConfig, race
from loopctl.providers.openai import OpenAIModel

ROUNDS = 60
BOUND = 1.5
IDLE = 0.01
"""Seconds that pass before each cancel, so that nothing is left to do but wait."""


class Waiting:
    """One model, and the three ways to wait for it."""

    def __init__(self, url: str, *, is_streamed: bool) -> None:
        self.model = OpenAIModel("bench", base_url=url)
        self.agent = Agent(self.model, config=RunConfig(stream=is_streamed))
        self.is_streamed = is_streamed
        self.begun = asyncio.Event()

    async def read(self) -> None:
        """Read the endless stream, or wait for the answer that never comes."""
        if not self.is_streamed:
            self.begun.set()
            await self.model.complete(REQUEST)
        async for _ in self.model.stream(REQUEST):
            self.begun.set()

    async def bare(self) -> float:
        """Cancel a bare task."""
        self.begun.clear()
        task = asyncio.create_task(self.read())
        await self.begun.wait()
        await asyncio.sleep(IDLE)
        began = time.perf_counter()
        task.cancel()
        await asyncio.wait([task])
        return time.perf_counter() - began

    async def raced(self) -> float:
        """Cancel the signal of a race."""
        self.begun.clear()
        signal = CancelSignal()
        task = asyncio.create_task(race(self.read(), signal))
        await self.begun.wait()
        await asyncio.sleep(IDLE)
        began = time.perf_counter()
        signal.cancel()
        await asyncio.wait([task])
        took = time.perf_counter() - began
        assert task.exception() is not None
        return took

    async def of_run(self) -> float:
        """Cancel a run, and await its record."""
        handle = self.agent.session().start("go")
        await asyncio.sleep(0.05)
        began = time.perf_counter()
        handle.cancel()
        run = await handle
        took = time.perf_counter() - began
        assert run.outcome == "cancelled"
        assert bool(run.partial_text) == self.is_streamed
        return took


async def medians(*ways: Callable[[], Awaitable[float]]) -> list[float]:
    """Give the median of each way, measured in turn."""
    rounds = [[await way() for way in ways] for _ in range(ROUNDS)]
    return [statistics.median(column) for column in zip(*rounds, strict=True)]


async def in_process() -> float:
    """Give the seconds that a race adds to the cancel of an in-process await."""

    async def bare() -> float:
        task = asyncio.create_task(asyncio.sleep(100))
        await asyncio.sleep(0)
        began = time.perf_counter()
        task.cancel()
        await asyncio.wait([task])
        return time.perf_counter() - began

    async def raced() -> float:
        signal = CancelSignal()
        task = asyncio.create_task(race(asyncio.sleep(100), signal))
        await asyncio.sleep(0)
        began = time.perf_counter()
        signal.cancel()
        await asyncio.wait([task])
        took = time.perf_counter() - began
        assert task.exception() is not None
        return took

    floor, took = await medians(bare, raced)
    return took - floor


async def measure(streaming: str, silent: str) -> list[Row]:
    """Give the rows."""
    rows = []
    for what, url, is_streamed in (("a live stream", streaming, True), ("an unanswered request", silent, False)):
        waiting = Waiting(url, is_streamed=is_streamed)
        floor, raced, of_run = await medians(waiting.bare, waiting.raced, waiting.of_run)
        await waiting.agent.aclose()
        ratio = raced / floor
        rows.append(Row(f"cancel to control back, {what}: a bare task", f"{floor * 1e6:.0f} us"))
        rows.append(Row(f"race / bare task, {what}", ratio, BOUND, ratio <= BOUND))
        rows.append(Row(f"cancel to the record of a whole run, {what}", f"{of_run * 1e6:.0f} us"))
    rows.append(Row("cancel to control back, an in-process await: race adds", f"{await in_process() * 1e6:.0f} us"))
    return rows


def main() -> list[Row]:
    """Give the figures."""
    with served("endless") as streaming, served("never") as silent:
        return asyncio.run(measure(streaming, silent))
