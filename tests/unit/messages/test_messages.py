"""Messages: what can be read off a reply, and that nobody can change one."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError

import pytest

from loopctl.messages import AssistantMessage, Text, Thinking, ToolCall, ToolMessage, ToolResult, UserMessage

CALL_1 = ToolCall("1", "fetch", {"url": "x"})
CALL_2 = ToolCall("2", "save")
REPLY = AssistantMessage((Thinking("hm"), Text("one "), CALL_2, Text("two"), CALL_1))


def test_the_text_of_a_reply_is_what_is_visible():
    assert REPLY.text == "one two"
    assert AssistantMessage().text == ""


def test_the_calls_of_a_reply_come_in_the_order_of_the_model():
    assert REPLY.tool_calls == (CALL_2, CALL_1)
    assert AssistantMessage().tool_calls == ()


@pytest.mark.parametrize("message", [UserMessage("hi"), REPLY, ToolMessage((ToolResult("1", "x"),)), CALL_1])
def test_messages_are_frozen_and_survive_pickling(message):
    name = message.__slots__[0]

    with pytest.raises(FrozenInstanceError):
        setattr(message, name, None)
    assert pickle.loads(pickle.dumps(message)) == message


def test_two_calls_without_arguments_do_not_share_them():
    assert ToolCall("1", "a").arguments is not ToolCall("2", "b").arguments
