"""The JSON codec of messages: nothing is lost, nothing is shared, and foreign JSON is refused with its reason."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from loopctl.errors import UsageError
from loopctl.messages import (
    AssistantMessage,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
    history_from_json,
    history_to_json,
    message_from_json,
    message_to_json,
)

texts = st.text(max_size=10)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
calls = st.builds(ToolCall, texts, texts, st.dictionaries(texts, json_values, max_size=3), st.none() | texts)
blocks = st.builds(Text, texts) | st.builds(Thinking, texts) | calls
results = st.builds(ToolResult, texts, texts, st.booleans())
messages = st.one_of(
    st.builds(UserMessage, texts),
    st.builds(AssistantMessage, st.lists(blocks, max_size=4).map(tuple)),
    st.builds(ToolMessage, st.lists(results, max_size=4).map(tuple)),
)


@given(st.lists(messages, max_size=5).map(tuple))
def test_a_history_comes_back_from_json_as_it_was(history):
    assert history_from_json(json.loads(json.dumps(history_to_json(history)))) == history


@given(messages)
def test_a_message_comes_back_from_json_as_it_was(message):
    assert message_from_json(json.loads(json.dumps(message_to_json(message)))) == message


def test_the_json_is_what_is_documented():
    call = ToolCall("c1", "fetch", {"url": "x"})

    assert history_to_json([UserMessage("hi"), AssistantMessage((Thinking("hm"), Text("ok"), call))]) == {
        "version": 1,
        "messages": [
            {"role": "user", "text": "hi"},
            {
                "role": "assistant",
                "blocks": [
                    {"type": "thinking", "text": "hm"},
                    {"type": "text", "text": "ok"},
                    {"type": "tool_call", "id": "c1", "name": "fetch", "arguments": {"url": "x"}},
                ],
            },
        ],
    }
    assert message_to_json(AssistantMessage((ToolCall("c1", "fetch", {}, "{"),)))["blocks"][0]["invalid"] == "{"
    assert message_to_json(ToolMessage((ToolResult("c1", "no", is_error=True),))) == {
        "role": "tool",
        "results": [{"call_id": "c1", "content": "no", "is_error": True}],
    }


def test_a_result_that_does_not_say_so_is_no_error():
    read = message_from_json({"role": "tool", "results": [{"call_id": "c1", "content": "x"}]})

    assert read == ToolMessage((ToolResult("c1", "x", is_error=False),))


def test_json_and_messages_share_nothing_that_can_be_changed():
    message = AssistantMessage((ToolCall("c1", "fetch", {"deep": [1]}),))
    value = message_to_json(message)
    read = message_from_json(value)

    value["blocks"][0]["arguments"]["deep"].append(2)

    assert message == AssistantMessage((ToolCall("c1", "fetch", {"deep": [1]}),))
    assert read == message


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "found 'NoneType'"),
        ([], "found 'list'"),
        ({}, "found None"),
        ({"version": 2, "messages": []}, "found 2"),
        ({"version": 1}, "it has no 'messages'"),
        ({"version": 1, "messages": None}, "'messages' is of the type NoneType instead of list"),
        ({"version": 1, "messages": {}}, "'messages' is of the type dict instead of list"),
        ({"version": 1, "messages": ["hi"]}, "it is not a JSON object: 'hi'"),
    ],
)
def test_what_is_no_history_is_refused_with_the_reason(value, why):
    with pytest.raises(UsageError, match=why):
        history_from_json(value)


def tool_call(**changes):
    call = {"type": "tool_call", "id": "1", "name": "f", "arguments": {}} | changes
    return {"role": "assistant", "blocks": [{key: value for key, value in call.items() if value is not ...}]}


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (5, "it is not a JSON object: 5"),
        ("role", "it is not a JSON object"),
        ({}, "it has no 'role'"),
        ({"role": "system", "text": "x"}, "unknown role 'system': known are user, assistant, tool"),
        ({"role": ["user"]}, "'role' is of the type list"),
        ({"role": "user"}, "it has no 'text'"),
        ({"role": "user", "text": 5}, "'text' is of the type int instead of str"),
        ({"role": "user", "text": [{"type": "text", "text": "x"}]}, "'text' is of the type list"),
        ({"role": "assistant", "blocks": "hello"}, "'blocks' is of the type str instead of list"),
        ({"role": "assistant", "blocks": {}}, "'blocks' is of the type dict instead of list"),
        ({"role": "assistant", "blocks": ["hello"]}, "it is not a JSON object"),
        ({"role": "assistant", "blocks": [{"type": "image"}]}, "unknown type 'image'"),
        ({"role": "assistant", "blocks": [{"type": "text", "text": None}]}, "'text' is of the type NoneType"),
        ({"role": "assistant", "blocks": [{"type": "thinking"}]}, "it has no 'text'"),
        (tool_call(id=7), "'id' is of the type int"),
        (tool_call(name=...), "it has no 'name'"),
        (tool_call(arguments="{}"), "'arguments' is of the type str instead of dict"),
        (tool_call(invalid=None), "'invalid' is of the type NoneType"),
        ({"role": "tool", "results": None}, "'results' is of the type NoneType"),
        ({"role": "tool", "results": [{"call_id": "1"}]}, "it has no 'content'"),
        ({"role": "tool", "results": [{"call_id": "1", "content": "", "is_error": "no"}]}, "'is_error' is of the type"),
    ],
)
def test_what_is_no_message_is_refused_with_the_part_that_is_wrong(value, why):
    with pytest.raises(UsageError, match=why):
        message_from_json(value)


def test_an_error_does_not_quote_a_whole_book():
    with pytest.raises(UsageError) as caught:
        message_from_json({"role": "user", "txt": "word " * 10_000})

    assert len(str(caught.value)) < 400
