"""A tool, layers of one function, and a run through them in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from loopctl import Agent, Cancelled, CancelSignal, Run, RunConfig, Session, ToolError, Urgency, tool
from loopctl.messages import ToolCall
from loopctl.middleware import CallContext, CallNext, ToolOutcome
from loopctl.testing import ScriptedModel, call, virtual_run

SEEN: list[str] = []
"""What began and ended, in order."""


@tool(parallel=True)
async def nap(seconds: float = 0, word: str = "", fails: bool = False) -> str:
    """Sleep."""
    SEEN.append(f"nap {word}".strip())
    await asyncio.sleep(seconds)
    if fails:
        raise ToolError("no sleep: key sk-12345")
    return f"slept {seconds:g}, key sk-12345"


@dataclass
class Layer:
    """Waits before and after the rest."""

    name: str
    before: float = 0
    after: float = 0

    async def tool_call(self, call: ToolCall, ctx: CallContext, call_next: CallNext) -> ToolOutcome:
        SEEN.append(f"+{self.name}")
        await asyncio.sleep(self.before)
        outcome = await call_next(call)
        await asyncio.sleep(self.after)
        SEEN.append(f"-{self.name}")
        return outcome


@dataclass
class Own:
    """Does what its function does."""

    function: Callable[[Any, Any, Any], Awaitable[Any]]

    async def tool_call(self, call: ToolCall, ctx: CallContext, call_next: CallNext) -> ToolOutcome:
        return cast("ToolOutcome", await self.function(call, ctx, call_next))


@dataclass
class Setup:
    """A run of one reply with *calls*, and what it is run with."""

    layers: Sequence[Any] = ()
    calls: Sequence[Any] = (call("nap"),)
    tools: Sequence[Any] = (nap,)
    stop_at: float | None = None
    urgency: Urgency = Urgency.STOP
    agent: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    signal: CancelSignal = field(default_factory=CancelSignal)

    def session(self) -> Session:
        model = ScriptedModel(list(self.calls), "ok")
        config = RunConfig(**self.config)
        return Agent(model, self.tools, middleware=self.layers, config=config, **self.agent).session()

    async def go(self) -> Run:
        SEEN.clear()
        if self.stop_at is not None:
            loop = asyncio.get_running_loop()
            loop.call_later(self.stop_at, lambda: self.signal.cancel(urgency=self.urgency))
        try:
            return await self.session().run("go", signal=self.signal)
        except Cancelled as stopped:
            return cast("Run", stopped.run)

    def run(self) -> Run:
        return virtual_run(self.go)


def run_with(*layers: Any, seconds: float = 0, stop_at: float | None = None, **more: Any) -> Run:
    """Run one call of `nap` through *layers*."""
    return Setup(layers, [call("nap", {"seconds": seconds, **more})], stop_at=stop_at).run()


def ends(run: Run) -> list[tuple[str, int]]:
    """Give status and attempts of each call."""
    return [(str(record.status.value), record.attempts) for record in run.tool_calls]
