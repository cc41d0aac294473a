"""Owns how a conversation with tools is told to a model whose chat template knows none: as plain text.

Rules: pure. A call becomes the JSON that a decision would have been, a result what the user says next; the user and the
assistant take turns, as chat templates demand.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from loopctl.messages import AssistantMessage, Message, Text, ToolCall, ToolMessage, UserMessage

__all__ = ["call_as_text", "current_turn", "plain_messages", "result_lines"]


def plain_messages(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Give *messages* with calls and results as text, neighbours of one side joined."""
    plain: list[Message] = []
    for is_user, text in _told(messages):
        last = plain[-1] if plain else None
        if isinstance(last, UserMessage) and is_user:
            plain[-1] = UserMessage(f"{last.text}\n\n{text}")
        elif isinstance(last, AssistantMessage) and not is_user:
            plain[-1] = AssistantMessage((Text(f"{last.text}\n\n{text}"),))
        else:
            plain.append(UserMessage(text) if is_user else AssistantMessage((Text(text),)))
    return tuple(plain)


def current_turn(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Give the last user message and what came after it."""
    for index in range(len(messages) - 1, -1, -1):
        if isinstance(messages[index], UserMessage):
            return messages[index:]
    return messages


def call_as_text(name: str, arguments: Any) -> str:
    """Give a call as the decision that asks for it."""
    return json.dumps({"tool": name, "arguments": arguments}, ensure_ascii=False, default=str)


def result_lines(message: ToolMessage, names: dict[str, str]) -> str:
    """Say what the tools gave; *names* tells a call's tool by its id."""
    return "\n".join(
        f"The tool {names.get(result.call_id, '')} {'failed' if result.is_error else 'gave'}: {result.content}"
        for result in message.results
    )


def _told(messages: tuple[Message, ...]) -> Iterator[tuple[bool, str]]:
    names: dict[str, str] = {}
    for message in messages:
        match message:
            case UserMessage(text):
                yield True, text
            case ToolMessage():
                yield True, result_lines(message, names)
            case AssistantMessage():
                names |= {call.id: call.name for call in message.tool_calls}
                if text := _said(message):
                    yield False, text


def _said(message: AssistantMessage) -> str:
    parts = [message.text] if message.text else []
    return "\n".join([*parts, *(_call(call) for call in message.tool_calls)])


def _call(call: ToolCall) -> str:
    return call_as_text(call.name, call.invalid if call.invalid is not None else dict(call.arguments))
