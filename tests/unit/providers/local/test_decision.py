"""The form that stands for tool calling."""

from __future__ import annotations

import json

import pytest

from loopctl.messages import AssistantMessage, Text, ToolCall, ToolMessage, ToolResult, UserMessage
from loopctl.model import ModelRequest, ToolSpec
from loopctl.providers.local._decision import (
    Decision,
    decision_body,
    decision_request,
    is_decision_due,
    read_decision,
)

ADD = ToolSpec(
    "add",
    "Add two numbers.\n\nMore words.",
    {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]},
)
SAVE = ToolSpec(
    "save_point",
    "Save a point.",
    {
        "type": "object",
        "properties": {"point": {"$ref": "#/$defs/Point"}, "kind": {"type": "string", "enum": ["big", "small"]}},
        "$defs": {"Point": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Point"}}}},
    },
)
ROUND = (AssistantMessage((ToolCall("c", "add", {"a": 1, "b": 2}),)), ToolMessage((ToolResult("c", "3"),)))


def request(*messages, tools=(ADD, SAVE)):
    return ModelRequest("Be brief.", tuple(UserMessage(m) if isinstance(m, str) else m for m in messages), tools)


def choices(text):
    schema = decision_body(request(text))["response_format"]["json_schema"]["schema"]
    return [choice["properties"]["tool"]["const"] for choice in schema["anyOf"]]


def test_a_decision_is_due_when_tools_are_on_offer_and_none_was_used_in_this_turn():
    assert is_decision_due(request("hi"), rounds=1)
    assert not is_decision_due(request("hi", tools=()), rounds=1)
    assert not is_decision_due(request("hi", *ROUND), rounds=1)
    assert is_decision_due(request("hi", *ROUND, AssistantMessage((Text("3"),)), "again"), rounds=1)
    assert is_decision_due(request("hi", *ROUND), rounds=2)
    assert not is_decision_due(request("hi"), rounds=0)


def test_the_form_allows_each_tool_or_none():
    assert choices("hello") == ["add", "save_point", "none"]


@pytest.mark.parametrize(
    "text", ["use add", "Please call the tool `add` now", "RUN the add on 1 and 2", "now use 'add'."]
)
def test_a_message_that_asks_for_a_tool_by_name_gets_it(text):
    assert choices(text) == ["add"]


@pytest.mark.parametrize(
    "text", ["add milk to the list", "do not use add", "Don't call add", "use additions", "what is add?"]
)
def test_a_mere_mention_of_a_tool_leaves_the_choice(text):
    assert choices(text) == ["add", "save_point", "none"]


def test_references_inside_a_schema_count_from_the_root():
    schema = decision_body(request("x"))["response_format"]["json_schema"]["schema"]
    assert schema["$defs"] == {
        "t1_Point": {"type": "object", "properties": {"next": {"$ref": "#/$defs/t1_Point"}}},
    }
    arguments = schema["anyOf"][1]["properties"]["arguments"]
    assert arguments["properties"]["point"] == {"$ref": "#/$defs/t1_Point"}
    assert "$defs" not in arguments
    assert SAVE.parameters["properties"]["point"] == {"$ref": "#/$defs/Point"}  # the tool's own schema is untouched


def test_a_decision_cannot_ramble_for_ever():
    assert decision_body(request("x"))["max_tokens"] > 0


def test_the_prompt_lists_the_tools_and_ends_with_the_question():
    asked = decision_request(request("1 and 2?"))
    assert "add(a: number, b: number): Add two numbers." in asked.instructions
    assert asked.messages[-1] == UserMessage("1 and 2?")
    assert asked.tools == ()


def test_the_examples_are_decisions_that_the_form_would_allow():
    shown = [m.text for m in decision_request(request("x")).messages if isinstance(m, AssistantMessage)]
    read = [read_decision(text, (ADD, SAVE)) for text in shown]
    assert {decision.tool for decision in read if decision} == {"add", "save_point"}
    assert None in read
    kinds = [json.loads(d.arguments)["kind"] for d in read if d and d.tool == "save_point"]
    assert kinds == ["big", "small"]


def test_earlier_turns_are_shown_as_what_was_decided_the_last_three_only():
    talk = []
    for number in range(5):
        talk += [f"question {number} {'x' * 1000}", *ROUND, AssistantMessage((Text("3"),))]
    shown = decision_request(request(*talk, "last")).messages[-7:]
    assert [m.text[:10] for m in shown[::2]] == ["question 2", "question 3", "question 4", "last"]
    assert shown[1].text == '{"tool": "add", "arguments": {"a": 1, "b": 2}}'
    assert len(shown[0].text) < 1000


def test_a_turn_without_a_call_is_shown_as_none():
    shown = decision_request(request("hi", AssistantMessage((Text("hello"),)), "last")).messages
    assert [m.text for m in shown[-3:]] == ["hi", '{"tool": "none"}', "last"]


def test_a_second_round_shows_the_first_ones_result():
    shown = decision_request(request("go", *ROUND)).messages
    assert shown[-3] == UserMessage("go")
    assert shown[-2].text == '{"tool": "add", "arguments": {"a": 1, "b": 2}}'
    assert "gave: 3" in shown[-1].text


@pytest.mark.parametrize(
    "text", ['{"tool": "none"}', '{"tool": "add", "argu', "", "[]", '{"tool": "rm", "arguments": {}}']
)
def test_what_is_no_filled_form_means_no_tool(text):
    assert read_decision(text, (ADD,)) is None


def test_a_filled_form_gives_the_tool_and_its_arguments_as_json():
    assert read_decision('{"tool":"add","arguments":{"a":"ö"}}', (ADD,)) == Decision("add", '{"a": "ö"}')
