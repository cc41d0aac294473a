"""What comes when a run is over: it is dropped and counted, and changes nothing."""

from __future__ import annotations

import asyncio

from loopctl import Agent, RunConfig, RunEnded, ToolContext
from loopctl.record import Event, StragglerEnded
from loopctl.recovery import ModelRecovery
from loopctl.testing import ScriptedModel, absorb, call, fail, pause, say, usage, virtual_run


def test_a_model_that_goes_on_after_the_end_revives_nothing() -> None:
    """Case J11: its deltas, its calls and its end mark come late."""
    told: list[Event] = []

    async def main() -> None:
        late = [say("late"), call("pay", {}), usage(5, 5)]
        model = ScriptedModel([say("a"), absorb(), pause(50), pause(50), pause(50), *late])
        session = Agent(model, observers=[told.append], config=RunConfig(grace=1)).session()
        handle = session.start("go")
        seen = aiter(handle)
        await asyncio.sleep(1)
        handle.cancel()
        run = await handle
        before = run.to_json()
        events = [event async for event in seen]
        count = len(told)
        assert isinstance(events[-1], RunEnded)
        await asyncio.sleep(500)
        assert run.to_json() == before
        assert session.runs == (run,)
        assert [type(event) for event in told[count:]] == [StragglerEnded]
        assert [event async for event in seen] == []

    virtual_run(main)


def test_a_tool_that_goes_on_reporting_is_counted_and_not_heard() -> None:
    """Case J11: progress of a call of a run that is over."""
    told: list[Event] = []

    async def chatty(ctx: ToolContext) -> str:
        """Swallow the stop, and go on talking."""
        for _ in range(4):
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                continue
        ctx.progress("late")
        ctx.progress("later")
        return "done"

    async def main() -> None:
        config = RunConfig(grace=1)
        session = Agent(ScriptedModel([call("chatty", {})]), [chatty], observers=[told.append], config=config).session()
        handle = session.start("go")
        await asyncio.sleep(1)
        handle.cancel()
        run = await handle
        count = len(told)
        assert (run.outcome, handle.late_events) == ("cancelled", 0)
        await asyncio.sleep(500)
        assert handle.late_events == 2
        assert [type(event) for event in told[count:]] == [StragglerEnded]
        assert run.tool_calls[0].status == "abandoned"

    virtual_run(main)


def test_an_attempt_that_was_given_up_is_counted_and_not_heard() -> None:
    """Case J11 for an attempt: the run goes on, and the one before it still talks."""

    async def main() -> None:
        first = [absorb(), say("a"), pause(50), pause(50), pause(50), say("late", "later")]
        model = ScriptedModel(first, [pause(300), say("fine")])
        config = RunConfig(grace=1, event_timeout=5, first_event_timeout=None, turn_timeout=None)
        handle = Agent(model, recovery=ModelRecovery(jitter=0), config=config).session().start("go")
        texts = [event.text async for event in handle if hasattr(event, "text")]
        assert texts == ["a", "fine"]
        assert handle.late_events == 2

    virtual_run(main)


def test_an_event_for_a_run_that_is_over_is_dropped_by_each_way_in() -> None:
    """Case J11."""

    async def main() -> None:
        handle = Agent(ScriptedModel("a")).session().start("go")
        reader = aiter(handle)
        run = await handle
        events = [event async for event in reader]
        execution = handle._execution
        execution.tell(events[0])
        await execution.emit(events[0])
        execution.drop()
        assert handle.late_events == 3
        assert [event async for event in aiter(handle)] == [RunEnded(run, run.id)]

    virtual_run(main)


def test_nothing_is_late_in_a_run_that_ends_by_itself_or_fails() -> None:
    async def main() -> None:
        session = Agent(ScriptedModel("a", fail("no"))).session()
        for _ in range(2):
            handle = session.start("go")
            await handle
            assert handle.late_events == 0

    virtual_run(main)
