"""Events in the words of AG-UI, judged by its validator."""

from __future__ import annotations

import json

from ag_ui_validate.pytest_plugin import assert_valid_agui

from loopctl import Agent
from loopctl.record import (
    AttemptReset,
    CallStatus,
    RunEnded,
    RunStarted,
    TextDelta,
    ThinkingDelta,
    ToolCallRecord,
    ToolFinished,
    ToolStarted,
    TurnStarted,
    WaitStarted,
)
from loopctl.testing import ScriptedModel, virtual_run
from loopctl.web._encode import Encoder, events_missed, to_line


def a_run():
    return virtual_run(lambda: Agent(ScriptedModel("x")).session(id="owner/t").run("hi"))


def told(*events) -> list[dict]:
    encoder = Encoder("t", "r")
    found = [
        one for event in (RunStarted("run_1"), *events, RunEnded(a_run(), "run_1")) for one in encoder.encode(event)
    ]
    assert_valid_agui(found, max_warnings=0)
    return found


def names(events: list[dict]) -> list[str]:
    return [event.get("name") or event["type"] for event in events]


def test_text_and_thinking_take_turns_and_each_message_has_an_id_of_its_own():
    events = told(TextDelta("a"), ThinkingDelta("b"), TextDelta("c"), TextDelta("d"))
    assert [event["type"] for event in events if "TEXT" in event["type"] or "REASONING_MESSAGE" in event["type"]] == [
        "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END",
        "REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_END",
        "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END",
    ]  # fmt: skip
    assert [event["messageId"] for event in events if event["type"].endswith("MESSAGE_START")] == [
        "run_1-1", "run_1-2", "run_1-3",
    ]  # fmt: skip


def test_an_attempt_that_is_void_closes_its_message_first():
    events = told(TurnStarted(1, "m"), TextDelta("a"), AttemptReset(1), WaitStarted(2.0, "retry"), TextDelta("b"))
    assert names(events)[3:10] == [
        "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "loopctl.AttemptReset", "loopctl.WaitStarted",
        "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT",
    ]  # fmt: skip


def test_empty_text_is_no_message():
    assert "TEXT_MESSAGE_START" not in names(told(TextDelta(""), ThinkingDelta("")))


def test_every_status_of_a_call_has_words():
    for status in CallStatus:
        record = ToolCallRecord("c", "save", {"path": "x"}, status)
        events = told(ToolStarted(record), ToolFinished(record))
        (result,) = [event for event in events if event["type"] == "TOOL_CALL_RESULT"]
        assert (result["content"] != "") == (status not in {CallStatus.COMPLETED, CallStatus.FAILED})
        (arguments,) = [event for event in events if event["type"] == "TOOL_CALL_ARGS"]
        assert json.loads(arguments["delta"]) == {"path": "x"}


def test_the_record_has_the_clients_name_of_the_conversation():
    assert told()[-2]["value"]["run"]["session_id"] == "t"


def test_an_event_is_one_block_whatever_its_text_holds():
    line = to_line(7, {"type": "X", "text": "a\n\ndata: b\r\n\u2028\ud800"})
    assert line.startswith(b"id: 7\ndata: {")
    assert line.endswith(b"}\n\n")
    assert line.count(b"\n") == 3
    assert json.loads(line.split(b"data: ", 1)[1])["text"] == "a\n\ndata: b\r\n\u2028\ud800"


def test_who_fell_behind_is_told_that_the_run_goes_on():
    assert events_missed(3)["code"] == "events_missed"
    assert "goes on" in events_missed(3)["message"]
