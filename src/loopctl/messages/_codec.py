"""Messages to and from JSON values, versioned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from loopctl.errors import UsageError
from loopctl.messages._blocks import Block, Text, Thinking, ToolCall, ToolResult
from loopctl.messages._messages import AssistantMessage, Message, ToolMessage, UserMessage

__all__ = ["history_from_json", "history_to_json", "message_from_json", "message_to_json"]

_VERSION = 1


def history_to_json(history: Iterable[Message]) -> dict[str, Any]:
    """Give *history* as a JSON object that says its version."""
    return {"version": _VERSION, "messages": [message_to_json(message) for message in history]}


def history_from_json(value: Mapping[str, Any]) -> tuple[Message, ...]:
    """Read what `history_to_json` gave.

    Raises:
        UsageError: *value* is not such an object, or of a version that this loopctl does not know.
    """
    if not isinstance(value, Mapping) or value.get("version") != _VERSION:
        found = value.get("version") if isinstance(value, Mapping) else type(value).__name__
        raise UsageError(f"not a history of version {_VERSION}: found {found!r}. Use a loopctl that wrote it.")
    return tuple(message_from_json(message) for message in value.get("messages", ()))


def message_to_json(message: Message) -> dict[str, Any]:
    """Give one message as a JSON object."""
    match message:
        case UserMessage(text):
            return {"role": "user", "text": text}
        case AssistantMessage(blocks):
            return {"role": "assistant", "blocks": [_block_to_json(block) for block in blocks]}
        case ToolMessage(results):
            return {
                "role": "tool",
                "results": [
                    {"call_id": result.call_id, "content": result.content, "is_error": result.is_error}
                    for result in results
                ],
            }


def message_from_json(value: Mapping[str, Any]) -> Message:
    """Read one message.

    Raises:
        UsageError: *value* is not a message; the text names the part that is wrong.
    """
    try:
        match value["role"]:
            case "user":
                return UserMessage(value["text"])
            case "assistant":
                return AssistantMessage(tuple(_block_from_json(block) for block in value["blocks"]))
            case "tool":
                return ToolMessage(
                    tuple(
                        ToolResult(result["call_id"], result["content"], result.get("is_error", False))
                        for result in value["results"]
                    )
                )
            case role:
                raise UsageError(f"a message with the unknown role {role!r}: known are user, assistant, tool")
    except (KeyError, TypeError) as error:
        raise UsageError(f"not a message: {value!r} ({type(error).__name__}: {error})") from error


def _block_to_json(block: Block) -> dict[str, Any]:
    match block:
        case Text(text):
            return {"type": "text", "text": text}
        case Thinking(text):
            return {"type": "thinking", "text": text}
        case ToolCall(call_id, name, arguments, invalid):
            value: dict[str, Any] = {"type": "tool_call", "id": call_id, "name": name, "arguments": dict(arguments)}
            return value if invalid is None else value | {"invalid": invalid}


def _block_from_json(value: Mapping[str, Any]) -> Block:
    match value["type"]:
        case "text":
            return Text(value["text"])
        case "thinking":
            return Thinking(value["text"])
        case "tool_call":
            return ToolCall(value["id"], value["name"], value["arguments"], value.get("invalid"))
        case kind:
            raise UsageError(f"a block of the unknown type {kind!r}: known are text, thinking, tool_call")
