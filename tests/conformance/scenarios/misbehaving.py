"""Runs with each tool of `loopctl.testing` that does with a cancellation what no tool should."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

from loopctl import Agent, RunConfig, Session, Tool, ToolContext, tool
from loopctl.testing import (
    Probe,
    Scenario,
    block_loop,
    block_thread,
    call,
    cancel_itself,
    cleanup_slowly,
    count,
    end_normally,
    finally_endless,
    poll_thread,
    raise_odd_error,
    say,
    shield_work,
    swallow_always,
    swallow_once,
    uncancel,
    wait_politely,
)
from tests.conformance.scenarios.tools import THEN, telling

__all__ = ["SCENARIOS"]

_RELEASED = 2.0
"""Virtual seconds after which a tool is let go by itself."""


def _on_the_loop(name: str, make: Callable[[], Probe], released: float) -> Tool[..., Any]:
    async def misbehave() -> str:
        """Misbehave, and end after a while."""
        probe = make()
        timer = asyncio.get_running_loop().call_later(released, probe.release)
        try:
            result: str = await probe.function()
            return result
        finally:
            if probe.is_released:
                timer.cancel()

    return tool(name=name)(misbehave)


def _on_a_thread(name: str, make: Callable[[], Probe]) -> Tool[..., Any]:
    def misbehave(ctx: ToolContext) -> str:
        """Misbehave for a moment of real time, as the clock stands still for a thread."""
        probe = make()
        probe.block_until_released(0.001)
        probe.release()
        result: str = probe.function(ctx) if name == "poll_thread" else probe.function()
        return result

    return tool(name=name)(misbehave)


async def _events() -> AsyncIterator[int]:
    try:
        while True:
            await asyncio.sleep(1)
            yield 1
    finally:
        yield 2  # what no generator should do: it cannot be closed


async def yield_in_finally() -> str:
    """Read from a generator that yields in its finally."""
    try:
        async with aclosing(_events()) as events:  # type: ignore[type-var]
            async for number in events:
                if number == 1:
                    return "read"
    except RuntimeError as error:
        return str(error)
    return "never"


def _scenario(tool: Tool[..., Any], *, stragglers: bool = False, grace: float = 1, **config: Any) -> Scenario:
    def make() -> Session:
        replies = ([say("let me"), call(tool.name, {})],)
        return Agent(telling(*replies), [tool], config=RunConfig(grace=grace, **config)).session()

    return Scenario(make, then=THEN, stragglers=stragglers, name=tool.name)


_ENDING: tuple[Callable[[], Probe], ...] = (
    wait_politely,
    swallow_once,
    end_normally,
    raise_odd_error,
    cancel_itself,
    count,
)
"""They end within the grace."""
_LASTING = (swallow_always, uncancel, shield_work)
"""They do not, or something of theirs does not."""

SCENARIOS = (
    *(_scenario(_on_the_loop(make.__name__, make, _RELEASED), grace=3) for make in _ENDING),
    *(_scenario(_on_the_loop(make.__name__, make, _RELEASED + 3), stragglers=True) for make in _LASTING),
    # It never ends by itself: its run ends at the deadline.
    _scenario(_on_the_loop("finally_endless", finally_endless, _RELEASED + 3), stragglers=True, deadline=2),
    _scenario(_on_the_loop("cleanup_slowly", lambda: cleanup_slowly(0.5), _RELEASED)),
    _scenario(_on_the_loop("cleanup_too_slowly", lambda: cleanup_slowly(5), _RELEASED), stragglers=True),
    _scenario(_on_the_loop("block_loop", lambda: block_loop(0.0001), _RELEASED)),
    _scenario(_on_a_thread("block_thread", block_thread), stragglers=True),
    _scenario(_on_a_thread("poll_thread", poll_thread)),
    _scenario(tool(yield_in_finally)),
)
