"""What a model is told that calls a tool which does not exist: what it may have meant, and what there is."""

from __future__ import annotations

import pytest

from loopctl.brain import Brain, Limits, ModelReplied, RefuseCalls, Started
from loopctl.messages import AssistantMessage, ToolCall, UserMessage


def answer_to(called: str, *tools: str) -> str:
    """The text that the brain answers a call of *called* with."""
    brain = Brain(tools=frozenset(tools), limits=Limits(max_turns=2))
    brain.step(Started((), UserMessage("hi")))
    refused, _ = brain.step(ModelReplied(AssistantMessage((ToolCall("c1", called, {}),)), "tool_calls"))
    assert isinstance(refused, RefuseCalls)
    assert refused.results[0].is_error
    return refused.results[0].content


@pytest.mark.parametrize("called", ["serch_web", "search-web", "SearchWeb", "SEARCH_WEB", "functions.search_web"])
def test_a_name_that_is_much_like_a_tools_is_answered_with_that_one(called):
    assert answer_to(called, "search_web", "read_page", "save") == (
        f"There is no tool named {called!r}. Did you mean 'search_web'?"
        " The tools that exist are: read_page, save, search_web."
    )


@pytest.mark.parametrize("called", ["delete", "", "☃", "x" * 10_000])
def test_a_name_that_is_like_none_is_answered_with_the_list_alone(called):
    text = answer_to(called, "search_web", "read_page")

    assert "Did you mean" not in text
    assert text.endswith("The tools that exist are: read_page, search_web.")


def test_of_hundreds_of_tools_only_those_that_may_have_been_meant_are_listed():
    tools = [f"{kind}_{number}" for kind in ("mail", "page") for number in range(250)]

    text = answer_to("paeg_17", *tools)

    _, _, listed = text.partition("those with a similar name are: ")
    names = listed.removesuffix(".").split(", ")
    assert text.startswith("There is no tool named 'paeg_17'. Did you mean 'page_17'? 500 tools exist;")
    assert len(names) == 40
    assert names == sorted(names)
    assert {name[:4] for name in names} == {"page"}
    assert "page_17" in names


def test_names_that_differ_only_in_case_are_told_apart_in_the_list():
    tools = [*(f"tool_{number}" for number in range(60)), "Save", "SAVE"]

    text = answer_to("save", *tools)

    assert "Did you mean 'SAVE'?" in text
    assert {"SAVE", "Save"} <= set(text.removesuffix(".").rpartition(": ")[2].split(", "))
