"""DRAIN in a run: what is in flight is finished, nothing more begins, and a stronger cancel still acts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from loopctl import Agent, Checkpoint, RunConfig, Session, ToolContext, Urgency, tool
from loopctl.errors import ModelError
from loopctl.messages import find_problems
from loopctl.record import CallStatus, Event, Run, TextDelta, ToolFinished, ToolProgress, ToolStarted
from loopctl.testing import ScriptedModel, VirtualLoop, call, fail, pause, say, stall, virtual_run

DRAIN, STOP = Urgency.DRAIN, Urgency.STOP


@tool(parallel=True)
async def work(name: str, ctx: ToolContext) -> str:
    """Work for two seconds."""
    for _ in range(4):
        await ctx.sleep(0.5)
        ctx.progress(name)
    return f"{name} is done"


def session_of(model: ScriptedModel, **config: object) -> Session:
    return Agent(model, [work], config=RunConfig(**config)).session()  # type: ignore[arg-type]


def two_calls() -> ScriptedModel:
    return ScriptedModel([say("let me"), call("work", {"name": "a"}), call("work", {"name": "b"})], "all done", "next")


def drained_after(
    seconds: float, session: Session, then: Callable[[], object] = lambda: None
) -> tuple[Run, list[Event], float]:
    """Start a run, drain it after *seconds*, call *then* one second later; give also the seconds until its end."""
    events: list[Event] = []

    async def main() -> tuple[Run, float]:
        loop = asyncio.get_running_loop()
        handle = session.start("go")
        loop.call_later(seconds, lambda: handle.cancel("deploy", urgency=DRAIN))
        loop.call_later(seconds + 1, then)
        events.extend([event async for event in handle])
        return await handle, loop.time()

    run, ended_at = virtual_run(main)
    return run, events, ended_at


def test_a_tool_in_flight_is_finished_and_the_next_never_starts() -> None:
    model = two_calls()
    run, events, ended_at = drained_after(0.7, session_of(model))
    assert run.stop is not None
    assert (run.outcome, run.stop.checkpoint, run.stop.reason.message) == (
        "cancelled",
        Checkpoint.BETWEEN_CALLS,
        "deploy",
    )
    assert [record.status for record in run.tool_calls] == [CallStatus.COMPLETED, CallStatus.NOT_STARTED]
    assert run.tool_calls[0].result == "a is done"
    assert ended_at == 2
    assert [event.id for event in events if isinstance(event, ToolStarted)] == [run.tool_calls[0].id]
    assert len([event for event in events if isinstance(event, ToolProgress)]) == 4
    assert len(model.requests) == 1


def test_a_wave_in_flight_is_finished_and_what_is_queued_never_starts() -> None:
    calls = [call("work", {"name": name}) for name in "abc"]
    run, events, _ = drained_after(0.7, session_of(ScriptedModel(calls, "x"), dispatch="parallel", max_concurrency=2))
    assert run.stop is not None
    assert run.stop.checkpoint is Checkpoint.WAVE
    done, open_ = CallStatus.COMPLETED, CallStatus.NOT_STARTED
    assert [record.status for record in run.tool_calls] == [done, done, open_]
    assert len([event for event in events if isinstance(event, ToolFinished)]) == 2


def test_a_stream_that_flows_is_read_to_its_end_and_shown_and_not_committed() -> None:
    session = session_of(ScriptedModel([say("one "), pause(2), say("two")], "next"))
    run, events, ended_at = drained_after(1, session)
    assert run.stop is not None
    assert (run.outcome, run.partial_text, ended_at) == ("cancelled", "one two", 2)
    assert run.stop.checkpoint is Checkpoint.STREAM_EVENT
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "one two"
    assert session.history == ()


def test_a_whole_request_in_flight_is_awaited() -> None:
    model = ScriptedModel([pause(2), say("whole")], "next")
    run, _, ended_at = drained_after(1, session_of(model, stream=False))
    assert (run.outcome, run.partial_text, ended_at) == ("cancelled", "whole", 2)


def test_an_attempt_that_fails_is_not_tried_again() -> None:
    model = ScriptedModel([pause(2), fail(ModelError("gone", status=500, retryable=True))], "next")
    run, _, _ = drained_after(1, session_of(model))
    assert run.stop is not None
    assert run.outcome == "cancelled"
    assert run.stop.checkpoint is Checkpoint.STREAM_WAIT
    assert len(model.requests) == 1


def test_a_tool_in_flight_may_still_begin_what_it_needs_to_finish() -> None:
    @tool
    async def build(ctx: ToolContext) -> str:
        """Run two commands."""
        await ctx.run_process(["true"])
        ctx.progress("half")
        await ctx.cancelled()
        return f"{(await ctx.run_process(['echo', 'finished'])).stdout}"

    session = Agent(ScriptedModel([call("build", {})], "never"), [build]).session()

    async def main() -> Run:
        handle = session.start("go")
        async for event in handle:
            if isinstance(event, ToolProgress):
                handle.cancel(urgency=DRAIN)
        return await handle

    run = asyncio.run(main())
    assert run.outcome == "cancelled"
    assert (run.tool_calls[0].status, run.tool_calls[0].result) == (CallStatus.COMPLETED, "finished\n")


def test_a_stronger_cancel_stops_what_was_being_finished() -> None:
    session = session_of(ScriptedModel([say("one"), stall()], "next"))
    run, _, ended_at = drained_after(1, session, lambda: session.signal.cancel("enough", urgency=STOP))
    assert run.stop is not None
    assert (run.stop.reason.message, [reason.message for reason in run.stop.also]) == ("deploy", ["enough"])
    assert ended_at == 2


def test_a_drain_before_the_start_lets_nothing_begin() -> None:
    model = two_calls()
    session = session_of(model)
    session.signal.cancel(urgency=DRAIN)
    run = virtual_run(lambda: wait_for(session))
    assert run.stop is not None
    assert run.stop.checkpoint is Checkpoint.TURN_ENTRY
    assert model.requests == []


async def wait_for(session: Session) -> Run:
    return await session.start("go")


@pytest.mark.parametrize("dispatch", ["sequential", "parallel"])
def test_at_every_step_nothing_begins_after_a_drain_and_what_had_begun_is_finished(dispatch: str) -> None:
    def play(at: int | None) -> Run:
        model = two_calls()
        session = session_of(model, dispatch=dispatch)
        loop = VirtualLoop()
        asked: list[int] = []

        def fire(step: int) -> None:
            nonlocal steps
            if not session.runs:
                steps = step
                if step == at:
                    session.signal.cancel(urgency=DRAIN)
                    asked.append(len(model.requests))

        loop.before_step(fire)
        run = virtual_run(lambda: wait_for(session), loop=loop)
        assert not run.stragglers
        assert not find_problems(session.history)
        if asked:
            assert run.outcome == "cancelled"
            assert len(model.requests) == asked[0], "a request was sent after the drain"
        statuses = {record.status for record in run.tool_calls}
        assert statuses <= {CallStatus.COMPLETED, CallStatus.NOT_STARTED}, "what was in flight was not finished"
        return run

    steps = 0
    play(None)
    outcomes = [play(step).outcome for step in range(steps)]
    assert outcomes.count("cancelled") > 20
