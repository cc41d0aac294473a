"""Fold the deltas of one reply into a message; also of a reply that never came to its end.

Invariants: blocks keep the model's order; after `seal` nothing changes any more, so that a model that goes on
writing after it was given up cannot alter what is recorded. What a model gives is checked at this door, because the
finalizer folds it again and must not fail.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from loopctl.messages import AssistantMessage, Block, Text, Thinking, ToolCall, Usage
from loopctl.model import Delta, ReplyEnd, StopReason, TextPart, ThinkingPart, ToolCallPart, UsagePart
from loopctl.record import Event, TextDelta, ThinkingDelta

__all__ = ["Accumulator"]

_QUOTED = 200
"""Characters of a wrong delta that the error quotes."""


@dataclass(slots=True)
class _Call:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)

    def decode(self) -> dict[str, Any] | None:
        """The arguments, or None if they are not a whole JSON object."""
        try:
            value = json.loads("".join(self.arguments))
        except (ValueError, RecursionError):  # also what is nested too deeply to be read
            return None
        return value if isinstance(value, dict) else None


class Accumulator:
    """The reply of one attempt, as far as it was accepted."""

    __slots__ = ("_blocks", "_calls", "_input_tokens", "_output_tokens", "_sealed", "run_id", "stop_reason")

    def __init__(self, run_id: str = "") -> None:
        """Begin with nothing; the events are of the run *run_id*."""
        self.run_id: str = run_id
        self._blocks: list[tuple[type[Text | Thinking], list[str]] | _Call] = []
        self._calls: dict[int, _Call] = {}
        self._input_tokens: int | None = None
        self._output_tokens: int | None = None
        self._sealed: AssistantMessage | None = None
        self.stop_reason: StopReason | None = None
        """Why the model ended its reply; None until it has."""

    @property
    def is_whole(self) -> bool:
        """True once the reply has ended."""
        return self.stop_reason is not None

    @property
    def is_sealed(self) -> bool:
        """True once nothing more is taken."""
        return self._sealed is not None

    @property
    def usage(self) -> Usage:
        """What was told of the usage; partial if the reply is not whole or a count is missing."""
        is_known = self._input_tokens is not None and self._output_tokens is not None
        return Usage(self._input_tokens, self._output_tokens, is_partial=not (self.is_whole and is_known))

    def text_sink(self) -> Callable[[str], None]:
        """Give what takes more text, until another kind of delta comes: the hot path of a stream."""
        return self._sink(Text)

    def add(self, delta: Delta) -> Event | None:
        """Take one delta.

        Returns:
            The event that a reader is shown for it, or None.

        Raises:
            TypeError: *delta* is no `Delta`, or holds what a `Delta` cannot hold: the model is wrong.
        """
        if self._sealed is not None:
            return None
        match delta:
            case TextPart(str(text)):
                self._sink(Text)(text)
                return TextDelta(text, self.run_id)
            case ThinkingPart(str(text)):
                self._sink(Thinking)(text)
                return ThinkingDelta(text, self.run_id)
            case ToolCallPart(int(), str(), str(), str()):
                self._add_call(delta)
            case UsagePart(int() | None as input_tokens, int() | None as output_tokens):
                self._input_tokens = self._input_tokens if input_tokens is None else input_tokens
                self._output_tokens = self._output_tokens if output_tokens is None else output_tokens
            case ReplyEnd(str(stop_reason)):
                self.stop_reason = stop_reason
            case _:
                raise TypeError(f"a model gave {_quoted(delta)}, which is not a Delta (see loopctl.model)")
        return None

    def seal(self) -> AssistantMessage:
        """Take no more, and give the reply.

        Returns:
            The whole reply, or the part of it that can be kept: the text, and the calls whose arguments are whole.
        """
        if self._sealed is None:
            blocks = (self._freeze(block) for block in self._blocks)
            self._sealed = AssistantMessage(tuple(block for block in blocks if block is not None))
        return self._sealed

    def _sink(self, kind: type[Text | Thinking]) -> Callable[[str], None]:
        last = self._blocks[-1] if self._blocks else None
        if isinstance(last, tuple) and not last[1]:  # a sink that nothing came to
            self._blocks.pop()
            last = self._blocks[-1] if self._blocks else None
        if not isinstance(last, tuple) or last[0] is not kind:
            last = (kind, [])
            self._blocks.append(last)
        return last[1].append

    def _add_call(self, part: ToolCallPart) -> None:
        call = self._calls.get(part.index)
        if call is None:
            call = self._calls[part.index] = _Call()
            self._blocks.append(call)
        call.id = call.id or part.id
        call.name = call.name or part.name
        if part.arguments:
            call.arguments.append(part.arguments)

    def _freeze(self, block: tuple[type[Text | Thinking], list[str]] | _Call) -> Block | None:
        if isinstance(block, tuple):
            text = "".join(block[1])
            return block[0](text) if text else None
        arguments = block.decode()
        if arguments is not None:
            return ToolCall(block.id, block.name, arguments)
        if not self.is_whole:
            return None
        raw = "".join(block.arguments)
        # Many servers send no arguments at all for a tool that takes none.
        return ToolCall(block.id, block.name, {}, raw) if raw.strip() else ToolCall(block.id, block.name, {})


def _quoted(delta: object) -> str:
    text = repr(delta)
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…"
