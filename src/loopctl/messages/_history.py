"""Is a conversation one that every provider accepts?"""

from __future__ import annotations

from collections.abc import Iterable

from loopctl.messages._messages import AssistantMessage, ToolMessage, UserMessage

__all__ = ["find_problems"]


def find_problems(history: Iterable[object]) -> tuple[str, ...]:
    """List what would make a provider reject *history*, in sentences; empty if it is well-formed.

    Source: the providers' shared rule that each tool call is answered exactly once, by the message right after
    it, and that nothing is answered that was not called.
    """
    problems: list[str] = []
    open_ids: tuple[str, ...] = ()
    for index, message in enumerate(history):
        if isinstance(message, ToolMessage):
            if not message.results:
                problems.append(f"message {index}: a tool message without results")
            problems += _unpaired(index, open_ids, tuple(result.call_id for result in message.results))
            open_ids = ()
            continue
        problems += [f"message {index}: the tool call {call_id!r} before it has no result" for call_id in open_ids]
        open_ids = ()
        if isinstance(message, AssistantMessage):
            if not message.text and not message.tool_calls:
                problems.append(f"message {index}: an assistant message without text and tool calls")
            open_ids = tuple(call.id for call in message.tool_calls)
        elif not isinstance(message, UserMessage):
            problems.append(f"message {index}: {type(message).__name__} is not a message")
    problems += [f"the end: the tool call {call_id!r} has no result" for call_id in open_ids]
    return tuple(problems)


def _unpaired(index: int, called: tuple[str, ...], answered: tuple[str, ...]) -> list[str]:
    problems = [
        f"message {index}: the tool call {call_id!r} has {answered.count(call_id)} results instead of one"
        for call_id in dict.fromkeys(called)
        if answered.count(call_id) != called.count(call_id) or called.count(call_id) > 1
    ]
    problems += [
        f"message {index}: a result for {call_id!r}, which was not called by the message before it"
        for call_id in dict.fromkeys(answered)
        if call_id not in called
    ]
    return problems
