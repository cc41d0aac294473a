"""Faults of other engines around work that does not want to stop, played to the end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from loopctl import Agent, RunConfig, RunHandle, Session, ToolContext, ToolStarted, tool
from loopctl.record import CallStatus, Event, Run, StragglerEnded
from loopctl.testing import ScriptedModel, block_thread, call, finally_endless, stall, virtual_run

LET_GO = threading.Event()


@pytest.fixture(autouse=True)
def let_go() -> Iterator[None]:
    LET_GO.clear()
    yield
    LET_GO.set()


async def stopped_in_a_tool(session: Session, wait: float = 0) -> RunHandle:
    """Start a run and stop it as soon as a tool has begun, or *wait* seconds later; give it while it ends."""
    handle = session.start("go")
    reader = aiter(handle)
    async for event in reader:
        if isinstance(event, ToolStarted):
            break
    await asyncio.sleep(wait)
    session.signal.cancel()
    return handle


def test_a_tool_that_is_busy_in_python_on_its_thread_holds_up_no_end_and_is_listed() -> None:
    """Case B1."""
    beats = 0

    def spin() -> str:
        """Compute, and never wait."""
        nonlocal beats
        while not LET_GO.is_set():
            beats += 1
        return "computed"

    session = Agent(ScriptedModel([call("spin", {})], "fine"), [spin]).session()

    async def main() -> Run:
        return await (await stopped_in_a_tool(session))

    run = asyncio.run(main())
    assert run.outcome == "cancelled"
    assert run.tool_calls[0].status is CallStatus.ABANDONED
    (straggler,) = run.stragglers
    assert (straggler.kind, straggler.name) == ("thread", "spin")
    assert straggler.where.startswith(f"{__file__}:")
    before = beats
    assert not LET_GO.wait(0.05)
    assert beats > before, "there was nothing to abandon"


@pytest.mark.shares("asyncio")  # the task that was given up when its loop closed
@pytest.mark.parametrize(("cleanup", "is_listed"), [(0.5, False), (50, True)])
def test_an_outcome_is_final_only_when_the_work_has_ended_or_is_listed(cleanup: float, is_listed: bool) -> None:
    """Case B4."""
    ended: list[float] = []

    async def save() -> str:
        """Tidy up, slowly and in spite of everything."""
        try:
            await asyncio.sleep(100)
        finally:
            until = asyncio.get_running_loop().time() + cleanup
            while asyncio.get_running_loop().time() < until:
                try:
                    await asyncio.sleep(until - asyncio.get_running_loop().time())
                except asyncio.CancelledError:
                    continue
            ended.append(asyncio.get_running_loop().time())
        return "never"

    session = Agent(ScriptedModel([call("save", {})]), [save]).session()

    async def main() -> None:
        handle = await stopped_in_a_tool(session, wait=1)
        await asyncio.sleep(cleanup * 0.9 if not is_listed else 0.9)
        assert handle.run is None, "told to have ended while its work went on"
        run = await handle
        assert [straggler.name for straggler in run.stragglers] == (["save"] if is_listed else [])
        assert bool(ended) is not is_listed

    virtual_run(main)


def test_a_plain_tool_polls_the_stop_and_leaves_by_itself() -> None:
    """Case B14."""

    def count(ctx: ToolContext) -> str:
        """Count until somebody stops it."""
        number = 0
        while not ctx.is_cancelled():
            number += 1
            ctx.signal.wait(0.001)
        return f"left by itself: {ctx.reason}"

    session = Agent(ScriptedModel([call("count", {})]), [count]).session()

    async def main() -> Run:
        return await (await stopped_in_a_tool(session, wait=0.01))

    run = asyncio.run(main())
    assert (run.tool_calls[0].status, run.tool_calls[0].result) == (CallStatus.COMPLETED, "left by itself: user")
    assert run.stragglers == ()


def test_a_coroutine_tool_can_await_the_stop_and_leave_by_itself() -> None:
    """Case B14."""
    seen: list[str] = []

    async def serve(ctx: ToolContext) -> str:
        """Serve until somebody stops it."""

        async def watch() -> None:
            seen.append(str(await ctx.cancelled()))

        watcher = asyncio.ensure_future(watch())
        try:
            await asyncio.sleep(100)
        finally:
            await watcher
            seen.append(f"{ctx.is_cancelled()}")
        return "never"

    session = Agent(ScriptedModel([call("serve", {})]), [serve]).session()

    async def main() -> Run:
        return await (await stopped_in_a_tool(session, wait=1))

    run = virtual_run(main)
    assert seen == ["user", "True"]
    assert run.tool_calls[0].status is CallStatus.INTERRUPTED
    assert run.stragglers == ()


def test_abandoned_threads_are_listed_and_counted_and_the_next_run_is_not_held_up() -> None:
    """Case G10."""
    probe, told = block_thread(), list[Event]()
    calls = [call("block_thread", {})]
    session = Agent(ScriptedModel(calls, "fine", calls), [probe.function], observers=[told.append]).session()

    async def main() -> None:
        first = await (await stopped_in_a_tool(session))
        assert [(straggler.kind, straggler.name) for straggler in first.stragglers] == [("thread", "block_thread")]
        assert (await session.run("next")).output == "fine"
        await (await stopped_in_a_tool(session))
        assert [straggler.is_ended for straggler in session.stragglers] == [False, False]
        probe.release()
        await session.aclose()
        assert [straggler.is_ended for straggler in session.stragglers] == [True, True]
        assert len([event for event in told if isinstance(event, StragglerEnded)]) == 2
        assert first.tool_calls[0].status is CallStatus.ABANDONED, "a record was changed after its end"

    asyncio.run(main())


def test_what_one_call_may_do_at_a_stop_is_not_handed_down_to_the_calls_inside_of_it() -> None:
    """Case G11: neither the leave to finish nor the lack of it reaches a nested run's tools by a context variable."""
    inner_runs: list[Run] = []

    @tool
    async def plain() -> str:
        """Wait."""
        await asyncio.sleep(5)
        return "waited"

    @tool(on_cancel="finish", finish_within=10)
    async def careful() -> str:
        """Finish."""
        await asyncio.sleep(5)
        return "finished"

    @tool(on_cancel="finish", finish_within=100)
    async def outer(name: str) -> str:
        """Run an agent and stop it after a second."""
        inner = Agent(ScriptedModel([call(name, {})]), [plain, careful]).session()
        handle = inner.start("go")
        asyncio.get_running_loop().call_later(1, handle.cancel)
        inner_runs.append(await handle)
        return "ended"

    async def main() -> float:
        session = Agent(
            ScriptedModel([call("outer", {"name": "plain"}), call("outer", {"name": "careful"})], "done"), [outer]
        )
        await session.session().run("go")
        return asyncio.get_running_loop().time()

    assert virtual_run(main) == 6
    assert [run.tool_calls[0].status for run in inner_runs] == [CallStatus.INTERRUPTED, CallStatus.COMPLETED]


@pytest.mark.shares("asyncio")  # the task that was given up when its loop closed
def test_a_worker_that_never_returns_leaves_the_session_free_after_the_grace_and_the_record_as_it_was() -> None:
    """Case J10."""
    probe = finally_endless()
    model = ScriptedModel([call("finally_endless", {})], "fine", stall())
    session = Agent(model, [probe.function], config=RunConfig(grace=2)).session()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        handle = await stopped_in_a_tool(session, wait=1)
        first = await handle
        assert loop.time() == 3
        assert (await session.run("next")).output == "fine"
        before = first.to_json()
        assert handle.cancel("late") is False
        second = session.start("again")
        await asyncio.sleep(1)
        assert handle.cancel("later still") is False
        assert second.run is None, "a late cancel of an ended run reached another one"
        second.cancel()
        assert (await second).outcome == "cancelled"
        assert first.to_json() == before == session.runs[0].to_json()
        probe.release()

    virtual_run(main)
