"""Runs with middleware around their calls and their requests, and with a gate before those."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from loopctl import Agent, Checkpoint, RunConfig, Session, Tool, tool
from loopctl.messages import ToolCall
from loopctl.middleware import (
    CallNext,
    Memoize,
    ModelNext,
    OutputLimit,
    Permission,
    RateGate,
    Redact,
    Timeout,
    ToolOutcome,
)
from loopctl.model import Delta, ModelRequest, ReplyEnd, TextPart
from loopctl.recovery import ModelRecovery
from loopctl.testing import NonStreamingModel, Scenario, Stopped, call, pause, say, slow_close
from loopctl.tools import CallContext
from tests.conformance.scenarios.tools import LOST, PLAIN, THEN, telling, the_record_is_true

__all__ = ["SCENARIOS"]


class Pause:
    """Works before and after each call."""

    async def tool_call(self, wanted: ToolCall, ctx: CallContext, call_next: CallNext) -> ToolOutcome:
        """Pass it on, slowly."""
        await asyncio.sleep(0.5)
        outcome = await call_next(wanted)
        await asyncio.sleep(0.5)
        return outcome


class Deaf:
    """Swallows the cancel that comes while it waits for the call."""

    async def tool_call(self, wanted: ToolCall, ctx: CallContext, call_next: CallNext) -> ToolOutcome:
        """Pass it on, and answer whatever came of it."""
        try:
            return await call_next(wanted)
        except asyncio.CancelledError:
            return ToolOutcome.failed("swallowed")


class Broken:
    """Fails after each call."""

    async def tool_call(self, wanted: ToolCall, ctx: CallContext, call_next: CallNext) -> ToolOutcome:
        """Pass it on, and raise."""
        await call_next(wanted)
        raise OSError("the audit log is full")


@tool(read_only=True)
async def look(name: str) -> str:
    """Look, and change nothing."""
    await asyncio.sleep(1)
    return name


def _session(middleware: list[Any], *calls: tuple[str, str], **options: Any) -> Session:
    tools: list[Tool[..., Any]] = [*PLAIN, look]
    replies = [call(name, {"name": argument}) for name, argument in calls]
    return Agent(telling(replies), tools, middleware=middleware, config=RunConfig(grace=3), **options).session()


def around_calls() -> Session:
    stack = [Redact(["1"]), OutputLimit(100), Pause()]
    return _session(stack, ("note", "1"), ("slow_thread", "2"), ("clean", "3"))


def around_calls_misbehaving() -> Session:
    return _session([Deaf(), Broken()], ("note", "1"), ("clean", "2"))


def time_limits() -> Session:
    return _session([Timeout(0.7)], ("note", "1"), ("clean", "2"), ("deaf", "3"))


def memory() -> Session:
    """Look twice at the same, with a change between."""
    return _session([Memoize()], ("look", "1"), ("look", "1"), ("note", "2"), ("look", "1"))


async def person(asked: ToolCall, ctx: CallContext) -> bool:
    """Think for a while, then say yes."""
    await asyncio.sleep(1)
    return True


def permission() -> Session:
    rules = Permission({"look": "allow", "clean": "deny", "*": "ask"})
    return _session([rules], ("look", "1"), ("note", "2"), ("clean", "3"), approve=person)


OPEN: list[str] = []
"""Layers around requests that have been entered and not left."""
GATES: list[RateGate] = []


class Around:
    """Waits before and after a request, and tidies up."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def model_call(self, request: ModelRequest, call_next: ModelNext) -> AsyncIterator[Delta]:
        """Pass it on, slowly."""
        OPEN.append(self.name)
        try:
            await asyncio.sleep(1)
            async for delta in call_next(request):
                yield delta
                if isinstance(delta, ReplyEnd):
                    await asyncio.sleep(0.5)
        finally:
            try:
                await asyncio.sleep(0.1)  # a stop may come here too
            finally:
                OPEN.remove(self.name)


class DeafToStops:
    """Swallows the cancel of a request and answers all the same."""

    async def model_call(self, request: ModelRequest, call_next: ModelNext) -> AsyncIterator[Delta]:
        """Answer whatever happens."""
        try:
            async for delta in call_next(request):
                yield delta
        except asyncio.CancelledError:
            yield TextPart("all is well")
            yield ReplyEnd()


def _requests(*layers: Any, stream: bool = True, gate: RateGate | None = None) -> Session:
    OPEN.clear()
    GATES[:] = [] if gate is None else [gate]
    second = [say("a"), call("note", {"name": "1"}), slow_close(0.2)]
    model = telling([say("a"), LOST], second, [pause(1), say("b")], model=NonStreamingModel)
    recovery = ModelRecovery(jitter=0, first_delay=2)
    config = RunConfig(grace=3, stream=stream)
    return Agent(model, PLAIN, middleware=[*layers, *GATES], recovery=recovery, config=config).session()


def around_requests() -> Session:
    return _requests(Around("1"), Around("2"))


def around_whole_replies() -> Session:
    return _requests(Around("1"), stream=False)


def around_requests_deaf() -> Session:
    return _requests(DeafToStops(), Around("1"))


def gate() -> Session:
    return _requests(Around("1"), gate=RateGate(1, 10, concurrent=1))


def every_layer_was_left(stopped: Stopped) -> None:
    """Check that nothing is entered, no permit is lost, and what came after the stop is not in the record."""
    assert OPEN == [], "a layer was not left"
    assert all((each.held, each.waiting) == (0, 0) for each in GATES), "a permit is lost"
    if stopped.run is not None and stopped.run.outcome == "cancelled":
        assert "all is well" not in stopped.run.partial_text
    the_record_is_true(stopped)


C = Checkpoint
SCENARIOS = (
    Scenario(
        around_calls,
        then=THEN,
        stragglers=True,
        catches=frozenset({C.PIPELINE, C.TOOL_CALL}),
        check=the_record_is_true,
    ),
    Scenario(around_calls_misbehaving, then=THEN, catches=frozenset({C.TOOL_CALL})),
    Scenario(time_limits, then=THEN, catches=frozenset({C.TOOL_CALL})),
    Scenario(memory, then=THEN, catches=frozenset({C.PIPELINE, C.TOOL_CALL}), check=the_record_is_true),
    Scenario(permission, then=THEN, catches=frozenset({C.APPROVAL, C.TOOL_CALL}), check=the_record_is_true),
    *(
        Scenario(make, then=THEN, catches=frozenset(places), check=every_layer_was_left)
        for make, places in (
            (around_requests, {C.PIPELINE, C.STREAM_EVENT, C.STREAM_WAIT, C.TOOL_CALL}),
            (around_whole_replies, {C.PIPELINE, C.MODEL_REQUEST, C.STREAM_WAIT}),
            (around_requests_deaf, {C.PIPELINE, C.STREAM_EVENT}),
            (gate, {C.PIPELINE, C.STREAM_WAIT}),
        )
    ),
)
