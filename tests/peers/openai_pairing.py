"""Owns what the OpenAI-compatible test server refuses: requests that the real providers refuse, in their words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["find_fault"]

_UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
    "The following tool_call_ids did not have response messages: {}"
)
_UNASKED = "Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls'."


def find_fault(body: Any) -> str | None:
    """Give OpenAI's error text for what is wrong with the request *body*; None if nothing is."""
    if not isinstance(body, dict):
        return "We could not parse the JSON body of your request."
    if not isinstance(body.get("model"), str) or not body["model"]:
        return "you must provide a model parameter"
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return "Invalid 'messages': empty array. Expected an array with minimum length 1."
    return _find_unpaired(messages) or next(filter(None, map(_find_bad_message, messages)), None)


def _find_unpaired(messages: Sequence[Mapping[str, Any]]) -> str | None:
    open_ids: list[str] = []
    for message in messages:
        if message.get("role") == "tool":
            if message.get("tool_call_id") not in open_ids:
                return _UNASKED
            open_ids.remove(message["tool_call_id"])
            continue
        if open_ids:
            return _UNANSWERED.format(", ".join(open_ids))
        open_ids = [call.get("id") for call in message.get("tool_calls") or ()]
    return _UNANSWERED.format(", ".join(open_ids)) if open_ids else None


def _find_bad_message(message: Mapping[str, Any]) -> str | None:
    role = message.get("role")
    if role not in {"system", "developer", "user", "assistant", "tool"}:
        return f"Invalid value: {role!r}. Supported values are: 'system', 'assistant', 'user', 'function', and 'tool'."
    if role != "assistant":
        return None if isinstance(message.get("content"), str) else "Invalid value for 'content': expected a string."
    if not message.get("content") and not message.get("tool_calls"):
        return "Invalid value for 'content': expected a string, got null."
    return next(filter(None, map(_find_bad_call, message.get("tool_calls") or ())), None)


def _find_bad_call(call: Mapping[str, Any]) -> str | None:
    function = call.get("function") or {}
    if call.get("type") != "function" or not function.get("name"):
        return "Invalid 'tool_calls': each needs type 'function' and a function name."
    try:
        is_object = isinstance(json.loads(function["arguments"]), dict)
    except (KeyError, TypeError, ValueError):
        is_object = False
    return None if is_object else "Invalid 'tool_calls.function.arguments': not the JSON text of an object."
