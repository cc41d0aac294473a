"""The three kinds of message. Instructions are not a message: they belong to the request, not to the history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from loopctl.messages._blocks import Block, Text, ToolCall, ToolResult

__all__ = ["AssistantMessage", "Message", "ToolMessage", "UserMessage"]


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What the person (or the program in its place) said."""

    text: str


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """One reply of a model."""

    blocks: tuple[Block, ...] = ()

    @property
    def text(self) -> str:
        """The visible text, without thinking and tool calls."""
        return "".join(block.text for block in self.blocks if isinstance(block, Text))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls, in the model's order."""
        return tuple(block for block in self.blocks if isinstance(block, ToolCall))


@dataclass(frozen=True, slots=True)
class ToolMessage:
    """The results of all tool calls of the reply before it, in the model's order."""

    results: tuple[ToolResult, ...]


Message: TypeAlias = UserMessage | AssistantMessage | ToolMessage
