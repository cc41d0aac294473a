"""The request body: every kind of message, and what is left out of it."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

import pytest

from loopctl.messages import AssistantMessage, Text, Thinking, ToolCall, ToolMessage, ToolResult, UserMessage
from loopctl.model import ModelRequest, ToolSpec
from loopctl.providers.openai._encode import encode_request
from tests.peers.openai_pairing import find_fault


def encode(request: ModelRequest, *, is_streamed: bool = True, is_usage_wanted: bool = True, **extra: Any) -> Any:
    return json.loads(
        encode_request("m", request, extra=extra, is_streamed=is_streamed, is_usage_wanted=is_usage_wanted)
    )


def messages(*history: Any, instructions: str = "") -> Any:
    return encode(ModelRequest(instructions, tuple(history)))["messages"]


def test_instructions_are_the_first_system_message() -> None:
    assert messages(UserMessage("hi"), instructions="be brief") == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hi"},
    ]


def test_without_instructions_there_is_no_system_message() -> None:
    assert messages(UserMessage("hi")) == [{"role": "user", "content": "hi"}]


def test_a_round_of_tools_is_one_call_message_and_one_result_message_each() -> None:
    calls = AssistantMessage((Text("so"), ToolCall("a", "f", {"x": 1}), ToolCall("b", "g", {})))
    results = ToolMessage((ToolResult("a", "one"), ToolResult("b", "bad", is_error=True)))
    sent = messages(UserMessage("hi"), calls, results)
    assert sent[1] == {
        "role": "assistant",
        "content": "so",
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}},
            {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
        ],
    }
    assert sent[2:] == [
        {"role": "tool", "tool_call_id": "a", "content": "one"},
        {"role": "tool", "tool_call_id": "b", "content": "bad"},
    ]


def test_calls_without_text_have_null_content() -> None:
    assert messages(AssistantMessage((ToolCall("a", "f"),)))[0]["content"] is None


def test_thinking_is_not_sent_back() -> None:
    assert messages(AssistantMessage((Thinking("hm"), Text("yes")))) == [{"role": "assistant", "content": "yes"}]


@pytest.mark.parametrize("blocks", [(), (Thinking("hm"),), (Text(""),)])
def test_a_reply_without_content_is_left_out(blocks: Any) -> None:
    assert messages(UserMessage("a"), AssistantMessage(blocks), UserMessage("b")) == [
        {"role": "user", "content": "a"},
        {"role": "user", "content": "b"},
    ]


@pytest.mark.parametrize(
    "call",
    [
        ToolCall("a", "f", {}, invalid="[1, 2"),
        ToolCall("a", "f", MappingProxyType({"x": MappingProxyType({"y": [1]})})),
        ToolCall("a", "", {}),
        ToolCall("a", "f", {"text": "\ud83d half"}),
    ],
    ids=["invalid", "mappings", "nameless", "surrogate"],
)
def test_odd_calls_are_sent_in_a_form_that_servers_accept(call: ToolCall) -> None:
    history = (UserMessage("hi"), AssistantMessage((call,)), ToolMessage((ToolResult("a", "r"),)))
    assert find_fault(encode(ModelRequest("", history))) is None


def test_half_of_a_surrogate_pair_becomes_the_replacement_character() -> None:
    assert messages(UserMessage("a\ud83d\ude00 b\ud83d"))[0]["content"] == "a\U0001f600 b\ufffd"


def test_tools_are_functions_with_their_schema() -> None:
    schema = MappingProxyType({"type": "object", "properties": {}})
    body = encode(ModelRequest("", (UserMessage("x"),), (ToolSpec("f", "Does f.", schema),)))
    function = {"name": "f", "description": "Does f.", "parameters": {"type": "object", "properties": {}}}
    assert body["tools"] == [{"type": "function", "function": function}]
    assert "tools" not in encode(ModelRequest("", (UserMessage("x"),)))


@pytest.mark.parametrize(
    ("is_streamed", "is_usage_wanted", "options"),
    [(True, True, {"include_usage": True}), (True, False, None), (False, True, None)],
)
def test_usage_is_asked_for_only_in_a_stream(is_streamed: bool, is_usage_wanted: bool, options: Any) -> None:
    body = encode(ModelRequest("", (UserMessage("x"),)), is_streamed=is_streamed, is_usage_wanted=is_usage_wanted)
    assert body["stream"] is is_streamed
    assert body.get("stream_options") == options


def test_extra_body_is_added() -> None:
    assert encode(ModelRequest("", (UserMessage("x"),)), temperature=0.2, seed=7)["temperature"] == 0.2


def test_what_is_not_json_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="object cannot be sent"):
        encode(ModelRequest("", (UserMessage("x"),)), weird=object())
