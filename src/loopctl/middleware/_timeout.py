"""Bound each tool call."""

from __future__ import annotations

from collections.abc import Collection

from loopctl.concurrency import check_seconds
from loopctl.errors import UsageError
from loopctl.messages import ToolCall
from loopctl.tools import CallNext, ToolContext, ToolOutcome

__all__ = ["Timeout"]


class Timeout:
    """Stops a tool that takes too long, as a cancel would, and lets the run go on.

    The time of the tool itself counts, not that of a person who is asked first. A tool that does not end in time and in
    the grace after it is abandoned. A cancel beats the clock.
    """

    def __init__(self, seconds: float, *, tools: Collection[str] | None = None) -> None:
        """Allow *seconds*, more than 0, for each attempt of a call of *tools*; None means all of them.

        Raises:
            UsageError: *seconds* is none.
        """
        self.seconds: float = check_seconds("Timeout", seconds)
        if self.seconds == 0:
            raise UsageError("Timeout is more than 0 seconds: leave it out for no limit")
        self.tools: Collection[str] | None = tools

    async def tool_call(self, call: ToolCall, ctx: ToolContext, call_next: CallNext) -> ToolOutcome:
        """Pass the call on with a limit.

        Cancellation:
            As of the rest.
        """
        if self.tools is None or call.name in self.tools:
            ctx.limit(self.seconds)
        return await call_next(call)
