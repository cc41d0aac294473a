"""Owns how a conversation with tools is told to a model whose chat template knows none: as plain text.

Rules: pure. A result, together with its call, is something that the user says next; the user and the assistant take
turns, as chat templates demand.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from loopctl.messages import AssistantMessage, Message, Text, ToolCall, ToolMessage, UserMessage

__all__ = ["call_as_text", "current_turn", "plain_messages", "result_lines"]

_REQUEST = "Answer with this result."


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


def result_lines(message: ToolMessage, calls: Mapping[str, ToolCall]) -> str:
    """Say what the tools gave; *calls* has what was called by its id."""
    return "\n".join(
        f"The tool {_shown(calls.get(result.call_id))} {'failed' if result.is_error else 'gave'}: {result.content}"
        for result in message.results
    )


def _told(messages: tuple[Message, ...]) -> Iterator[tuple[bool, str]]:
    """Give who speaks (True: the user) and what. A call is told with its result.

    Rejected: the call as a message of the assistant's. A small model imitates it and answers with another call.
    """
    calls: dict[str, ToolCall] = {}
    for message in messages:
        match message:
            case UserMessage(text):
                yield True, text
            case ToolMessage():
                yield True, f"{result_lines(message, calls)}\n{_REQUEST}"
            case AssistantMessage():
                calls |= {call.id: call for call in message.tool_calls}
                if message.text:
                    yield False, message.text


def _shown(call: ToolCall | None) -> str:
    if call is None:
        return "(unknown)"
    arguments = call.invalid if call.invalid is not None else json.dumps(dict(call.arguments), ensure_ascii=False)
    return f"{call.name}({arguments})"
