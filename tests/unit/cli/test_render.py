"""Events as a person follows them."""

from __future__ import annotations

import time

import pytest

from loopctl.cli._render import Renderer, call_text
from loopctl.cli._screen import Screen
from loopctl.record import (
    ApprovalEnded,
    ApprovalRequested,
    AttemptReset,
    CallStatus,
    RunEnded,
    RunStarted,
    StragglerEnded,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    WaitStarted,
    event_to_json,
)
from tests.unit.cli.records import call, run, straggler, turn
from tests.unit.cli.test_screen import Fake

SAVE = call("save", CallStatus.NOT_STARTED, arguments={"path": "x", "n": 1})
SAVED = call("save", CallStatus.COMPLETED, arguments={"path": "x", "n": 1}, started_at=10.0, ended_at=10.25)
LONG = call("load", CallStatus.FAILED, result="no\nsuch file", started_at=0.0, ended_at=12.34)
STORY = [
    TurnStarted(1, "m"),
    TextDelta("Let me see."),
    ToolStarted(SAVE),
    ToolProgress("id_save", "save", "half\nway", 0.5),
    ToolFinished(SAVED),
    TurnEnded(turn("Let me see.")),
    TurnStarted(2, "m"),
    TextDelta("It "),
    TextDelta("is done."),
    RunEnded(run()),
]


def play(events, *, environ, is_terminal=True, **options):
    stream = Fake(is_terminal=is_terminal)
    renderer = Renderer(Screen(stream, environ), **options)
    for event in events:
        renderer.take(event)
    return stream.getvalue(), renderer


def test_on_a_dumb_terminal_each_thing_is_a_line():
    text, renderer = play(STORY, environ={"TERM": "dumb"})
    assert text.splitlines() == [
        "Let me see.",
        '⋯ save(path="x", n=1)',
        '⋯ 50 % half way save(path="x", n=1)',
        '✓ save(path="x", n=1) completed in 250 ms',
        "It is done.",
    ]
    assert renderer.amount.words == 6


def test_on_a_terminal_what_is_going_on_is_one_line_that_is_rewritten():
    text, _ = play(STORY, environ={"TERM": "xterm", "NO_COLOR": "1"})
    seen = [part.rpartition("\r\x1b[K")[2] for part in text.split("\n")]
    assert seen == ["Let me see.", '✓ save(path="x", n=1) completed in 250 ms', "It is done."]
    assert "⋯ waiting for m" in text
    assert "⋯ 50 % half way save(" in text


def test_text_and_notes_can_go_apart_and_turns_are_parted():
    stdout, stderr = Fake(is_terminal=False), Fake(is_terminal=False)
    renderer = Renderer(Screen(stdout, {}), Screen(stderr, {}))
    for event in STORY:
        renderer.take(event)
    assert stdout.getvalue() == "Let me see.\nIt is done."
    assert stderr.getvalue().count("\n") == 3


def test_a_failed_call_says_why_in_one_line():
    text, _ = play([ToolStarted(LONG), ToolFinished(LONG)], environ={"TERM": "dumb"})
    assert text.splitlines()[-1] == "✗ load() failed in 12.3 s: no such file"


@pytest.mark.parametrize("status", CallStatus)
def test_every_status_is_shown_by_its_name(status):
    text, _ = play([ToolFinished(call("save", status))], environ={"TERM": "dumb"})
    assert status.value.replace("_", " ") in text


def test_arguments_are_shortened():
    long = call("save", CallStatus.NOT_STARTED, arguments={"text": "x" * 500, "more": list(range(500)), "last": 1})
    assert len(call_text(long)) < 120
    assert call_text(long).startswith('save(text="xxxx')


def test_an_abandoned_call_shows_how_long_it_has_run():
    hangs = call("save", CallStatus.ABANDONED, started_at=time.time() - 2)
    text, _ = play([ToolFinished(hangs)], environ={"TERM": "dumb"})
    assert text.startswith("■ save() abandoned after 2.")


def test_words_are_counted_across_pieces():
    pieces = ["On", "ce upon", " a", " ", "time", "", "ly\n", "end"]
    _, renderer = play(map(TextDelta, pieces), environ={})
    assert renderer.amount.words == len("".join(pieces).split())


def test_thinking_is_apart_from_the_text_and_only_shown_if_asked_for():
    events = [ThinkingDelta("hm"), ThinkingDelta("m"), TextDelta("Yes.")]
    assert play(events, environ={"TERM": "dumb"}, shows_thinking=True)[0] == "hmm\nYes."
    assert play(events, environ={"TERM": "dumb"})[0] == "Yes."


def test_an_attempt_that_is_void_is_said():
    text, _ = play([TextDelta("half"), AttemptReset(1), TextDelta("whole")], environ={"TERM": "dumb"})
    assert text.splitlines()[1] == "that attempt failed, another begins: what it said is void"


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (WaitStarted(5.0, "rate_limit"), "⋯ rate limited, trying again in 5 s (Ctrl-C stops)"),
        (WaitStarted(2.04, "retry"), "⋯ the request failed, trying again in 2 s (Ctrl-C stops)"),
        (WaitStarted(40, "gate"), "⋯ held back by the rate gate, asking in 40 s (Ctrl-C stops)"),
        (WaitStarted(None, "gate"), "⋯ held back by the rate gate (Ctrl-C stops)"),
        (WaitStarted(3, "quota"), "⋯ quota, asking in 3 s (Ctrl-C stops)"),
    ],
    ids=str,
)
def test_a_wait_is_shown_with_how_long_and_why(event, line):
    assert play([event], environ={"TERM": "dumb"})[0].splitlines() == [line]
    shown, _ = play([event, TextDelta("Yes.")], environ={"TERM": "xterm"})
    assert line in shown
    assert shown.endswith("\x1b[KYes.")


@pytest.mark.parametrize(
    "event",
    [
        *STORY,
        WaitStarted(2.0, "retry"),
        RunStarted("run_1"),
        ThinkingDelta("hm"),
        AttemptReset(1),
        StragglerEnded("r", straggler(), "x", None),
    ],
)
def test_every_event_is_json(event):
    import json

    value = json.loads(json.dumps(event_to_json(event)))
    assert value["event"] == type(event).__name__
    assert set(value) - {"event"} == set(event.__dataclass_fields__)


@pytest.mark.parametrize(("answer", "again"), [("allowed", True), ("denied", False), ("withdrawn", False)])
def test_the_line_of_a_call_makes_room_for_the_question_and_comes_back_with_a_yes(answer, *, again):
    events = [ToolStarted(SAVE), ApprovalRequested(SAVE), ApprovalEnded(SAVE, answer)]
    text, _ = play(events, environ={"TERM": "xterm"})
    before, erased, after = text.partition("\r\x1b[K")
    assert 'save(path="x", n=1)' in before
    assert erased
    assert ('save(path="x", n=1)' in after) is again
