"""An agent as one tool: a call is one run of a session of its own.

Rules: the call's signal is given to the run, so that a cancel of the call is the stop of the run, with its reason; what
the run does is told as progress; what it leaves running is kept here, since its session is gone with the call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Coroutine
from typing import Any

from loopctl.concurrency import Straggler
from loopctl.driver import Agent
from loopctl.errors import ToolError
from loopctl.record import Event, Run, ToolFinished, ToolProgress, ToolStarted, TurnStarted
from loopctl.tools import Tool, ToolContext

__all__ = ["AgentTool"]

_KEPT = 1000
"""Stragglers that are remembered: a server may run for a long time."""


class AgentTool(Tool[..., Coroutine[Any, Any, str]]):
    """An agent that others call as a tool, with a text; its answer is the run's output."""

    agent: Agent
    """What answers."""
    stragglers: deque[Straggler]
    """The work that its runs had to leave, and what of it has ended since; the newest."""

    def __init__(self, agent: Agent, name: str, description: str = "") -> None:
        """Make a tool of *agent*. Closing the agent is the caller's.

        Args:
            agent: What answers. Its tools ask whoever it has as `approve`.
            name: What the tool is called.
            description: What is said of it to those who may call it.

        Raises:
            UsageError: The name is none for a tool.
        """
        self.agent = agent
        self.stragglers = deque(maxlen=_KEPT)

        async def ask(input: str, ctx: ToolContext) -> str:  # noqa: D417 - clients are told of the input only
            """Ask an agent, which works with tools of its own until it can answer.

            Args:
                input: What it is to do, with all that it needs to know: it remembers no earlier call.
            """
            return await self._run(input, ctx)

        is_reading = all(made.read_only for made in agent.tools.values())
        super().__init__(ask, name=name, description=description or None, read_only=is_reading)

    async def _run(self, text: str, ctx: ToolContext) -> str:
        session = self.agent.session()
        try:
            async with session.start(text, signal=ctx.signal) as handle:
                async for event in handle:
                    said = _said(event)
                    if said:
                        ctx.progress(said)
                run = await handle
        finally:
            self.stragglers += session.stragglers
        ctx.signal.raise_if_cancelled()
        if run.outcome != "completed":
            raise ToolError(f"{self.name} has no answer: {_why(run)}")
        return run.output or ""


def _why(run: Run) -> str:
    """Say how *run* ended, for those who know nothing of its program."""
    if run.outcome == "max_turns":
        return f"it had not come to an end after {len(run.turns)} turns"
    if run.stop is not None:
        return f"it was stopped ({run.stop.reason})"
    return f"it failed: {run.error}"


def _said(event: Event) -> str:
    """Say what a client is told of *event*; empty for nothing."""
    match event:
        case TurnStarted():
            return f"turn {event.number}"
        case ToolStarted():
            return f"{event.call.name}: begun"
        case ToolProgress():
            return f"{event.name}: {event.message}"
        case ToolFinished():
            return f"{event.call.name}: {event.call.status.value.replace('_', ' ')}"
    return ""
