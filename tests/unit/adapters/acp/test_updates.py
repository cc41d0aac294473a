"""Each event as the protocol's update."""

from __future__ import annotations

import pytest

from loopctl.adapters.acp._updates import title_of, tool_call_id, update_of
from loopctl.record import (
    ApprovalEnded,
    CallStatus,
    RunStarted,
    TextDelta,
    ThinkingDelta,
    ToolCallRecord,
    ToolFinished,
    ToolStarted,
)


def record(status=CallStatus.NOT_STARTED, result=None):
    return ToolCallRecord("call_1", "fetch_url", {"url": "http://x", "n": [1]}, status, result)


def test_text_and_thinking_are_chunks_of_their_own_kind():
    assert update_of(TextDelta("hi", "run")).session_update == "agent_message_chunk"
    assert update_of(ThinkingDelta("hm", "run")).session_update == "agent_thought_chunk"
    assert update_of(RunStarted("run")) is None


def test_a_started_call_says_what_it_does():
    update = update_of(ToolStarted(record(), "run_1"))
    assert (update.tool_call_id, update.title, update.kind) == ("run_1/call_1", "fetch_url http://x [1]", "fetch")
    assert (update.status, update.raw_input) == ("in_progress", {"url": "http://x", "n": [1]})


def test_the_same_call_id_in_two_runs_is_two_calls_for_the_client():
    assert tool_call_id("run_1", "call_1") != tool_call_id("run_2", "call_1")


@pytest.mark.parametrize("status", CallStatus)
def test_only_a_completed_call_is_told_as_completed_and_each_says_what_became_of_it(status):
    update = update_of(ToolFinished(record(status, "42" if status is CallStatus.COMPLETED else None), "run"))
    assert update.status == ("completed" if status is CallStatus.COMPLETED else "failed")
    said = update.content[0].content.text if update.content else None
    assert (
        said
        == {
            CallStatus.COMPLETED: "42",
            CallStatus.FAILED: None,
            CallStatus.DENIED: "It was not allowed, and did not run.",
            CallStatus.NOT_STARTED: "It was not started.",
            CallStatus.INTERRUPTED: "It was stopped. Whether it had its effect is not known.",
            CallStatus.ABANDONED: "It did not stop in time and still runs.",
        }[status]
    )


def test_an_answer_that_is_no_yes_begins_nothing():
    assert update_of(ApprovalEnded(record(), "allowed", "run")).status == "in_progress"
    assert update_of(ApprovalEnded(record(), "denied", "run")) is None
    assert update_of(ApprovalEnded(record(), "withdrawn", "run")) is None


def test_a_title_is_one_short_line():
    title = title_of("write_file", {"path": "a.py", "text": "line\n" * 100})
    assert title.startswith("write_file a.py line line")
    assert len(title) == 100
