"""`find_problems`: the conversations that providers take, and those they reject, each with its sentence."""

from __future__ import annotations

import pytest

from loopctl.messages import (
    AssistantMessage,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
    find_problems,
)

ASK = UserMessage("hi")
SAY = AssistantMessage((Text("hello"),))


def calling(*ids):
    return AssistantMessage(tuple(ToolCall(call_id, "fetch") for call_id in ids))


def answering(*ids):
    return ToolMessage(tuple(ToolResult(call_id, "x") for call_id in ids))


@pytest.mark.parametrize(
    "history",
    [
        [],
        [ASK],
        [ASK, SAY],
        [ASK, ASK],
        [ASK, calling("a"), answering("a")],
        [ASK, calling("a"), answering("a"), SAY, ASK],
        [ASK, calling("a", "b"), answering("a", "b"), SAY],
        [ASK, calling("a", "b"), answering("b", "a"), SAY],
        [ASK, calling("a"), answering("a"), calling("b"), answering("b"), SAY],
        [ASK, AssistantMessage((Thinking("hm"), Text("hello")))],
    ],
)
def test_a_well_formed_conversation_has_no_problems(history):
    assert find_problems(history) == ()


@pytest.mark.parametrize(
    ("history", "problems"),
    [
        ([ASK, calling("a")], ["the end: the tool call 'a' has no result"]),
        (
            [ASK, calling("a", "b")],
            ["the end: the tool call 'a' has no result", "the end: the tool call 'b' has no result"],
        ),
        ([ASK, calling("a"), ASK], ["message 2: the tool call 'a' before it has no result"]),
        ([ASK, calling("a"), SAY], ["message 2: the tool call 'a' before it has no result"]),
        (
            [ASK, calling("a"), ASK, answering("a")],
            [
                "message 2: the tool call 'a' before it has no result",
                "message 3: a result for 'a', which was not called by the message before it",
            ],
        ),
        ([ASK, calling("a", "b"), answering("a")], ["message 2: the tool call 'b' has 0 results instead of one"]),
        ([ASK, calling("a"), answering("a", "a")], ["message 2: the tool call 'a' has 2 results instead of one"]),
        ([ASK, calling("a", "a"), answering("a", "a")], ["message 2: the tool call 'a' has 2 results instead of one"]),
        (
            [ASK, calling("a"), answering("a", "b")],
            ["message 2: a result for 'b', which was not called by the message before it"],
        ),
        ([answering("a")], ["message 0: a result for 'a', which was not called by the message before it"]),
        (
            [ASK, calling("a"), answering("a"), answering("a")],
            ["message 3: a result for 'a', which was not called by the message before it"],
        ),
        ([ASK, ToolMessage(())], ["message 1: a tool message without results"]),
        ([ASK, AssistantMessage(())], ["message 1: an assistant message without text and tool calls"]),
        ([ASK, AssistantMessage((Text(""),))], ["message 1: an assistant message without text and tool calls"]),
        ([ASK, AssistantMessage((Thinking("hm"),))], ["message 1: an assistant message without text and tool calls"]),
        ([{"role": "user", "content": "hi"}], ["message 0: dict is not a message"]),
    ],
)
def test_what_a_provider_would_reject_is_told_in_a_sentence(history, problems):
    assert list(find_problems(history)) == problems
