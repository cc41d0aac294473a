"""Both observers on real runs: what a run tells is enough for them, however it ends."""

from __future__ import annotations

import asyncio
import dataclasses
import logging

import pytest
from opentelemetry.trace import StatusCode

from loopctl import Agent, CancelReason, ModelError, RunConfig, RunEnded, TextDelta, ToolStarted
from loopctl.observers import LoggingObserver, check_observers, notify
from loopctl.testing import ScriptedModel, call, fail, say, stall, usage, virtual_run
from tests.unit.observers.exported import Exported


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def hang() -> str:
    """Never return."""
    await asyncio.Event().wait()
    return "never"


async def break_when_stopped() -> str:
    """Fail oddly when stopped."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        raise OSError("connection lost") from None
    return "never"


async def watch(handle, observers, stop_at=None, reason=None):
    """Tell *observers* what a reader is told, and cancel at the first event of the type *stop_at*."""
    async for event in handle:
        notify(observers, dataclasses.replace(event, run_id=handle.id))
        if stop_at is not None and isinstance(event, stop_at):
            handle.cancel(reason or "seen enough")
    return await handle


def live(*replies, stop_at=None, reason=None, **config):
    """One run under both observers; gives the run and what was exported."""
    out = Exported()
    observers = check_observers([LoggingObserver(), out.observer])

    async def main():
        agent = Agent(ScriptedModel(*replies), [add, hang, break_when_stopped], config=RunConfig(**config))
        return await watch(agent.session().start("go"), observers, stop_at, reason)

    return virtual_run(main), out


def names(out):
    return sorted(span.name.split()[0] for span in out.spans)


def test_a_run_with_a_tool_is_traced_in_full(caplog):
    caplog.set_level(logging.INFO, "loopctl.runs")
    run, out = live([call("add", {"a": 1, "b": 2}), usage(5, 2)], [say("It is 3."), usage(9, 4)])
    assert run.outcome == "completed"
    assert out.all_ended
    assert names(out) == ["chat", "chat", "execute_tool", "invoke_agent"]
    assert all(span.status.status_code is StatusCode.UNSET for span in out.spans)
    root = out.span("invoke_agent")
    assert root.attributes["gen_ai.usage.input_tokens"] == 14
    tokens = {labels["gen_ai.token.type"]: point.sum for labels, point in out.points("gen_ai.client.token.usage")}
    assert tokens == {"input": 14, "output": 6}
    assert [record.event for record in caplog.records if record.name == "loopctl.runs"][-1] == "RunEnded"


STOPS = {
    "in a stream": ([say("one "), stall()], TextDelta, "STREAM_EVENT"),
    "in a tool": ([call("hang", {})], ToolStarted, "TOOL_CALL"),
    "in a tool that fails oddly": ([call("break_when_stopped", {})], ToolStarted, "TOOL_CALL"),
}


@pytest.mark.parametrize("place", STOPS)
@pytest.mark.parametrize("origin", ["user", "deadline"])
def test_a_stop_leaves_no_span_open_and_only_a_limit_is_an_error(caplog, place, origin):
    """Case K1: every span of the cancelled run is ended. Case C11: a user's stop is no error anywhere."""
    caplog.set_level(logging.DEBUG)
    reply, stop_at, _ = STOPS[place]
    run, out = live(reply, stop_at=stop_at, reason=CancelReason(origin, "enough"))
    assert run.outcome == "cancelled"
    assert out.all_ended
    is_tool_cut = stop_at is ToolStarted
    broken = {span.name.split()[0] for span in out.spans if span.status.status_code is StatusCode.ERROR}
    assert broken == (set() if origin == "user" else {"invoke_agent", "execute_tool" if is_tool_cut else "chat"})
    root = out.span("invoke_agent")
    assert root.attributes["loopctl.cancel.origin"] == origin
    assert root.attributes["loopctl.cancel.checkpoint"] == run.stop.checkpoint.name
    assert root.start_time <= root.events[0].timestamp <= root.end_time
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    (last,) = [record for record in caplog.records if getattr(record, "event", "") == "RunEnded"]
    assert (last.outcome, last.origin) == ("cancelled", origin)


def test_a_failed_model_is_an_error_of_its_request_and_of_the_run(caplog):
    run, out = live([fail(ModelError("no key", status=401))])
    assert run.outcome == "failed"
    assert out.all_ended
    assert {span.attributes.get("error.type") for span in out.spans} == {"401"}
    assert [record.levelname for record in caplog.records if getattr(record, "outcome", "") == "failed"] == ["ERROR"]


def test_the_tools_of_the_last_turn_have_no_span_for_they_never_began():
    run, out = live([call("add", {"a": 1, "b": 2})], max_turns=1)
    assert run.outcome == "max_turns"
    assert out.all_ended
    assert names(out) == ["chat", "invoke_agent"]
    assert out.span("invoke_agent").attributes["error.type"] == "MaxTurnsExceeded"


def test_a_stream_of_events_may_be_closed_by_another_task(caplog):
    """Case K2: the caller's generator is closed elsewhere than it was read; nothing complains, every span is ended."""
    out = Exported()

    async def main():
        agent = Agent(ScriptedModel([say("one "), stall()]))
        with out.tracers.get_tracer("app").start_as_current_span("request"):
            handle = agent.session().start("go")
            readers = [aiter(handle)]  # from before the first event; held by nobody but the generator

        async def events():
            async for event in readers.pop():
                out.observer(dataclasses.replace(event, run_id=handle.id))
                yield event

        stream = events()

        async def read():
            async for event in stream:
                if isinstance(event, TextDelta):
                    return

        await asyncio.create_task(read())
        await asyncio.create_task(stream.aclose())
        run = await handle
        out.observer(RunEnded(run, run_id=run.id))  # the reader is gone; an observer of the agent is told it
        return run

    run = virtual_run(main)
    assert (run.outcome, run.stop.reason.origin) == ("cancelled", "caller")
    assert out.all_ended
    assert names(out) == ["chat", "invoke_agent", "request"]
    assert all(span.status.status_code is StatusCode.UNSET for span in out.spans)
    assert caplog.records == []
