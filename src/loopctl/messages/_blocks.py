"""The pieces that messages are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

__all__ = ["Block", "Text", "Thinking", "ToolCall", "ToolResult"]


@dataclass(frozen=True, slots=True)
class Text:
    """What a person or a model says."""

    text: str


@dataclass(frozen=True, slots=True)
class Thinking:
    """What a reasoning model says to itself; shown apart, and not sent back to a provider that has no word for it."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's request to run a tool."""

    id: str
    """Pairs the call with its result; unique in a run."""
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """The decoded arguments; empty if `invalid` is set."""
    invalid: str | None = None
    """The raw argument text if it was not a JSON object, else None."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The answer to one tool call."""

    call_id: str
    content: str
    is_error: bool = False


Block: TypeAlias = Text | Thinking | ToolCall
"""What an assistant message holds, in the model's order."""
