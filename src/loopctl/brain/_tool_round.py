"""One round of tool calls: which are answered, which are open, and the message that answers them all.

Invariants: every answer belongs to a call of the round; no call has two; the message exists only when none is open,
and holds the results in the model's order whatever order they came in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from loopctl.brain._unknown import other_names
from loopctl.messages import ToolCall, ToolMessage, ToolResult

__all__ = ["NO_ROUND", "ToolRound", "refusals"]

_QUOTED = 200
"""Characters of a model's own text that are quoted back to it: enough to recognise, too few to matter in a budget."""


@dataclass(frozen=True, slots=True)
class ToolRound:
    """The calls of one reply, and the answers so far."""

    calls: tuple[ToolCall, ...]
    """In the model's order; their ids are unique."""
    answers: tuple[ToolResult, ...] = ()
    """In the order they came."""

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """The calls without an answer, in the model's order."""
        answered = {answer.call_id for answer in self.answers}
        return tuple(call for call in self.calls if call.id not in answered)

    def problems_of(self, results: tuple[ToolResult, ...]) -> tuple[str, ...]:
        """Say why *results* do not answer each open call exactly once; empty if they do."""
        open_ids = [call.id for call in self.open_calls]
        given = Counter(result.call_id for result in results)
        return (
            *(f"no result for {call_id!r}" for call_id in open_ids if call_id not in given),
            *(f"{times} results for {call_id!r}" for call_id, times in given.items() if times > 1),
            *(f"a result for {call_id!r}, which is not open" for call_id in given if call_id not in open_ids),
        )

    def answered_by(self, results: tuple[ToolResult, ...]) -> ToolRound:
        """Give the round with *results* added."""
        return ToolRound(self.calls, (*self.answers, *results))

    def message(self) -> ToolMessage:
        """Give the message that answers the whole round; none of its calls may be open."""
        by_id = {answer.call_id: answer for answer in self.answers}
        return ToolMessage(tuple(by_id[call.id] for call in self.calls))


NO_ROUND = ToolRound(())
"""The round of a phase that awaits no results."""


def refusals(calls: tuple[ToolCall, ...], tools: AbstractSet[str]) -> tuple[ToolResult, ...]:
    """Answer the calls that cannot be run: those of a tool that does not exist, and those without real arguments.

    Args:
        calls: The calls of one reply.
        tools: The names of the tools that exist.

    Returns:
        A result for each such call, in the model's order, with a text that tells the model what to do instead.
    """
    found = ((call, _why_not(call, tools)) for call in calls)
    return tuple(ToolResult(call.id, why, is_error=True) for call, why in found if why is not None)


def _why_not(call: ToolCall, tools: AbstractSet[str]) -> str | None:
    if call.name not in tools:
        return f"There is no tool named {_quoted(call.name)}. {other_names(call.name, tools)}"
    if call.invalid is not None:
        return (
            f"The arguments of {call.name} were not a JSON object: {_quoted(call.invalid)}. "
            "Call it again with one JSON object that fits its parameters."
        )
    return None


def _quoted(text: str) -> str:
    if len(text) <= _QUOTED:
        return repr(text)
    return f"{text[:_QUOTED]!r}... ({len(text)} characters)"
