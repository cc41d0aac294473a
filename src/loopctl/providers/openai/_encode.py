"""Owns the request: our messages and tools as the JSON body of a chat-completions request.

Rules: a conversation that `loopctl.messages.find_problems` accepts is one that the server accepts. What the protocol
has no word for (thinking) or refuses (a message without content) is left out; arguments are always a JSON object.

Source: OpenAI API reference, "Create chat completion".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from loopctl.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from loopctl.model import ModelRequest, ToolSpec
from loopctl.providers.openai._text import without_lone_surrogates

__all__ = ["encode_request"]

_NAMELESS = "unknown"  # a model called a tool without saying which; servers refuse an empty name


def encode_request(
    model: str, request: ModelRequest, *, extra: Mapping[str, Any], is_streamed: bool, is_usage_wanted: bool
) -> bytes:
    """Give the body that asks *model* to answer *request*; *extra* is added to it."""
    body: dict[str, Any] = {"model": model, "messages": [*_messages(request)], "stream": is_streamed}
    if is_streamed and is_usage_wanted:
        body["stream_options"] = {"include_usage": True}
    if request.tools:
        body["tools"] = [_tool(spec) for spec in request.tools]
    return _to_json(body | dict(extra))


def _messages(request: ModelRequest) -> Iterator[dict[str, Any]]:
    if request.instructions:
        yield {"role": "system", "content": request.instructions}
    for message in request.messages:
        yield from _message(message)


def _message(message: Message) -> Iterator[dict[str, Any]]:
    match message:
        case UserMessage(text):
            yield {"role": "user", "content": text}
        case ToolMessage(results):
            for result in results:
                yield {"role": "tool", "tool_call_id": result.call_id, "content": result.content}
        case AssistantMessage():
            text, calls = message.text, message.tool_calls
            if calls:
                yield {"role": "assistant", "content": text or None, "tool_calls": [_call(call) for call in calls]}
            elif text:
                yield {"role": "assistant", "content": text}


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = _to_json(dict(call.arguments)).decode()  # of a call whose arguments were no object: an empty one
    return {"id": call.id, "type": "function", "function": {"name": call.name or _NAMELESS, "arguments": arguments}}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return {"type": "function", "function": function}


def _to_json(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value, enc_hook=_plain)
    except UnicodeEncodeError:  # half of a surrogate pair, for instance from a file name; no server can read it
        return without_lone_surrogates(json.dumps(value, ensure_ascii=False, default=_plain)).encode()


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be sent to a model: it is not JSON")
