"""Runs in which the tool calls are what happens: one after the other, in waves, tried again, asked for, in layers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from loopctl import Agent, Checkpoint, RunConfig, Session, Tool, ToolContext
from loopctl.messages import ToolCall
from loopctl.record import ToolStarted
from loopctl.recovery import RetryCall, ToolRecovery
from loopctl.testing import Scenario, Stopped, call, say
from tests.conformance.scenarios.tools import ASKED, BESIDE, PLAIN, THEN, telling, the_record_is_true

__all__ = ["SCENARIOS"]

RETRY = ToolRecovery(strategy=lambda failure: RetryCall(after=2 * failure.attempt))


def _session(tools: list[Tool[..., Any]], *replies: Any, **options: Any) -> Session:
    config = RunConfig(grace=3, dispatch=options.pop("dispatch", "sequential"), max_concurrency=2)
    return Agent(telling(*replies), tools, config=config, **options).session()


def _calls(*calls: tuple[str, str]) -> list[Any]:
    return [call(tool, {"name": name}) for tool, name in calls]


def sequential() -> Session:
    """Call tools that exist, one that does not, and one with the wrong arguments."""
    first = [say("let me"), *_calls(("note", "1"), ("note", "2"))]
    second = [call("nothing_of_the_kind", {}), *_calls(("clean", "3"))]
    return _session(PLAIN, first, second, [call("nothing_of_the_kind", {}), call("note", {"nome": "4"})])


def deaf_tool() -> Session:
    return _session(PLAIN, _calls(("deaf", "1"), ("note", "2")))


def thread_tool() -> Session:
    return _session(PLAIN, _calls(("slow_thread", "1"), ("note", "2")))


def progress() -> Session:
    return _session(PLAIN, _calls(("report", "1")))


def tool_retries() -> Session:
    return _session(PLAIN, _calls(("flaky", "1"), ("note", "2")), recovery=RETRY)


def waves() -> Session:
    """Three at a limit of two, one that waits for a resource of the first, one alone, one after it."""
    names = [("note", name) for name in ("1", "2", "3", "1b")]
    return _session(BESIDE, [say("let me"), *_calls(*names, ("alone", "4"), ("clean", "5"))], dispatch="parallel")


def uneven_wave() -> Session:
    """Calls that cannot be called, swallow the stop, tidy up and fail, side by side."""
    bad, unknown = call("note", {"nome": "4"}), call("nothing_of_the_kind", {})
    return _session(BESIDE, [*_calls(("deaf", "1"), ("note", "2")), bad, unknown], dispatch="parallel")


def wave_with_a_thread() -> Session:
    return _session(BESIDE, _calls(("slow_thread", "1"), ("note", "2")), dispatch="parallel")


def wave_with_retries() -> Session:
    return _session(BESIDE, _calls(("flaky", "1"), ("note", "2")), dispatch="parallel", recovery=RETRY)


async def person(wanted: ToolCall, ctx: ToolContext) -> bool:
    """Think for a while, then allow what is named with an odd number."""
    await asyncio.sleep(2)
    return wanted.arguments["name"] in {"1", "3"}


async def deaf_person(wanted: ToolCall, ctx: ToolContext) -> bool:
    """Answer yes, however often the question is taken back."""
    try:
        await asyncio.sleep(2)
    except asyncio.CancelledError:
        await asyncio.sleep(0.5)
    return True


def approval() -> Session:
    return _session(ASKED, _calls(("note", "1"), ("note", "2"), ("clean", "3")), approve=person)


def approval_swallowed() -> Session:
    return _session(ASKED, _calls(("note", "1"), ("note", "2")), approve=deaf_person)


def failing_observers() -> Session:
    def fails(event: object) -> None:
        raise OSError("the log is full")

    return _session(PLAIN, _calls(("note", "1")), observers=[fails])


def no_effect_is_repeated(stopped: Stopped) -> None:
    """Check the record, and that a retry was told as the same call."""
    the_record_is_true(stopped)
    told = [event.id for event in stopped.told if isinstance(event, ToolStarted)]
    assert len(set(told)) == len(told), "a retry was told as another call"


C = Checkpoint
_CHECK: Callable[[Stopped], object] = no_effect_is_repeated
SCENARIOS = (
    Scenario(sequential, then=THEN, catches=frozenset({C.TOOL_CALL, C.BETWEEN_CALLS}), check=_CHECK),
    Scenario(deaf_tool, then=THEN, reads=False, catches=frozenset({C.TOOL_CALL}), check=_CHECK),
    Scenario(thread_tool, then=THEN, stragglers=True, catches=frozenset({C.TOOL_CALL}), check=_CHECK),
    Scenario(progress, then=THEN, catches=frozenset({C.TOOL_CALL})),
    Scenario(tool_retries, then=THEN, catches=frozenset({C.TOOL_CALL, C.RECOVERY_WAIT}), check=_CHECK),
    Scenario(waves, then=THEN, catches=frozenset({C.TOOL_CALL, C.WAVE}), check=_CHECK),
    Scenario(uneven_wave, then=THEN, catches=frozenset({C.TOOL_CALL}), check=_CHECK),
    Scenario(wave_with_a_thread, then=THEN, stragglers=True, catches=frozenset({C.TOOL_CALL}), check=_CHECK),
    Scenario(wave_with_retries, then=THEN, catches=frozenset({C.TOOL_CALL, C.RECOVERY_WAIT}), check=_CHECK),
    Scenario(approval, then=THEN, catches=frozenset({C.APPROVAL, C.TOOL_CALL}), check=_CHECK),
    Scenario(approval_swallowed, then=THEN, catches=frozenset({C.APPROVAL, C.TOOL_CALL}), check=_CHECK),
    Scenario(failing_observers, then=THEN),
)
