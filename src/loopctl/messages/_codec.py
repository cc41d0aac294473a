"""Messages to and from JSON values, versioned.

Rules: what comes out shares nothing that can be changed with what went in; what is read is checked to the last
value, so that foreign JSON is a `UsageError` here and not an odd error of a provider later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any, NoReturn, TypeVar

from loopctl.errors import UsageError
from loopctl.messages._blocks import Block, Text, Thinking, ToolCall, ToolResult
from loopctl.messages._messages import AssistantMessage, Message, ToolMessage, UserMessage

__all__ = ["history_from_json", "history_to_json", "message_from_json", "message_to_json"]

_VERSION = 1
_QUOTED = 200
"""Characters of a bad value that its error quotes."""

_Kind = TypeVar("_Kind")


def history_to_json(history: Iterable[Message]) -> dict[str, Any]:
    """Give *history* as a JSON object that says its version."""
    return {"version": _VERSION, "messages": [message_to_json(message) for message in history]}


def history_from_json(value: object) -> tuple[Message, ...]:
    """Read what `history_to_json` gave.

    Raises:
        UsageError: *value* is not such an object, or of a version that this loopctl does not know.
    """
    if not isinstance(value, Mapping) or value.get("version") != _VERSION:
        found = value.get("version") if isinstance(value, Mapping) else type(value).__name__
        raise UsageError(f"not a history of version {_VERSION}: found {found!r}. Use a loopctl that wrote it.")
    return tuple(message_from_json(message) for message in _get(value, "messages", list))


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


def message_from_json(value: object) -> Message:
    """Read one message.

    Raises:
        UsageError: *value* is not a message; the text names the part that is wrong.
    """
    match _get(value, "role", str):
        case "user":
            return UserMessage(_get(value, "text", str))
        case "assistant":
            return AssistantMessage(tuple(_block_from_json(block) for block in _get(value, "blocks", list)))
        case "tool":
            return ToolMessage(tuple(_result_from_json(result) for result in _get(value, "results", list)))
        case role:
            raise UsageError(f"a message with the unknown role {role!r}: known are user, assistant, tool")


def _block_to_json(block: Block) -> dict[str, Any]:
    match block:
        case Text(text):
            return {"type": "text", "text": text}
        case Thinking(text):
            return {"type": "thinking", "text": text}
        case ToolCall(call_id, name, arguments, invalid):
            copied = deepcopy(dict(arguments))
            value: dict[str, Any] = {"type": "tool_call", "id": call_id, "name": name, "arguments": copied}
            return value if invalid is None else value | {"invalid": invalid}


def _block_from_json(value: object) -> Block:
    match _get(value, "type", str):
        case "text":
            return Text(_get(value, "text", str))
        case "thinking":
            return Thinking(_get(value, "text", str))
        case "tool_call":
            arguments = deepcopy(_get(value, "arguments", dict))
            invalid = _get(value, "invalid", str) if _has(value, "invalid") else None
            return ToolCall(_get(value, "id", str), _get(value, "name", str), arguments, invalid)
        case kind:
            raise UsageError(f"a block of the unknown type {kind!r}: known are text, thinking, tool_call")


def _result_from_json(value: object) -> ToolResult:
    is_error = _get(value, "is_error", bool) if _has(value, "is_error") else False
    return ToolResult(_get(value, "call_id", str), _get(value, "content", str), is_error)


def _has(value: object, key: str) -> bool:
    return isinstance(value, Mapping) and key in value


def _get(value: object, key: str, kind: type[_Kind]) -> _Kind:
    if not isinstance(value, Mapping):
        _refuse(value, "it is not a JSON object")
    if key not in value:
        _refuse(value, f"it has no {key!r}")
    found = value[key]
    if not isinstance(found, kind):
        _refuse(value, f"its {key!r} is of the type {type(found).__name__} instead of {kind.__name__}")
    return found


def _refuse(value: object, why: str) -> NoReturn:
    raise UsageError(f"not a part of a conversation: {why}: {repr(value)[:_QUOTED]}")
