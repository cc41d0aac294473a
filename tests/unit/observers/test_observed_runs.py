"""Both observers given to an agent: every run they are told of ends for them too, wherever it is stopped."""

from __future__ import annotations

import asyncio
import logging

import pytest
from opentelemetry.trace import StatusCode

from loopctl import Agent, RunConfig, StragglerEnded, TextDelta
from loopctl.observers import LoggingObserver
from loopctl.testing import ScriptedModel, call, say, stall, swallow_always, usage, virtual_run
from tests.unit.observers.exported import Exported


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    await asyncio.sleep(0)
    return a + b


SCRIPT = ([say("one moment"), call("add", {"a": 1, "b": 2}), usage(5, 2)], [say("It is 3."), usage(9, 4)])


@pytest.mark.parametrize("steps", range(60))
def test_wherever_the_run_is_stopped_every_span_is_ended_and_none_is_an_error(steps, caplog):
    """Case K1: the cancel comes after each number of turns of the loop in turn."""
    caplog.set_level(logging.DEBUG)
    out = Exported()

    async def main():
        agent = Agent(ScriptedModel(*SCRIPT), [add], observers=[LoggingObserver(), out.observer])
        handle = agent.session().start("go")
        for _ in range(steps):
            await asyncio.sleep(0)
        handle.cancel("seen enough")
        return await handle

    run = virtual_run(main)
    assert out.all_ended
    assert not any(span.status.status_code is StatusCode.ERROR for span in out.spans)
    assert not any("error.type" in labels for labels in out.labels("loopctl.runs"))
    assert sum(point.value for _, point in out.points("loopctl.runs")) == 1
    told = [record for record in caplog.records if record.name == "loopctl.runs"]
    assert all(record.levelno < logging.WARNING for record in told)
    assert told[-1].outcome == run.outcome
    assert [record.event for record in told].count("RunEnded") == 1
    if steps == 0:
        assert run.outcome == "cancelled"


def test_both_endings_occur_in_the_sweep_above():
    async def main(steps):
        handle = Agent(ScriptedModel(*SCRIPT), [add]).session().start("go")
        for _ in range(steps):
            await asyncio.sleep(0)
        handle.cancel()
        return (await handle).outcome

    outcomes = [virtual_run(lambda steps=steps: main(steps)) for steps in (0, 59)]
    assert outcomes == ["cancelled", "completed"]


def test_a_straggler_of_an_ended_run_is_measured_under_no_span():
    out = Exported()
    told = []
    probe = swallow_always()

    async def main():
        agent = Agent(
            ScriptedModel([call("swallow_always", {})]),
            [probe.function],
            observers=[out.observer, told.append],
            config=RunConfig(grace=0.1),
        )
        session = agent.session()
        handle = session.start("go")
        await asyncio.sleep(1)
        handle.cancel()
        run = await handle
        spans = out.started
        assert out.all_ended
        assert run.stragglers
        probe.release()
        await session.aclose()
        assert out.started == spans
        return run

    run = virtual_run(main)
    assert run.outcome == "cancelled"
    assert out.span("invoke_agent").attributes["loopctl.run.stragglers"] == 1
    assert out.span("execute_tool swallow_always").status.status_code is StatusCode.UNSET
    assert isinstance(told[-1], StragglerEnded)
    assert [point.count for _, point in out.points("loopctl.straggler.duration")] == [1]


def test_an_observer_may_stop_the_run_it_watches_and_the_next_observer_sees_the_end():
    out = Exported()

    async def main():
        def stop(event):
            if isinstance(event, TextDelta):
                session.signal.cancel("seen enough")

        session = Agent(ScriptedModel([say("one"), stall()]), observers=[stop, out.observer]).session()
        return await session.start("go")

    assert virtual_run(main).outcome == "cancelled"
    assert out.all_ended
    assert out.span("chat scripted").attributes["loopctl.chat.outcome"] == "cancelled"


def test_the_run_is_under_the_span_of_its_caller():
    out = Exported()

    async def main():
        session = Agent(ScriptedModel([say("one")]), observers=[out.observer]).session()
        with out.tracers.get_tracer("app").start_as_current_span("request"):
            handle = session.start("go")
        await handle

    virtual_run(main)
    assert out.span("invoke_agent").parent.span_id == out.span("request").context.span_id
