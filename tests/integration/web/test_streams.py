"""Runs over HTTP as streams of AG-UI events, and their stops."""

from __future__ import annotations

import pytest
from ag_ui_validate.pytest_plugin import assert_valid_agui

from loopctl import Agent, RunConfig, ToolContext, tool
from loopctl.errors import ModelError
from loopctl.testing import ScriptedModel, call, fail, say, stall, think
from tests.integration.web.served import served


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool
async def wait(ctx: ToolContext) -> str:
    """Wait."""
    ctx.progress("waiting", 0.5)
    await ctx.sleep(60)
    return "waited"


def valid(events: list[dict]) -> list[str]:
    assert_valid_agui(events, max_warnings=0)
    return [event.get("name") or event["type"] for event in events]


def text_of(events: list[dict]) -> str:
    return "".join(event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT")


def test_a_finished_run_is_a_valid_stream_with_its_tools_and_its_record():
    model = ScriptedModel([think("hm"), say("I add"), call("add", {"a": 1, "b": 2})], [say("3"), say("!")])
    with served(Agent(model, [add])) as server, server.run() as stream:
        events = stream.rest()
    assert valid(events) == [
        "RUN_STARTED", "loopctl.RunStarted", "loopctl.TurnStarted",
        "REASONING_START", "REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_END",
        "REASONING_END", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END",
        "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "loopctl.ToolStarted",
        "TOOL_CALL_RESULT", "loopctl.ToolFinished", "loopctl.TurnEnded",
        "loopctl.TurnStarted", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END", "loopctl.TurnEnded", "loopctl.RunEnded", "RUN_FINISHED",
    ]  # fmt: skip
    assert events[-1]["outcome"] == {"type": "success"}
    assert (events[-1]["threadId"], events[-1]["runId"]) == ("t", "r")
    assert events[-2]["value"]["run"]["output"] == "3!"
    assert events[1]["value"]["run_id"] == stream.run_id


def test_a_cancelled_run_finishes_as_cancelled_with_its_stop_report():
    with served(Agent(ScriptedModel([say("one "), stall()]))) as server, server.run() as stream:
        before = stream.until("TEXT_MESSAGE_CONTENT")
        answer = server.post(f"/runs/{stream.run_id}/cancel", {"reason": "enough"})
        events = before + stream.rest()
    names = valid(events)
    assert names[-4:] == ["TEXT_MESSAGE_END", "loopctl.TurnEnded", "loopctl.RunEnded", "RUN_FINISHED"]
    assert events[-1]["outcome"] == {"type": "cancelled"}
    stop = events[-2]["value"]["run"]["stop"]
    assert (stop["reason"]["origin"], stop["reason"]["message"]) == ("user", "enough")
    assert stop["checkpoint"] == "STREAM_EVENT"
    assert answer.status_code == 200
    assert (answer.json()["state"], answer.json()["outcome"]) == ("ended", "cancelled")
    assert answer.json()["run"]["partial_text"] == "one "


def test_a_run_that_is_cancelled_in_a_tool_closes_the_tool_with_its_true_status():
    with served(Agent(ScriptedModel(call("wait")), [wait])) as server, server.run() as stream:
        before = stream.until("loopctl.ToolProgress")
        server.post("/runs/r/cancel")  # the client's own name of the run
        events = before + stream.rest()
    names = valid(events)
    assert names[-5:] == [
        "TOOL_CALL_RESULT", "loopctl.ToolFinished", "loopctl.TurnEnded", "loopctl.RunEnded", "RUN_FINISHED",
    ]  # fmt: skip
    (finished,) = [event for event in events if event.get("name") == "loopctl.ToolFinished"]
    assert finished["value"]["call"]["status"] == "interrupted"
    (result,) = [event for event in events if event["type"] == "TOOL_CALL_RESULT"]
    assert result["content"] == "It was stopped. Whether it had its effect is not known."


@pytest.mark.parametrize(
    ("agent", "code"),
    [
        (lambda: Agent(ScriptedModel([say("one"), fail(ModelError("no luck"))])), "failed"),
        (
            lambda: Agent(ScriptedModel(call("add", {"a": 1, "b": 1})), [add], config=RunConfig(max_turns=1)),
            "max_turns",
        ),
    ],
)
def test_a_run_that_did_not_complete_is_an_error_with_a_code(agent, code):
    with served(agent()) as server, server.run() as stream:
        events = stream.rest()
    assert valid(events)[-2:] == ["loopctl.RunEnded", "RUN_ERROR"]
    assert events[-1]["code"] == code
    assert events[-2]["value"]["run"]["outcome"] == code


def test_what_no_encoding_has_a_word_for_breaks_no_stream():
    with served(Agent(ScriptedModel(["half \ud83d of one", ""]))) as server, server.run() as stream:
        events = stream.rest()
    assert text_of(events) == "half \ud83d of one"
    assert valid(events)[-1] == "RUN_FINISHED"


def test_the_history_of_a_conversation_is_the_servers():
    model = ScriptedModel("first", "second")
    with served(Agent(model)) as server:
        for number in (1, 2):
            with server.run(f"message {number}", run=f"r{number}") as stream:
                stream.rest()
        shown = server.client.get("/sessions/t").json()
    assert [message["role"] for message in shown["messages"]] == ["user", "assistant", "user", "assistant"]
    assert [run["client_run_id"] for run in shown["run_list"]] == ["r2", "r1"]
