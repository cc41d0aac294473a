"""After a cancel the process is quiet, also when something of the run will not die: no turn of the loop, no CPU."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from loopctl import Agent, Run, RunConfig, ToolContext, ToolStarted, tool
from loopctl.messages import ToolCall
from loopctl.model import Delta, ModelRequest
from loopctl.record import Event, TextDelta
from loopctl.testing import (
    Probe,
    ScriptedModel,
    VirtualLoop,
    block_thread,
    call,
    finally_endless,
    say,
    shield_work,
    stall,
    swallow_always,
    uncancel,
    virtual_run,
)

HOURS = 10 * 3600.0
CONFIG = RunConfig(grace=0.01, deadline=3 * 3600, stall_timeout=2 * 3600, event_timeout=3600)
"""Each limit would pass within the hours that are watched."""
DESCRIPTORS = Path("/proc/self/fd")

Stopped: TypeAlias = Callable[[], Awaitable[Run]]
"""Starts a run, stops it, and gives it."""
Case: TypeAlias = tuple[Stopped, Callable[[], None]]
"""And lets what would not die end."""


def in_a_tool(make: Callable[[], Probe]) -> Callable[[], Case]:
    def case() -> Case:
        probe = make()
        session = Agent(ScriptedModel([call(probe.name, {})]), [probe.function], config=CONFIG).session()

        async def stopped() -> Run:
            handle = session.start("go")
            await probe.until_started()
            handle.cancel()
            return await handle

        return stopped, probe.release

    return case


def in_a_stream() -> Case:
    session = Agent(ScriptedModel([say("a"), stall()]), config=CONFIG).session()

    async def stopped() -> Run:
        handle = session.start("go")
        async for event in handle:
            if isinstance(event, TextDelta):
                handle.cancel()
        return await handle

    return stopped, nothing


def in_a_model_that_swallows() -> Case:
    probe = swallow_always()

    class Model:
        name = "stubborn"

        async def stream(self, _: ModelRequest) -> AsyncIterator[Delta]:
            await probe.function()
            return
            yield

    session = Agent(Model(), config=CONFIG).session()

    async def stopped() -> Run:
        handle = session.start("go")
        await probe.until_started()
        handle.cancel()
        return await handle

    return stopped, probe.release


def at_a_question_that_is_not_withdrawn() -> Case:
    probe = swallow_always()

    @tool(approval=True)
    def risky() -> str:
        """Do something that needs a yes."""
        raise AssertionError

    async def approve(_: ToolCall, __: ToolContext) -> bool:
        await probe.function()
        return True

    session = Agent(ScriptedModel([call("risky", {})]), [risky], approve=approve, config=CONFIG).session()

    async def stopped() -> Run:
        handle = session.start("go")
        await probe.until_started()
        handle.cancel()
        return await handle

    return stopped, probe.release


def by_a_reader_that_left() -> Case:
    session = Agent(ScriptedModel([say(*"abc"), stall()]), config=CONFIG).session()

    async def stopped() -> Run:
        handle = session.start("go")
        async for event in handle:
            if isinstance(event, TextDelta):
                break
        return await handle

    return stopped, nothing


def by_a_reader_that_reads_no_more() -> Case:
    session = Agent(ScriptedModel([say(*"x" * 1000)]), config=CONFIG).session()
    readers: list[Any] = []

    async def stopped() -> Run:
        handle = session.start("go")
        readers.append(aiter(handle))
        await anext(readers[0])
        await asyncio.sleep(0.01)
        assert handle.run is None
        handle.cancel()
        return await handle

    return stopped, readers.clear


def under_an_observer_that_blocks() -> Case:
    def observe(event: Event) -> None:
        time.sleep(0.001)
        if isinstance(event, ToolStarted):
            session.signal.cancel()

    probe = swallow_always()
    model = ScriptedModel([call(probe.name, {})])
    session = Agent(model, [probe.function], observers=[observe], config=CONFIG).session()

    async def stopped() -> Run:
        return await session.start("go")

    return stopped, probe.release


def nothing() -> None:
    """Nothing is left of it."""


CASES: dict[str, Callable[[], Case]] = {
    "in a stream": in_a_stream,
    "in a model that swallows every cancel": in_a_model_that_swallows,
    "at a question that is not withdrawn": at_a_question_that_is_not_withdrawn,
    "by a reader that left": by_a_reader_that_left,
    "by a reader that reads no more": by_a_reader_that_reads_no_more,
    "under an observer that blocks": under_an_observer_that_blocks,
    **{f"in {make.__name__}": in_a_tool(make) for make in (swallow_always, uncancel, shield_work, finally_endless)},
    "in a thread that hangs": in_a_tool(block_thread),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_loop_takes_no_turn_for_a_run_that_was_stopped(case: Callable[[], Case]) -> None:
    async def main() -> None:
        loop = VirtualLoop.running()
        stopped, release = case()
        assert (await stopped()).outcome == "cancelled"
        await asyncio.sleep(60)  # closings, and the grace of what was left
        before = loop.steps
        await asyncio.sleep(HOURS)
        assert loop.steps - before == 2, "the end of this sleep, and this task going on"
        release()
        await asyncio.sleep(1)

    virtual_run(main, limit=2 * HOURS)


def counts() -> tuple[int, int, int]:
    files = len(list(DESCRIPTORS.iterdir())) if DESCRIPTORS.is_dir() else 0
    return len(asyncio.all_tasks()), threading.active_count(), files


async def cost_of_idling() -> float:
    spent = time.process_time()
    await asyncio.sleep(1)
    return time.process_time() - spent


def test_two_hundred_stopped_runs_leave_the_process_idle_and_as_it_was() -> None:
    """While all that will not die goes on, a second costs next to nothing; when it has ended, nothing is left."""

    async def main() -> None:
        before = counts()
        releases = []
        for case in itertools.islice(itertools.cycle(CASES.values()), 200):
            stopped, release = case()
            assert (await stopped()).outcome == "cancelled"
            releases.append(release)
        await asyncio.sleep(0.1)
        during = counts()
        assert min([await cost_of_idling() for _ in range(2)]) < 0.05
        assert counts() == during
        for release in releases:
            release()
        for _ in range(1000):
            if counts() == before:
                break
            await asyncio.sleep(0.01)
        assert counts() == before

    asyncio.run(main())
