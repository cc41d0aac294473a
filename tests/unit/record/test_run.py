"""The record of a run: what it raises, and that its JSON is whole and JSON."""

from __future__ import annotations

import json
import traceback
from dataclasses import FrozenInstanceError, fields, replace

import pytest

from loopctl.errors import Cancelled, MaxTurnsExceeded, ModelError
from loopctl.messages import AssistantMessage, Text, ToolCall, Usage, UserMessage
from loopctl.record import (
    CallStatus,
    CancelReason,
    Checkpoint,
    Run,
    RunEnded,
    Stop,
    StragglerRecord,
    ToolCallRecord,
    ToolFinished,
    ToolStarted,
    Turn,
)

CALL = ToolCallRecord("c1", "fetch", {"url": "x"}, CallStatus.INTERRUPTED, None, 1, 1001.0, 1002.0)
HANGING = StragglerRecord("thread", "fetch", "c1", 2.5, "tools.py:7")
TURN = Turn(
    1,
    "scripted",
    AssistantMessage((Text("Let"), ToolCall("c1", "fetch"))),
    True,
    "tool_calls",
    Usage(3, 4),
    1000.0,
    1001.0,
)
RUN = Run(
    id="r1",
    session_id="s1",
    outcome="completed",
    input=UserMessage("hi"),
    output="hello",
    partial_text="",
    stop=None,
    turns=(TURN,),
    tool_calls=(CALL,),
    stragglers=(),
    usage=Usage(3, 4),
    error=None,
    started_at=1000.0,
    ended_at=1003.0,
)
REASON = CancelReason("user", "stop")
STOPPED = replace(
    RUN,
    outcome="cancelled",
    output=None,
    partial_text="Let",
    stop=Stop(REASON, Checkpoint.TOOL_CALL, 0.004, (HANGING,), (CancelReason("shutdown"),)),
    stragglers=(HANGING,),
    error=Cancelled(REASON, Checkpoint.TOOL_CALL),
)


def test_a_completed_run_gives_itself():
    assert RUN.raise_for_outcome() is RUN


@pytest.mark.parametrize(
    "error", [Cancelled(REASON, Checkpoint.TURN_ENTRY), MaxTurnsExceeded("2 turns"), ModelError("no", status=500)]
)
def test_every_other_run_raises_its_error(error):
    with pytest.raises(type(error)) as caught:
        replace(RUN, error=error).raise_for_outcome()

    assert caught.value is not error  # a raised exception holds every frame it went through
    assert (caught.value.args, vars(caught.value)) == (error.args, vars(error))


def test_raising_again_and_again_adds_nothing_to_the_record():
    lengths = []
    for _ in range(3):
        with pytest.raises(Cancelled) as caught:
            STOPPED.raise_for_outcome()
        lengths.append(len(traceback.extract_tb(caught.value.__traceback__)))

    assert lengths[0] == lengths[1] == lengths[2]


def test_the_json_of_a_run_has_every_field_and_is_json():
    for run in (RUN, STOPPED):
        value = run.to_json()
        assert json.loads(json.dumps(value, allow_nan=False)) == value
        assert set(value) == {field.name for field in fields(Run)}


def test_the_json_of_a_stopped_run_tells_the_whole_stop():
    value = STOPPED.to_json()

    assert value["outcome"] == "cancelled"
    assert value["input"] == "hi"
    assert value["stop"] == {
        "reason": {"origin": "user", "message": "stop", "requested_by": ""},
        "checkpoint": "TOOL_CALL",
        "latency": 0.004,
        "stragglers": [{"kind": "thread", "name": "fetch", "call_id": "c1", "age": 2.5, "where": "tools.py:7"}],
        "also": [{"origin": "shutdown", "message": "", "requested_by": ""}],
        "blocked_at": "",
    }
    assert value["error"] == {"type": "Cancelled", "message": "cancelled at TOOL_CALL: user: stop"}
    assert value["stragglers"] == value["stop"]["stragglers"]


def test_the_json_of_a_failed_run_says_whether_it_is_worth_another_try():
    error = ModelError("overloaded", status=503, retryable=True, retry_after=2.0)

    assert replace(RUN, outcome="failed", error=error).to_json()["error"] == {
        "type": "ModelError",
        "message": "overloaded",
        "status": 503,
        "retryable": True,
        "retry_after": 2.0,
    }
    assert replace(RUN, error=MaxTurnsExceeded("2 turns")).to_json()["error"] == {
        "type": "MaxTurnsExceeded",
        "message": "2 turns",
    }


def test_the_json_of_a_turn_and_of_a_call():
    assert TURN.to_json() == {
        "number": 1,
        "model": "scripted",
        "reply": {
            "role": "assistant",
            "blocks": [
                {"type": "text", "text": "Let"},
                {"type": "tool_call", "id": "c1", "name": "fetch", "arguments": {}},
            ],
        },
        "is_whole": True,
        "stop_reason": "tool_calls",
        "usage": {"input_tokens": 3, "output_tokens": 4, "is_partial": False},
        "started_at": 1000.0,
        "ended_at": 1001.0,
    }
    assert CALL.to_json() == {
        "id": "c1",
        "name": "fetch",
        "arguments": {"url": "x"},
        "status": "interrupted",
        "result": None,
        "attempts": 1,
        "started_at": 1001.0,
        "ended_at": 1002.0,
    }


def test_the_error_object_does_not_decide_whether_two_records_are_equal():
    assert replace(STOPPED, error=Cancelled(REASON, Checkpoint.TOOL_CALL)) == STOPPED
    assert replace(STOPPED, partial_text="") != STOPPED


def test_a_record_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        RUN.outcome = "cancelled"


def test_the_events_of_a_call_name_it():
    for event in (ToolStarted(CALL), ToolFinished(CALL)):
        assert (event.id, event.name) == ("c1", "fetch")
    assert RunEnded(RUN).run is RUN


def test_the_statuses_and_checkpoints_are_those_of_the_contract():
    assert [status.value for status in CallStatus] == [
        "completed",
        "failed",
        "denied",
        "not_started",
        "interrupted",
        "abandoned",
    ]
    assert len(Checkpoint) == 13
    assert all(checkpoint.value == checkpoint.name.lower() for checkpoint in Checkpoint)
