"""Bound each tool call."""

from __future__ import annotations

from collections.abc import Collection

from loopctl.errors import UsageError
from loopctl.messages import ToolCall
from loopctl.middleware._names import check_names
from loopctl.recovery import CEILING
from loopctl.tools import CallContext, CallNext, ToolOutcome, check_limit

__all__ = ["Timeout"]


class Timeout:
    """Stops a tool that takes too long, as a cancel would, and lets the run go on: the call has failed.

    The time of the tool itself counts, not that of a person who is asked first. The tool's context says that it is to
    stop, with the origin `deadline`. A tool that does not end in time and in the grace after it is left alone, a
    straggler. A cancel beats the clock.
    """

    def __init__(self, seconds: float, *, retries: int = 0, tools: Collection[str] | None = None) -> None:
        """Allow *seconds* for the first attempt of each call.

        Args:
            seconds: More than 0.
            retries: Attempts that may follow one that took too long, from 0 to 4, each with twice the time, after the
                backoff of the agent's `ToolRecovery` and within its `max_attempts`. None follows while the one before
                still runs. A tool that has an effect may then have it twice.
            tools: The names of the tools that are bounded; None means all of them.

        Raises:
            UsageError: A value is out of its range.
        """
        self.seconds: float = check_limit("Timeout", seconds)
        given: object = retries
        if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < CEILING:
            raise UsageError(f"Timeout.retries is a whole number from 0 to {CEILING - 1}, not {given!r}")
        self.retries: int = retries
        self.tools: Collection[str] | None = check_names("Timeout", tools)

    async def tool_call(self, call: ToolCall, ctx: CallContext, call_next: CallNext) -> ToolOutcome:
        """Pass the call on with a limit.

        Cancellation:
            As of the rest.
        """
        if self.tools is None or call.name in self.tools:
            ctx.limit(self.seconds, retries=self.retries)
        return await call_next(call)
