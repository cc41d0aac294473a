"""What the logging observer writes: a cancel is an ordinary line, and every fact is a field."""

from __future__ import annotations

import logging

import pytest

from loopctl.errors import LoopError
from loopctl.messages import Usage
from loopctl.observers import LoggingObserver
from loopctl.record import AttemptReset, CallStatus, CancelReason, Checkpoint, ThinkingDelta, ToolProgress, WaitStarted
from tests.unit.observers.events import (
    HANGING,
    a_run,
    a_turn,
    answered,
    asked,
    began,
    call_began,
    call_ended,
    cut_in_chat,
    ended,
    question_of,
    said,
    stop_of,
    straggler_ended,
    whole_run,
)

STANDARD = set(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {"message", "asctime", "taskName"}
ORIGINS = ["user", "deadline", "stall", "budget", "disconnect", "shutdown", "observer", "caller", "parent"]


def lines(caplog, events, observer=None, level=logging.DEBUG):
    caplog.clear()
    caplog.set_level(level, "loopctl.runs")
    observer = observer or LoggingObserver()
    for event in events:
        observer(event)
    return list(caplog.records)


def fields(record):
    return {name: value for name, value in vars(record).items() if name not in STANDARD}


def test_each_step_of_a_run_is_a_line_with_its_facts(caplog):
    written = lines(caplog, whole_run(a_run(id="run_9")))
    assert [(record.levelname, record.event) for record in written] == [
        ("INFO", "RunStarted"),
        ("INFO", "TurnStarted"),
        ("INFO", "ToolStarted"),
        ("INFO", "ToolFinished"),
        ("INFO", "TurnEnded"),
        ("INFO", "RunEnded"),
    ]
    assert {record.run_id for record in written} == {"run_9"}
    assert all(record.getMessage().startswith("run_9: ") for record in written)
    finished = fields(written[3])
    assert finished == {
        "run_id": "run_9",
        "event": "ToolFinished",
        "tool": "save",
        "call_id": "c1",
        "status": "completed",
        "attempts": 1,
        "duration": 1.5,
    }
    last = fields(written[-1])
    assert {name: last[name] for name in ("outcome", "input_tokens", "output_tokens", "turns", "session_id")} == {
        "outcome": "completed",
        "input_tokens": 10,
        "output_tokens": 5,
        "turns": 1,
        "session_id": "session_1",
    }
    assert last["duration"] == pytest.approx(3.0)
    assert "origin" not in last
    assert "error" not in last


@pytest.mark.parametrize("origin", ORIGINS)
def test_a_cancel_is_neither_an_error_nor_a_warning_and_says_who_where_and_how_fast(caplog, origin):
    """Case C11: a stop on request is not surfaced as an execution error. Case I2: nor logged as one."""
    stop = stop_of(origin, at=Checkpoint.STREAM_EVENT, latency=0.004)
    written = lines(caplog, cut_in_chat(a_run("cancelled", stop=stop)))
    assert {record.levelname for record in written} == {"INFO"}
    last = fields(written[-1])
    assert (last["outcome"], last["origin"], last["checkpoint"]) == ("cancelled", origin, "STREAM_EVENT")
    assert (last["reason"], last["latency"]) == ("pressed stop", 0.004)
    assert "error" not in last
    assert "error_type" not in last
    assert f"cancelled at STREAM_EVENT ({origin}: pressed stop) within 0.004 s" in written[-1].getMessage()
    assert all(record.exc_info is None for record in written)


def test_deadlines_can_be_counted_apart_from_users(caplog):
    """Case E7: four causes are four values of a field, whatever their texts say."""
    origins = ["user", "deadline", "deadline", "shutdown", "stall", "user", "deadline"]
    runs = [a_run("cancelled", stop=stop_of(origin)) for origin in origins]
    written = lines(caplog, [ended(run) for run in runs])
    assert [record.origin for record in written] == origins
    assert len({record.reason for record in written}) == 1  # the texts would not have told them apart


def test_a_failed_run_is_an_error_and_running_out_of_turns_a_warning(caplog):
    failed, spent = lines(caplog, [ended(a_run("failed")), ended(a_run("max_turns"))])
    assert (failed.levelname, failed.outcome, failed.error_type) == ("ERROR", "failed", "ModelError")
    assert failed.error == "the server said no"
    assert (spent.levelname, spent.outcome, spent.error_type) == ("WARNING", "max_turns", "MaxTurnsExceeded")


def test_a_failed_call_is_no_error_line_its_status_says_it(caplog):
    """The model is told and goes on; and after a cancel a call may fail in whatever way."""
    for status in CallStatus:
        (line,) = lines(caplog, [call_ended(status)])
        assert (line.levelname, line.status) == ("INFO", status.value)


def test_what_is_not_known_has_no_field(caplog):
    unknown = Usage(None, None, is_partial=True)
    turn, run = lines(caplog, [answered(a_turn(whole=False, usage=unknown)), ended(a_run("cancelled", usage=unknown))])
    for line in (turn, run):
        assert fields(line).keys().isdisjoint({"input_tokens", "output_tokens"})
        assert line.is_usage_partial is True
    assert "stop_reason" not in fields(turn)
    (call,) = lines(caplog, [call_ended(CallStatus.ABANDONED)])
    assert "duration" not in fields(call)


def test_what_was_said_is_not_logged_unless_it_is_asked_for(caplog):
    quiet = lines(caplog, [*whole_run(a_run()), ThinkingDelta("secret thought", run_id="run_1")])
    assert "secret" not in repr([(record.getMessage(), fields(record)) for record in quiet])
    loud = lines(caplog, [said("a secret"), ThinkingDelta("more", run_id="run_1")], LoggingObserver(deltas=True))
    assert [(record.levelname, record.event, record.text) for record in loud] == [
        ("DEBUG", "TextDelta", "a secret"),
        ("DEBUG", "ThinkingDelta", "more"),
    ]


def test_progress_and_lost_attempts_have_their_lines(caplog):
    progress = ToolProgress("c1", "save", "half way", 0.5, run_id="run_1")
    wait = WaitStarted(5.0, "rate_limit", run_id="run_1")
    first, second, third = lines(caplog, [progress, AttemptReset(2, run_id="run_1"), wait])
    assert (first.levelname, first.fraction, first.tool) == ("DEBUG", 0.5, "save")
    assert "50% half way" in first.getMessage()
    assert (second.levelname, second.turn) == ("INFO", 2)
    assert (third.levelname, third.wait, third.duration) == ("INFO", "rate_limit", 5.0)
    assert third.getMessage().endswith("waits 5.000 s (rate_limit)")


@pytest.mark.parametrize("answer", ["allowed", "denied", "withdrawn"])
def test_a_question_and_its_end_have_lines_that_name_the_call_and_not_its_arguments(caplog, answer):
    asked_line, ended_line = lines(caplog, question_of(answer))
    assert (asked_line.levelname, asked_line.tool, asked_line.call_id) == ("INFO", "save", "c1")
    assert asked_line.getMessage() == "run_1: save (c1) waits for approval"
    assert (ended_line.levelname, ended_line.answer) == ("INFO", answer)
    assert ended_line.getMessage() == f"run_1: save (c1): approval {answer}"
    assert "secret" not in repr([fields(line) for line in (asked_line, ended_line)])


def test_stragglers_are_counted_at_the_end_and_told_when_they_end_late(caplog):
    run = a_run("cancelled", stop=stop_of(stragglers=(HANGING,)), stragglers=(HANGING,))
    end, late, broke = lines(caplog, [ended(run), straggler_ended(), straggler_ended("OSError: gone")])
    assert end.stragglers == 1
    assert "stragglers: 1" in end.getMessage()
    assert (late.levelname, late.straggler, late.late, late.duration) == ("INFO", "save", "returned", 2.5)
    assert (broke.levelname, broke.late, broke.error) == ("INFO", "raised", "OSError: gone")


def test_later_causes_and_the_one_who_asked_are_fields(caplog):
    stop = stop_of(also=(CancelReason("deadline"),))
    stop = type(stop)(CancelReason("user", "", "ana"), stop.checkpoint, stop.latency, (), stop.also)
    (line,) = lines(caplog, [ended(a_run("cancelled", stop=stop))])
    assert (line.also, line.requested_by) == (("deadline",), "ana")
    assert "reason" not in fields(line)


def test_foreign_text_cannot_begin_a_line_of_its_own(caplog):
    events = [
        call_began(name="save\nERROR root: forged"),
        call_ended(CallStatus.FAILED, name="save\nERROR root: forged"),
        ended(a_run("failed", error=LoopError("bad\nERROR forged " + "x" * 5000))),
        asked(model="m\r\nforged"),
    ]
    for line in lines(caplog, events):
        assert len(line.getMessage().splitlines()) == 1
        assert len(line.getMessage()) < 600


def test_the_logger_and_the_ordinary_level_can_be_chosen(caplog):
    logger = logging.getLogger("mine")
    caplog.set_level(logging.DEBUG, "mine")
    LoggingObserver(logger, logging.DEBUG)(began())
    LoggingObserver("mine", logging.WARNING)(began())
    assert [(record.name, record.levelname) for record in caplog.records] == [("mine", "DEBUG"), ("mine", "WARNING")]


def test_nothing_is_made_for_a_level_that_nobody_reads(caplog):
    class Untouched(str):  # noqa: SLOT000
        def split(self, *args):
            raise AssertionError("a line was made")

    assert lines(caplog, [asked(model=Untouched("m"))], level=logging.WARNING) == []
    with pytest.raises(AssertionError, match="a line was made"):
        lines(caplog, [asked(model=Untouched("m"))])
    (failed,) = lines(caplog, whole_run(a_run("failed")), level=logging.ERROR)
    assert failed.outcome == "failed"


def test_an_event_of_a_later_version_is_passed_over(caplog):
    class Unheard:
        run_id = "run_1"

    assert lines(caplog, [Unheard()]) == []
