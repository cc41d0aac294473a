"""Change what a model is told of a tool's result: shorten it, take secrets out of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from loopctl.errors import UsageError
from loopctl.messages import ToolCall
from loopctl.tools import CallNext, ToolContext, ToolOutcome

__all__ = ["OutputLimit", "Redact"]


class OutputLimit:
    """Cuts long results, and says so: the beginning and the end stay."""

    def __init__(self, characters: int) -> None:
        """Let *characters*, 1 or more, of each result through.

        Raises:
            UsageError: *characters* is no such number.
        """
        given: object = characters
        if isinstance(given, bool) or not isinstance(given, int) or given < 1:
            raise UsageError(f"OutputLimit takes a whole number of characters from 1 on, not {given!r}")
        self.characters: int = characters

    async def tool_call(self, call: ToolCall, ctx: ToolContext, call_next: CallNext) -> ToolOutcome:  # noqa: ARG002
        """Pass the call on, and cut its result.

        Cancellation:
            As of the rest.
        """
        outcome = await call_next(call)
        text, limit = outcome.content, self.characters
        if len(text) <= limit:
            return outcome
        tail = limit // 4
        said = f"\n[… {len(text) - limit} of {len(text)} characters left out …]\n"
        return replace(outcome, content=text[: limit - tail] + said + text[len(text) - tail :])


class Redact:
    """Takes what matches its patterns out of results, before the model and the record see them."""

    def __init__(self, patterns: Iterable[str | re.Pattern[str]], *, instead: str = "[redacted]") -> None:
        """Put *instead* in the place of each match of *patterns*.

        Raises:
            UsageError: One is no regular expression.
        """
        if isinstance(patterns, str):
            raise UsageError(f"Redact takes a list of patterns: give [{patterns!r}]")
        try:
            self.patterns: tuple[re.Pattern[str], ...] = tuple(map(re.compile, patterns))
        except (re.error, TypeError) as error:
            raise UsageError(f"Redact takes regular expressions: {error}") from error
        self.instead: str = instead

    async def tool_call(self, call: ToolCall, ctx: ToolContext, call_next: CallNext) -> ToolOutcome:  # noqa: ARG002
        """Pass the call on, and take the secrets out of its result.

        Cancellation:
            As of the rest.
        """
        outcome = await call_next(call)
        text = outcome.content
        for pattern in self.patterns:
            text = pattern.sub(lambda _: self.instead, text)
        return replace(outcome, content=text)
