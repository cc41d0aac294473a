"""How a conversation with tools is told to a model that knows no tools."""

from __future__ import annotations

from loopctl.messages import AssistantMessage, Text, ToolCall, ToolMessage, ToolResult, UserMessage
from loopctl.providers.local._transcript import current_turn, plain_messages

CALL = ToolCall("c1", "add", {"a": 1, "b": 2})
ROUND = (AssistantMessage((Text("Let me see."), CALL)), ToolMessage((ToolResult("c1", "3"),)))


def said(*texts):
    return tuple(UserMessage(t) if i % 2 == 0 else AssistantMessage((Text(t),)) for i, t in enumerate(texts))


def test_plain_talk_is_told_as_it_is():
    assert plain_messages(said("hi", "hello", "bye")) == said("hi", "hello", "bye")


def test_a_result_is_told_by_the_user_with_the_call_that_it_answers():
    told = plain_messages((UserMessage("1 and 2?"), *ROUND))
    assert told == said("1 and 2?", "Let me see.", 'The tool add({"a": 1, "b": 2}) gave: 3\nAnswer with this result.')


def test_a_failed_call_is_told_as_failed():
    told = plain_messages((UserMessage("?"), ROUND[0], ToolMessage((ToolResult("c1", "no such file", is_error=True),))))
    assert "failed: no such file" in told[-1].text


def test_a_call_without_words_leaves_no_empty_message_and_the_sides_take_turns():
    told = plain_messages((UserMessage("1 and 2?"), AssistantMessage((CALL,)), ROUND[1]))
    assert [type(message) for message in told] == [UserMessage]
    assert told[0].text.startswith("1 and 2?\n\nThe tool add(")


def test_two_replies_in_a_row_become_one():
    told = plain_messages((UserMessage("x"), AssistantMessage((Text("a"),)), AssistantMessage((Text("b"),))))
    assert told == said("x", "a\n\nb")


def test_arguments_that_were_not_json_are_quoted_as_they_were():
    call = ToolCall("c1", "add", invalid="{a:")
    assert "add({a:)" in plain_messages((UserMessage("x"), AssistantMessage((call,)), ROUND[1]))[0].text


def test_the_current_turn_begins_with_the_last_user_message():
    assert current_turn((*said("old", "answer", "new"), *ROUND)) == (UserMessage("new"), *ROUND)
    assert current_turn(()) == ()
