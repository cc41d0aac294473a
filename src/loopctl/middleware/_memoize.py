"""Answer a call again from memory, if its tool is declared to change nothing."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Collection

from loopctl.concurrency import check_count, check_seconds
from loopctl.errors import UsageError
from loopctl.messages import ToolCall
from loopctl.middleware._names import check_names
from loopctl.record import CallStatus
from loopctl.tools import CallContext, CallNext, ToolOutcome

__all__ = ["Memoize"]


class Memoize:
    """Remembers what tools with `@tool(read_only=True)` returned, by their name and their arguments.

    Only a call that completed is remembered: none that failed, was stopped or denied, and none that somebody had to say
    yes to. A call of any other tool may change what is remembered: it empties the memory, before and after, and once
    more when what was left running of it has ended. A call that was answered from memory is `completed` and has 0
    attempts. Equal calls side by side all run, each for itself.

    The memory belongs to this object. An agent's sessions share its middleware, so they share the memory too: give an
    agent of its own to each user for whom a tool may answer otherwise.
    """

    def __init__(self, entries: int = 256, *, seconds: float = 300.0, tools: Collection[str] | None = None) -> None:
        """Remember *entries* results.

        Args:
            entries: How many, 1 or more; the oldest go first.
            seconds: For how long, more than 0, on the running loop's clock.
            tools: The names of the tools that are remembered, if they are read-only; None means all that are.

        Raises:
            UsageError: A value is out of its range.
        """
        self.entries: int = check_count("Memoize.entries", entries)
        self.seconds: float = check_seconds("Memoize.seconds", seconds)
        if self.seconds == 0:
            raise UsageError("Memoize.seconds is more than 0")
        self.tools: Collection[str] | None = check_names("Memoize", tools)
        self._lock = threading.Lock()  # an agent may be used on several loops
        self._memory: dict[str, tuple[float, str]] = {}
        self._age = 0
        """Counts how often it was emptied."""

    async def tool_call(self, call: ToolCall, ctx: CallContext, call_next: CallNext) -> ToolOutcome:
        """Answer the call from memory, or pass it on and remember its result.

        Cancellation:
            As of the rest; nothing is remembered of a call that was stopped.
        """
        if not ctx.read_only:
            self.forget()
            try:
                return await call_next(call)
            finally:
                self.forget()
                for straggler in ctx.still_running:  # it may change something yet
                    straggler.on_end(lambda _: self.forget())
        key = self._key(call)
        if key is None or ctx.needs_approval:
            return await call_next(call)
        known, age = self._look(key), self._age
        if known is not None:
            return ToolOutcome.completed(known)
        outcome = await call_next(call)
        if outcome.status is CallStatus.COMPLETED and _may_be_kept(ctx):
            self._keep(key, outcome.content, age)
        return outcome

    def forget(self) -> None:
        """Empty the memory."""
        with self._lock:
            self._memory.clear()
            self._age += 1

    def _key(self, call: ToolCall) -> str | None:
        if self.tools is not None and call.name not in self.tools:
            return None
        try:
            return json.dumps([call.name, dict(call.arguments)], sort_keys=True)
        except (TypeError, ValueError):  # a layer put something into the arguments that no model can send
            return None

    def _look(self, key: str) -> str | None:
        with self._lock:
            until, text = self._memory.get(key, (0.0, ""))
            return text if asyncio.get_running_loop().time() < until else None

    def _keep(self, key: str, text: str, age: int) -> None:
        with self._lock:
            if age != self._age:  # emptied since: what was read may be older than what changed it
                return
            self._memory.pop(key, None)
            while len(self._memory) >= self.entries:
                del self._memory[next(iter(self._memory))]
            self._memory[key] = (asyncio.get_running_loop().time() + self.seconds, text)


def _may_be_kept(ctx: CallContext) -> bool:
    return not ctx.needs_approval and not ctx.is_cancelled()
