"""Measures when a run ends whose tool refuses to: at most `BOUND` seconds after the grace, whatever the tool does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks import Row
from loopctl import Agent, RunConfig, ToolContext, ToolStarted, run as run_program, tool
from loopctl.testing import ScriptedModel, call, finally_endless, shield_work, swallow_always

GRACE = 0.3
BOUND = 0.05
ROUNDS = 3
SETTLE = 0.2
"""Seconds that the work gets to be in the middle of it."""


def sleep_in_a_thread() -> str:
    """Sleep for a minute on the tool's thread."""
    time.sleep(60)
    return "never"


def sleep_in_a_thread_that_could_poll(ctx: ToolContext) -> str:
    """Sleep for a minute and never look at the context."""
    time.sleep(60)
    return ctx.call_id


async def shell_with_deaf_grandchildren(ctx: ToolContext) -> str:
    """Run a shell that traps TERM, with children in the background that do too."""
    line = "trap '' TERM; for i in 1 2 3; do (trap '' TERM; while :; do sleep 1; done) & done; wait"
    await ctx.run_process(["sh", "-c", line])
    return "never"


async def flooded_pipe(ctx: ToolContext) -> str:
    """Run a program that fills its pipe faster than anybody reads, and traps TERM."""
    await ctx.run_process(["sh", "-c", "trap '' TERM; while :; do head -c 1000000 /dev/zero; done"])
    return "never"


@tool(isolation="process")
def spin_in_a_process() -> str:
    """Compute for ever, and never look at anything."""
    while True:
        pass


async def excess(stubborn: Callable[..., Any]) -> float:
    """Give the seconds after the grace at which a run ended whose *stubborn* tool does not."""
    name = stubborn.__name__
    session = Agent(ScriptedModel([call(name, {})]), [stubborn], config=RunConfig(grace=GRACE)).session()
    handle = session.start("go")
    reader = aiter(handle)  # kept: who drops the last reader stops the run
    async for event in reader:
        if isinstance(event, ToolStarted):
            break
    await asyncio.sleep(SETTLE)
    began = time.perf_counter()
    handle.cancel()
    run = await handle
    took = time.perf_counter() - began
    assert run.outcome == "cancelled"
    assert run.tool_calls[0].status in {"abandoned", "interrupted"}
    return took - GRACE


def stubborn() -> Iterator[Callable[..., Any]]:
    """Give the tools, each of which is let go when it was measured."""
    for make in (swallow_always, shield_work, finally_endless):
        probe = make()
        yield probe.function
        probe.release()
    yield from (sleep_in_a_thread, sleep_in_a_thread_that_could_poll, shell_with_deaf_grandchildren, flooded_pipe)
    yield spin_in_a_process


async def measure() -> list[Row]:
    """Give the rows."""
    rows = []
    for each in stubborn():
        worst = max([await excess(each) for _ in range(ROUNDS)])
        name = f"end of a run after its grace: {each.__name__.replace('_', ' ')}"
        rows.append(Row(name, f"{worst * 1e3:+.1f} ms", f"<= {BOUND * 1e3:.0f} ms", worst <= BOUND))
    return rows


def main() -> list[Row]:
    """Give the figures."""
    return run_program(measure(), exit_grace=0.1)
