"""One piece of a streamed reply, in no vendor's words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["Delta", "ReplyEnd", "StopReason", "TextPart", "ThinkingPart", "ToolCallPart", "UsagePart"]

StopReason: TypeAlias = Literal["stop", "tool_calls", "length", "content_filter", "other"]
"""Why a reply ended: by itself, to have tools run, at its length limit, filtered, or something else."""


@dataclass(frozen=True, slots=True)
class TextPart:
    """More visible text."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingPart:
    """More of a reasoning model's thinking."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallPart:
    """A tool call, or a fragment of one: fragments with the same *index* are joined."""

    index: int
    """Which call of this reply, from 0."""
    id: str = ""
    """The call's id; the first non-empty one counts."""
    name: str = ""
    """The tool's name; the first non-empty one counts."""
    arguments: str = ""
    """A fragment of the JSON text of the arguments."""


@dataclass(frozen=True, slots=True)
class UsagePart:
    """What this request used; a later one replaces an earlier one, field by field (None leaves it)."""

    input_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ReplyEnd:
    """The reply is whole. A stream that ends without it was truncated."""

    stop_reason: StopReason = "stop"


Delta: TypeAlias = TextPart | ThinkingPart | ToolCallPart | UsagePart | ReplyEnd
