"""Middleware around tool calls: order, vetoes, errors, a stop in each place, the ready-made ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from loopctl import Agent, Cancelled, CancelSignal, Checkpoint, Run, ToolContext, UsageError, tool
from loopctl.messages import ToolCall
from loopctl.middleware import CallNext, OutputLimit, Redact, Timeout, ToolOutcome
from loopctl.testing import ScriptedModel, call, swallow_always, virtual_run

SEEN: list[str] = []


@tool
async def nap(seconds: float) -> str:
    """Sleep."""
    SEEN.append("tool")
    await asyncio.sleep(seconds)
    return f"slept {seconds:g}, key sk-12345"


class Layer:
    def __init__(self, name: str, before: float = 0, after: float = 0) -> None:
        self.name, self.before, self.after = name, before, after

    async def tool_call(self, call: ToolCall, ctx: ToolContext, call_next: CallNext) -> ToolOutcome:
        SEEN.append(f"+{self.name}")
        await asyncio.sleep(self.before)
        outcome = await call_next(call)
        await asyncio.sleep(self.after)
        SEEN.append(f"-{self.name}")
        return outcome


class Own:
    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    async def tool_call(self, call: ToolCall, ctx: ToolContext, call_next: CallNext) -> ToolOutcome:
        outcome: ToolOutcome = await self.function(call, ctx, call_next)
        return outcome


def run_with(*layers: Any, seconds: float = 0, stop_at: float | None = None, deaf: Any = None) -> Run:
    SEEN.clear()

    async def main() -> Run:
        signal = CancelSignal()
        if stop_at is not None:
            asyncio.get_running_loop().call_later(stop_at, signal.cancel)
        asked = call("swallow_always") if deaf is not None else call("nap", {"seconds": seconds})
        tools = [nap, *([] if deaf is None else [deaf.function])]
        agent = Agent(ScriptedModel([asked], "ok"), tools, middleware=layers)
        try:
            return await agent.session().run("go", signal=signal)
        except Cancelled as stopped:
            return cast("Run", stopped.run)
        finally:
            if deaf is not None:
                deaf.release()
                await asyncio.sleep(1)

    return virtual_run(main)


def test_the_first_is_outermost() -> None:
    run = run_with(Layer("a"), Layer("b"))
    assert SEEN == ["+a", "+b", "tool", "-b", "-a"]
    assert run.tool_calls[0].status == "completed"


def test_a_layer_that_does_not_go_on_vetoes_and_says_why() -> None:
    async def veto(call_: Any, ctx: Any, call_next: Any) -> ToolOutcome:
        return ToolOutcome.denied("Not on Sundays.")

    (record,) = run_with(Layer("a"), Own(veto)).tool_calls
    assert (record.status, record.result, record.attempts) == ("denied", "Not on Sundays.", 0)
    assert SEEN == ["+a", "-a"]


def test_a_layer_may_change_arguments_but_not_the_id() -> None:
    async def change(call_: ToolCall, ctx: Any, call_next: CallNext) -> ToolOutcome:
        return await call_next(ToolCall("other", "else", {"seconds": 2}))

    run = run_with(Own(change))
    (record,) = run.tool_calls
    assert (record.name, record.arguments, record.status) == ("nap", {"seconds": 2}, "completed")
    assert record.id == run.turns[0].reply.tool_calls[0].id


async def raising(call_: Any, ctx: Any, call_next: Any) -> ToolOutcome:
    raise ValueError("broken")


async def nothing(call_: Any, ctx: Any, call_next: Any) -> None:
    await call_next(call_)


async def twice(call_: Any, ctx: Any, call_next: CallNext) -> ToolOutcome:
    await call_next(call_)
    return await call_next(call_)


async def own_cancel(call_: Any, ctx: Any, call_next: CallNext) -> ToolOutcome:
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("function", "words"),
    [(raising, "Own failed: ValueError: broken"), (nothing, "NoneType"), (twice, "once"), (own_cancel, "Cancelled")],
)
def test_a_broken_layer_is_a_failed_call_that_names_it(function: Any, words: str) -> None:
    run = run_with(Own(function))
    (record,) = run.tool_calls
    assert (run.outcome, record.status) == ("completed", "failed")
    assert record.result is not None
    assert words in record.result
    assert SEEN.count("tool") <= 1


@pytest.mark.parametrize(
    ("stop_at", "checkpoint", "status"),
    [(0.5, "PIPELINE", "not_started"), (1.5, "TOOL_CALL", "interrupted"), (2.5, "PIPELINE", "completed")],
)
def test_a_stop_names_the_innermost_wait(stop_at: float, checkpoint: str, status: str) -> None:
    run = run_with(Layer("a", 1, 1), seconds=1, stop_at=stop_at)
    assert run.stop is not None
    assert run.stop.checkpoint is Checkpoint[checkpoint]
    assert [record.status for record in run.tool_calls] == [status]


async def swallow(call_: Any, ctx: Any, call_next: Any) -> ToolOutcome:
    try:
        return await call_next(call_)
    except asyncio.CancelledError:
        return ToolOutcome.completed("all is well")


def test_a_layer_that_swallows_the_cancel_is_caught() -> None:
    """Case H6."""
    run = run_with(Own(swallow), seconds=5, stop_at=1)
    assert run.outcome == "cancelled"
    assert run.stop is not None
    assert run.stop.checkpoint is Checkpoint.TOOL_CALL
    assert [(record.status, record.result) for record in run.tool_calls] == [("interrupted", None)]


def test_a_deaf_tool_inside_of_layers_is_one_straggler() -> None:
    deaf = swallow_always()
    run = run_with(Layer("a"), Layer("b"), deaf=deaf, stop_at=1)
    assert [record.status for record in run.tool_calls] == ["abandoned"]
    assert [straggler.name for straggler in run.stragglers] == ["swallow_always"]


def test_a_timeout_stops_the_tool_and_not_the_run() -> None:
    run = run_with(Timeout(2), Timeout(9), seconds=50)
    (record,) = run.tool_calls
    assert (run.outcome, record.status) == ("completed", "failed")
    assert record.result is not None
    assert "took too long" in record.result


def test_a_cancel_beats_the_clock() -> None:
    run = run_with(Timeout(1), seconds=50, stop_at=1)
    assert run.outcome == "cancelled"
    assert [record.status for record in run.tool_calls] == ["interrupted"]


def test_a_timeout_is_bounded_also_when_the_tool_never_ends() -> None:
    deaf = swallow_always()
    run = run_with(Timeout(1), deaf=deaf)
    assert run.outcome == "completed"
    assert [record.status for record in run.tool_calls] == ["abandoned"]


def test_results_are_cut_and_secrets_taken_out() -> None:
    run = run_with(Redact([r"sk-\w+"], instead="[\\1]"))
    assert run.tool_calls[0].result == "slept 0, key [\\1]"
    (record,) = run_with(OutputLimit(8)).tool_calls
    assert record.result is not None
    assert record.result.startswith("slept ")
    assert "13 of 21 characters left out" in record.result


@pytest.mark.parametrize("given", [object(), Layer, Timeout])
def test_what_is_no_middleware_is_refused(given: Any) -> None:
    with pytest.raises(UsageError, match="middleware="):
        Agent(ScriptedModel("x"), middleware=[given])


@pytest.mark.parametrize(
    "make",
    [lambda: Timeout(0), lambda: OutputLimit(0), lambda: Redact("x"), lambda: Redact(["("])],
    ids=["timeout", "limit", "text", "pattern"],
)
def test_a_setting_out_of_range_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(UsageError):
        make()
