"""The table of runs, and the ids that are short and still tell runs apart."""

from __future__ import annotations

import pytest

from loopctl import CancelReason, Checkpoint, UsageError
from loopctl.cli._cancel import resolve, said
from loopctl.cli._ps import age_of, place_of, short_ids, table, wrapped
from loopctl.cli._report import stop_line
from loopctl.control import Receipt
from loopctl.record import RunStatus, Stop
from tests.unit.cli.records import run

ID = "run_0123456789abcdef0123456789abcdef"
OTHER = "run_0123456789ffffff0123456789abcdef"
SESSION = "session_0123456789abcdef0123456789abcdef"


def status(**more):
    told = {"id": ID, "session_id": SESSION, "model": "openai:gpt-5.2", "started_at": 100.0, "turn": 2}
    return RunStatus(**{**told, "checkpoint": Checkpoint.STREAM_EVENT, "pid": 12345, "command": "chat", **more})


def test_the_table_fits_in_80_columns_and_reads_well():
    why = CancelReason("user", "too long", "loopctl cancel (pid 7, alice)")
    tool = status(checkpoint=Checkpoint.TOOL_CALL, tools=("fetch_url",), stopping=why, blocked_at="tools.py:12")
    lines = table([status(), tool], 162.5)
    assert lines[:6] == [
        "RUN           STATE     AGE     TURN  NOW",
        "run_01234567  running   1m02s      2  in the middle of the reply",
        f"              chat (pid 12345) · openai:gpt-5.2 · {SESSION[:20]}",
        "run_01234567  stopping  1m02s      2  in the tool fetch_url",
        f"              chat (pid 12345) · openai:gpt-5.2 · {SESSION[:20]}",
        "              stopping: user: too long (by loopctl cancel (pid 7, alice))",
    ]
    assert lines[6] == "              the event loop is blocked at tools.py:12"
    assert all(len(line) <= 80 for line in lines)
    assert table([], 0.0) == []


def test_what_does_not_fit_is_broken_and_stays_in_its_column():
    assert wrapped("   one two three", 12) == "   one two\n   three"


def test_what_a_run_does_is_said_with_the_names_of_its_tools():
    assert place_of(status(checkpoint=Checkpoint.TOOL_CALL)) == "in a tool"
    assert place_of(status(checkpoint=Checkpoint.TOOL_CALL, tools=("a", "b"))) == "in the tools a, b"
    assert place_of(status(checkpoint=Checkpoint.APPROVAL, tools=("pay",))) == "while waiting for approval of pay"


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0s"), (59.9, "59s"), (3599, "59m59s"), (3600, "1h00m"), (86400 * 9.5, "9d12h")]
)
def test_an_age_is_short(seconds, text):
    assert age_of(seconds) == text


def test_a_short_id_tells_runs_apart():
    assert short_ids([ID]) == {ID: "run_01234567"}
    assert short_ids([ID, OTHER]) == {ID: "run_0123456789a", OTHER: "run_0123456789f"}


def test_the_beginning_of_an_id_is_enough_if_no_other_run_has_it():
    assert resolve("0123456789a", [ID, OTHER]) == ID
    assert resolve("run_0123456789a", [ID, OTHER]) == ID
    assert resolve(ID, [ID, OTHER]) == ID
    assert resolve("run_9", [ID, OTHER]) == "run_9"
    with pytest.raises(UsageError, match="run_0 begins the ids of 2 runs: run_0123456789a, run_0123456789f"):
        resolve("run_0", [ID, OTHER])


@pytest.mark.parametrize(
    ("receipt", "text"),
    [
        (Receipt(ID, "already_ended", "completed"), "had ended before: completed"),
        (Receipt(ID, "already_ended"), "had ended before: its record is being written"),
        (Receipt(ID, "unknown"), "no such run goes on here. loopctl ps lists them"),
        (Receipt(ID, "unknown", silent=(7,)), "process 7 does not answer"),
        (Receipt(ID, "cancelling", blocked_at="a.py:3"), "the event loop is blocked at a.py:3"),
    ],
)
def test_a_receipt_is_said_in_words(receipt, text):
    assert text in said(receipt)


def test_the_line_of_a_stop_says_who_asked_and_why():
    why = CancelReason("user", "too long", "loopctl cancel (pid 7, alice)")
    line = stop_line(run("cancelled", stop=Stop(why, Checkpoint.MODEL_REQUEST, 0.012)))
    assert line.startswith("stopped by loopctl cancel (pid 7, alice): too long, while waiting for the reply [")
    line = stop_line(run("cancelled", stop=Stop(CancelReason("user", "", "acp"), Checkpoint.MODEL_REQUEST, 0.012)))
    assert line.startswith("stopped by acp while waiting for the reply [")


def test_an_empty_id_names_no_run_also_where_there_is_only_one():
    with pytest.raises(UsageError, match="empty"):
        resolve("", [ID])
