"""Deadline, stall and budget: each stops its own run and says so; an earlier cause stays."""

from __future__ import annotations

import asyncio

import pytest

from loopctl import Agent, Cancelled, Checkpoint, RunConfig, Session, ToolContext
from loopctl.testing import ScriptedModel, burst, call, pause, say, stall, usage, virtual_run


def session_of(*replies: object, tools: tuple[object, ...] = (), **config: object) -> Session:
    return Agent(ScriptedModel(*replies), tools, config=RunConfig(**config)).session()  # type: ignore[arg-type]


def test_a_deadline_counts_from_each_runs_start() -> None:
    """Case E7: a deadline is countable apart from a user's stop, by its origin."""
    session = session_of([say("x"), stall()], [pause(4), say("fine")], [say("x"), stall()], deadline=5)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        with pytest.raises(Cancelled) as caught:
            await session.run("a")
        assert caught.value.reason.origin == "deadline"
        assert "5 s" in caught.value.reason.message
        assert loop.time() == 5
        assert (await session.run("b")).output == "fine"
        handle = session.start("c")
        await asyncio.sleep(1)
        session.signal.cancel("me first")
        run = await handle
        assert run.stop is not None
        assert run.stop.reason.origin == "user"
        await asyncio.sleep(100)
        assert run.stop.also == ()

    virtual_run(main)


def test_a_deadline_stops_a_tool_and_the_tool_is_told_why() -> None:
    """Case E9: the tool receives the reason."""
    told: list[object] = []

    async def wait(ctx: ToolContext) -> str:
        """Wait."""
        try:
            await asyncio.sleep(1000)
        finally:
            told.append(ctx.reason)
        return "never"

    session = session_of([call("wait", {})], tools=(wait,), deadline=3)

    async def main() -> None:
        run = await session.start("a")
        assert run.stop is not None
        assert run.stop.checkpoint is Checkpoint.TOOL_CALL
        assert told == [run.stop.reason]
        assert run.tool_calls[0].status == "interrupted"

    virtual_run(main)


def test_a_stall_is_the_time_without_an_event_or_progress() -> None:
    async def work(ctx: ToolContext) -> str:
        """Work, and say so."""
        for step in range(10):
            await asyncio.sleep(4)
            ctx.progress(f"step {step}")
        return "done"

    def talk() -> list[object]:
        return [part for number in range(10) for part in (say(f"{number}"), pause(4))]

    session = session_of([*talk(), call("work", {})], [say("end")], [say("x"), stall()], tools=(work,), stall_timeout=5)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert (await session.run("a")).output == "end"
        assert loop.time() == 80
        with pytest.raises(Cancelled) as caught:
            await session.run("b")
        assert caught.value.reason.origin == "stall"
        assert loop.time() == pytest.approx(85)

    virtual_run(main)


def test_the_clocks_stand_still_while_a_reader_holds_the_run_back() -> None:
    session = session_of([burst(100), pause(2), say("end")], deadline=5, stall_timeout=4)

    async def main() -> None:
        handle = session.start("a")
        reader = aiter(handle)
        await asyncio.sleep(1000)
        async for _ in reader:
            pass
        assert (await handle).outcome == "completed"

    virtual_run(main)


def test_a_budget_stops_before_the_next_request_and_keeps_what_was_paid_for() -> None:
    async def look() -> str:
        """Look."""
        return "seen"

    session = session_of(
        [say("first"), usage(60, 20), call("look", {})],
        [say("second"), usage(60, 20), call("look", {})],
        [say("a whole reply"), usage(500, 500)],
        tools=(look,),
        max_total_tokens=150,
    )

    async def main() -> None:
        run = await session.start("a")
        assert run.stop is not None
        assert (run.stop.reason.origin, run.stop.checkpoint) == ("budget", Checkpoint.TURN_ENTRY)
        assert "160 tokens of 150" in run.stop.reason.message
        assert [record.status for record in run.tool_calls] == ["completed", "completed"]
        assert (await session.run("b")).output == "a whole reply"

    virtual_run(main)


def test_a_run_without_limits_has_no_timer() -> None:
    session = session_of([pause(100_000), say("x")], first_event_timeout=None, event_timeout=None, turn_timeout=None)

    async def main() -> None:
        assert (await session.run("a")).output == "x"

    virtual_run(main, limit=1e6)
