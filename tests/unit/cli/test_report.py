"""The report line, from hand-made records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from loopctl.cli._amount import Amount
from loopctl.cli._report import _ORIGINS, WHERE, failure_line, kept_line, stop_line
from loopctl.errors import MaxTurnsExceeded
from loopctl.messages import Usage
from loopctl.record import CallStatus, CancelReason, Checkpoint, Origin
from tests.unit.cli.records import SIGTERM, call, failed, run, stopped, straggler, turn

TOOL = Checkpoint.TOOL_CALL


def test_a_stop_in_mid_sentence_says_who_where_how_fast_and_how_much():
    line = stop_line(stopped(turns=[turn("Once upon a time")]))
    assert line == "stopped by Ctrl-C in the middle of the reply [STREAM_EVENT] after 3 ms; 4 words shown"


def test_what_was_shown_is_counted_and_not_what_had_been_accepted():
    assert "; 1 word shown" in stop_line(stopped(turns=[turn("Once upon a time")]), Amount.of("Once"))


def test_a_stop_before_the_first_word_says_so():
    line = stop_line(stopped(turns=[turn()], latency=0.0002))
    assert line == "stopped by Ctrl-C while waiting for the reply [STREAM_EVENT] after less than 1 ms; nothing shown"


def test_tokens_are_said_where_they_are_known_and_never_as_zero():
    words = [turn("a b")]
    assert "2 words shown (7 tokens)" in stop_line(stopped(turns=words, usage=Usage(3, 7)))
    before = replace(turn("c d", is_whole=True), usage=Usage(3, 7))
    partial = Usage(3, 7, is_partial=True)
    assert "4 words shown (at least 7 tokens)" in stop_line(stopped(turns=[before, *words], usage=partial))
    assert "token" not in stop_line(stopped(turns=words, usage=Usage(None, None, is_partial=True)))


def test_tokens_of_a_choice_of_tools_are_not_said_of_the_text():
    choice = replace(turn("", is_whole=True), usage=Usage(3, 15))
    line = stop_line(stopped(turns=[choice, turn("a b")], usage=Usage(3, 15, is_partial=True)))
    assert "2 words shown" in line
    assert "token" not in line


def test_text_without_spaces_is_counted_in_characters():
    assert "; 8 characters shown" in stop_line(stopped(turns=[turn("昔々ある所に 狐が")]))
    assert "; 2 words shown" in stop_line(stopped(turns=[turn("옛날 옛적에")]))


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (stopped(turns=[turn("a b")]), "as far as it came (2 words). The model is not told that it was stopped."),
        (stopped(turns=[turn()]), "Kept: your message alone, since it was stopped before anything was said or done."),
        (failed(), "Kept: your message alone, since it failed before anything was said or done."),
        (failed(turns=[turn("a b")]), "(2 words). The model is not told that it failed."),
        (
            stopped(calls=[call("save", CallStatus.INTERRUPTED), call("mail", CallStatus.NOT_STARTED)]),
            "what is known of them: save interrupted (effect unknown), mail not started.",
        ),
    ],
)
def test_what_was_adopted_is_told_as_it_is(made, words):
    assert kept_line(made).endswith(words)


def test_the_tool_calls_are_told_by_status_with_what_is_unknown():
    calls = [
        call("fetch", CallStatus.COMPLETED),
        call("read", CallStatus.COMPLETED),
        call("save", CallStatus.INTERRUPTED),
        call("mail", CallStatus.NOT_STARTED),
    ]
    assert stop_line(stopped(checkpoint=TOOL, calls=calls)) == (
        "stopped by Ctrl-C in the tool save [TOOL_CALL] after 3 ms; "
        "tools: fetch, read completed, save interrupted (effect unknown), mail not started"
    )


def test_many_calls_of_one_status_are_counted():
    calls = [call(f"t{number}", CallStatus.COMPLETED) for number in range(9)]
    assert "t0, t1, t2, t3 and 5 more completed" in stop_line(stopped(checkpoint=TOOL, calls=calls))


@pytest.mark.parametrize(
    ("status", "words"),
    [(CallStatus.NOT_STARTED, "before the tool save began"), (CallStatus.COMPLETED, "as a tool ended")],
)
def test_a_stop_beside_a_tool_does_not_claim_that_it_was_in_it(status, words):
    assert words in stop_line(stopped(checkpoint=TOOL, calls=[call("save", status)]))


def test_a_straggler_is_named_with_its_line_and_a_path_that_is_short():
    here = straggler(where=f"{Path.cwd()}/tools.py:12")
    away = straggler("load", "/x/tools.py:7")
    calls = [call("save", CallStatus.ABANDONED)]
    line = stop_line(stopped(checkpoint=TOOL, calls=calls, stragglers=[here, away]))
    assert "still running: save at tools.py:12 (thread, 0.3 s), load at /x/tools.py:7 (thread, 0.3 s)" in line
    assert "save abandoned (may still have an effect)" in line


def test_a_busy_server_is_said():
    assert stop_line(stopped(), is_busy=True).endswith("; the local server is still busy with the prompt")


@pytest.mark.parametrize("origin", Origin.__args__)
def test_every_origin_has_its_words_and_keeps_its_message(origin):
    line = stop_line(stopped(CancelReason(origin, "because\nof that")))
    assert line.startswith(f"stopped {_ORIGINS[origin]} (because of that) ")


def test_sigterm_is_called_by_its_name():
    assert stop_line(stopped(SIGTERM)).startswith("stopped by SIGTERM ")


@pytest.mark.parametrize("checkpoint", Checkpoint)
def test_every_checkpoint_has_its_words_and_its_name(checkpoint):
    line = stop_line(stopped(checkpoint=checkpoint, turns=[turn("a")]))
    assert f"[{checkpoint.name}]" in line
    assert checkpoint is TOOL or WHERE[checkpoint] in line


def test_a_failure_says_what_had_happened_if_anything_had():
    assert failure_line(failed("no\n  answer")) == "no answer"
    assert failure_line(failed("no", turns=[turn("a b c")]), Amount.of("a b c")) == "no [3 words shown]"
    calls = [call("save", CallStatus.COMPLETED)]
    error = MaxTurnsExceeded("out of turns")
    assert failure_line(run("max_turns", error=error, calls=calls, turns=[turn()])) == (
        "after 1 turn the model still asked for tools: --max-turns allows more [tools: save completed]"
    )
