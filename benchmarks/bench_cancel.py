"""Measures the time from a cancel to control back: over a live stream and over an unanswered request.

The floor is what asyncio itself needs: a bare task that waits on the same kind of request is cancelled and awaited.
For an in-process await the added microseconds are printed.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable

from benchmarks import Row
from benchmarks.bench_openai_stream import REQUEST, served
from loopctl import Agent, Cancelled, CancelSignal, RunConfig, TextDelta, race
from loopctl.providers.openai import OpenAIModel

ROUNDS = 60
BOUND = 1.5


async def bare(model: OpenAIModel, *, is_streamed: bool) -> float:
    """Cancel a bare task that reads the provider's stream, or waits for its answer."""
    begun = asyncio.Event()

    async def read() -> None:
        if not is_streamed:
            begun.set()
            await model.complete(REQUEST)
        async for _ in model.stream(REQUEST):
            begun.set()

    task = asyncio.create_task(read())
    await begun.wait()
    await asyncio.sleep(0.01)
    began = time.perf_counter()
    task.cancel()
    await asyncio.wait([task])
    return time.perf_counter() - began


async def of_run(agent: Agent, *, is_streamed: bool) -> float:
    """Cancel a run that does the same, and await its record."""
    handle = agent.session().start("go")
    if is_streamed:
        reader = aiter(handle)
        async for event in reader:
            if isinstance(event, TextDelta):
                break
        read = asyncio.ensure_future(_drain(reader))
        await asyncio.sleep(0.01)
    else:
        read = asyncio.ensure_future(asyncio.sleep(0))
        await asyncio.sleep(0.01)
    began = time.perf_counter()
    handle.cancel()
    await handle
    took = time.perf_counter() - began
    await read
    return took


async def _drain(reader: object) -> None:
    async for _ in reader:  # type: ignore[attr-defined]
        pass


async def measured(
    first: Callable[[], Awaitable[float]], second: Callable[[], Awaitable[float]]
) -> tuple[float, float]:
    """Give the medians of both, measured in turn."""
    rounds = [(await first(), await second()) for _ in range(ROUNDS)]
    firsts, seconds = zip(*rounds, strict=True)
    return statistics.median(firsts), statistics.median(seconds)


async def in_process() -> tuple[float, float]:
    """Cancel an in-process await, bare and raced."""

    async def wait_bare() -> float:
        task = asyncio.create_task(asyncio.sleep(100))
        await asyncio.sleep(0)
        began = time.perf_counter()
        task.cancel()
        await asyncio.wait([task])
        return time.perf_counter() - began

    async def wait_raced() -> float:
        signal = CancelSignal()
        began = 0.0

        def fire() -> None:
            nonlocal began
            began = time.perf_counter()
            signal.cancel()

        asyncio.get_running_loop().call_later(0.001, fire)
        try:
            await race(asyncio.sleep(100), signal)
        except Cancelled:
            return time.perf_counter() - began
        raise AssertionError

    return await measured(wait_bare, wait_raced)


async def measure(streaming: str, silent: str) -> list[Row]:
    """Give the rows."""
    rows = []
    for what, url, is_streamed in (("a live stream", streaming, True), ("an unanswered request", silent, False)):
        model = OpenAIModel("bench", base_url=url)
        agent = Agent(model, config=RunConfig(stream=is_streamed))
        least, took = await measured(
            lambda m=model, s=is_streamed: bare(m, is_streamed=s),  # type: ignore[misc]
            lambda a=agent, s=is_streamed: of_run(a, is_streamed=s),  # type: ignore[misc]
        )
        await agent.aclose()
        ratio = took / least
        rows.append(Row(f"cancel to control back, {what}: a bare task", f"{least * 1e6:.0f} us"))
        rows.append(Row(f"cancel to control back, {what}: a run", f"{took * 1e6:.0f} us"))
        rows.append(Row(f"run / bare task, {what}", ratio, BOUND, ratio <= BOUND))
    least, took = await in_process()
    rows.append(Row("cancel to control back, an in-process await: race adds", f"{(took - least) * 1e6:.0f} us"))
    return rows


def main() -> list[Row]:
    """Give the ratios."""
    with served("endless") as streaming, served("never") as silent:
        return asyncio.run(measure(streaming, silent))
