"""What Ctrl-C and SIGTERM mean at each moment."""

from __future__ import annotations

import pytest

from loopctl.cli import _presses
from loopctl.cli._presses import LeaveWarning, Presses
from loopctl.record import Urgency
from tests.unit.cli.records import CTRL_C, SIGTERM


class Ended(BaseException):
    """The process would have ended."""


@pytest.fixture(autouse=True)
def end(monkeypatch):
    def end_now(code):
        raise Ended(code)

    monkeypatch.setattr(_presses, "end_now", end_now)


def ends(presses, reason):
    try:
        presses(reason)
    except Ended as ended:
        return ended.args[0]
    return None


def test_while_it_starts_a_signal_ends_the_process():
    assert ends(Presses(), CTRL_C) == 130
    assert ends(Presses(), SIGTERM) == 143


STOP, ABANDON = Urgency.STOP, Urgency.ABANDON


class Running:
    """What runs, with the cancels that it got."""

    def __init__(self):
        self.got = []

    def cancel(self, reason, *, urgency):
        self.got.append((reason, urgency))


@pytest.mark.parametrize(
    ("signals", "got", "code"),
    [
        ([CTRL_C, CTRL_C, CTRL_C], [(CTRL_C, STOP), (CTRL_C, ABANDON)], 130),
        ([CTRL_C, CTRL_C, SIGTERM, SIGTERM], [(CTRL_C, STOP), (CTRL_C, ABANDON), (SIGTERM, STOP)], 143),
        ([CTRL_C, SIGTERM, CTRL_C, CTRL_C], [(CTRL_C, STOP), (SIGTERM, STOP), (CTRL_C, ABANDON)], 143),
        ([SIGTERM, CTRL_C, CTRL_C], [(SIGTERM, STOP), (CTRL_C, ABANDON)], 143),
        ([SIGTERM, SIGTERM], [(SIGTERM, STOP)], 143),
    ],
)
def test_while_something_runs_each_signal_presses_harder_and_the_last_ends_the_process(signals, got, code):
    presses, running = Presses(), Running()
    *before, last = signals
    with presses.chatting(), presses.running(running.cancel):
        assert [ends(presses, reason) for reason in before] == [None] * len(before)
        assert ends(presses, last) == code
    assert running.got == got


def test_each_run_has_its_own_first_press():
    presses, running = Presses(), Running()
    with presses.chatting():
        for _ in range(3):
            with presses.running(running.cancel):
                assert ends(presses, CTRL_C) is None
    assert running.got == [(CTRL_C, STOP)] * 3
    assert not presses.take()


def test_sigterm_is_remembered_until_the_run_has_ended():
    presses = Presses()
    with presses.chatting(), presses.running(Running().cancel):
        ends(presses, SIGTERM)
    assert presses.is_terminated


def test_a_press_that_loses_against_the_end_of_the_run_ends_nothing():
    presses = Presses()
    with presses.chatting(), presses.running(lambda _, **__: False):
        assert ends(presses, CTRL_C) is None


def test_at_the_prompt_a_signal_wakes_it_and_is_taken_once():
    presses, woken = Presses(), []
    with presses.chatting(), presses.prompting(lambda: woken.append(1)):
        assert ends(presses, CTRL_C) is None
        assert woken == [1]
        assert (presses.take(), presses.take()) == (True, False)
        assert ends(presses, SIGTERM) is None
        assert woken == [1, 1]
        assert presses.is_terminated
        assert not presses.take()


def test_between_runs_a_press_waits_for_the_prompt():
    presses = Presses()
    with presses.chatting():
        assert ends(presses, CTRL_C) is None
        assert presses.take()


def test_a_second_sigterm_ends_the_process_wherever_it_is():
    presses = Presses()
    with presses.chatting():
        assert ends(presses, SIGTERM) is None
        assert ends(presses, SIGTERM) == 143


def test_a_press_between_a_message_and_its_run_stops_that_run():
    presses, running = Presses(), Running()
    with presses.chatting():
        presses.press()
        with presses.running(running.cancel):
            assert running.got == [(CTRL_C, STOP)]
            assert ends(presses, CTRL_C) is None
            assert ends(presses, CTRL_C) == 130
        assert not presses.take()


def test_who_leaves_is_told_what_is_left_and_gets_the_terminal_back(monkeypatch):
    class Listener:
        def begun(self, *, is_typed):
            said.append(is_typed)

        def abandoned(self):
            said.append("abandoned")

        def last_words(self):
            return "left: save"

    presses, said = Presses(), []
    monkeypatch.setattr(_presses, "say_at_once", said.append)
    presses.put_back = lambda: said.append("put back")
    with presses.running(Running().cancel, Listener()):
        assert ends(presses, CTRL_C) is None
        assert ends(presses, CTRL_C) is None
        assert ends(presses, CTRL_C) == 130
    assert said == [True, "abandoned", "\nleft: save\n", "put back"]


def test_a_warning_holds_until_something_else_is_done_or_some_seconds_have_passed():
    now = [100.0]
    warning = LeaveWarning(lambda: now[0])
    assert not warning.is_armed
    warning.arm()
    now[0] += 4.9
    assert warning.is_armed
    now[0] += 0.2
    assert not warning.is_armed
    warning.arm()
    warning.disarm()
    assert not warning.is_armed
