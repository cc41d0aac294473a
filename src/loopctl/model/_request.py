"""What is asked of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loopctl.messages import Message

__all__ = ["ModelRequest", "ToolSpec"]


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model sees it."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON Schema of the arguments object."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request: instructions, the conversation, the tools on offer."""

    instructions: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
