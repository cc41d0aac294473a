"""What the engine asks: watch, seal, fired_at, later_causes."""

from __future__ import annotations

import gc
import time

import pytest

from loopctl.cancel import CancelSignal, fired_at, later_causes, seal, watch
from loopctl.cancel._latch import Cause
from loopctl.errors import UsageError
from loopctl.record import CancelReason, Urgency
from tests.unit.cancel.interrupts import PlainLoop


def messages(signal):
    return [reason.message for reason in later_causes(signal)]


def test_a_sealed_signal_can_never_be_cancelled():
    signal = CancelSignal()
    seen = []
    registration = signal.on_cancel(lambda: seen.append(1))
    child = signal.child()
    assert seal(signal) is True
    assert seal(signal) is True
    assert signal.cancel() is False
    assert signal.cancel(urgency=Urgency.ABANDON) is False
    assert (signal.is_cancelled(), signal.reason, signal.urgency, seen) == (False, None, None, [])
    assert signal.wait(0.001) is False
    assert (fired_at(signal), later_causes(signal)) == (None, ())
    assert not child.is_cancelled()
    assert registration.close() is True
    assert "sealed" in repr(signal)


def test_a_parents_firing_passes_a_sealed_child_by_and_all_below_it():
    signal = CancelSignal()
    run, sibling = signal.child(), signal.child()
    below = run.child()
    assert seal(run.token) is True
    assert signal.cancel() is True
    assert [side.is_cancelled() for side in (signal, run, below, sibling)] == [True, False, False, True]
    assert below.cancel("own") is True


def test_sealing_a_fired_signal_says_so_and_freezes_it():
    signal = CancelSignal()
    run = CancelSignal.any_of(signal, CancelSignal())
    signal.cancel("first", urgency=Urgency.DRAIN)
    run.cancel("second", urgency=Urgency.STOP)
    assert seal(run) is False
    assert seal(run) is False
    assert run.cancel("third", urgency=Urgency.ABANDON) is False
    assert signal.cancel("fourth", urgency=Urgency.ABANDON) is True
    assert (run.reason.message, run.urgency, messages(run)) == ("first", Urgency.STOP, ["second"])


def test_sealing_a_signal_whose_cancel_has_only_just_claimed_it_makes_the_reason_readable():
    signal = CancelSignal()
    run, loop, seen = signal.child(), PlainLoop(), []
    below = run.child()
    watch(run, loop, lambda: seen.append("watch"))
    run.token._claim(Cause(CancelReason("user", "torn"), time.monotonic(), 2))
    assert not run.is_cancelled()
    assert seal(run) is False
    assert (run.reason.message, below.reason.message) == ("torn", "torn")
    loop.turn()
    assert seen == ["watch"]


def test_callbacks_of_a_cancel_that_is_overtaken_by_a_seal_still_run():
    signal = CancelSignal()
    seen = []
    signal.on_cancel(lambda: seen.append("older"))
    signal.on_cancel(lambda: seen.append(seal(signal)))
    assert signal.cancel() is True
    assert seen == [False, "older"]


def test_a_registration_on_a_sealed_signal_is_kept_nowhere():
    signal = CancelSignal()
    run = signal.child()
    seal(run)
    registration = run.on_cancel(print)
    deadline = run.cancel_after(3600)
    assert not run.token._entries
    assert not signal.token._pins
    assert (registration.close(), deadline.close()) == (True, True)


def test_a_sealed_run_leaves_nothing_in_the_signals_it_hung_on():
    """Tools may leave registrations and children behind; the session's signal outlives a million such runs."""
    session = CancelSignal()
    for number in range(50):
        run = CancelSignal.any_of(session, CancelSignal())
        run.on_cancel(print)
        run.child().child().on_cancel(print)
        run.cancel_after(3600)
        if number % 2:
            run.cancel(urgency=Urgency.DRAIN)
            run.on_cancel(print, at_least=Urgency.ABANDON)
        seal(run)
    assert (session.token._kids, session.token._pins) == ({}, {})
    gc.collect()


def test_what_hangs_on_another_parent_too_stays_when_one_is_sealed():
    session = CancelSignal()
    run, other = session.child(), session.child()
    seen = []
    CancelSignal.any_of(run.child(), other).child().on_cancel(lambda: seen.append(1))
    run.child().on_cancel(lambda: seen.append("never"))
    seal(run)
    gc.collect()
    session.cancel()
    assert seen == [1]


def test_what_hangs_below_a_sealed_one_can_still_be_cancelled_from_below():
    session = CancelSignal()
    run = session.child()
    below = run.child()
    seen = []
    below.child().on_cancel(lambda: seen.append(1))
    seal(run)
    gc.collect()
    assert not session.token._pins
    below.cancel()
    assert seen == [1]


def test_a_child_of_a_sealed_signal_follows_nobody():
    signal = CancelSignal()
    run = signal.child()
    seal(run)
    late = run.child()
    signal.cancel()
    assert not late.is_cancelled()
    assert not run.token._kids


def test_later_causes_are_kept_in_order_without_repeats():
    """Case E10: a watchdog's verdict does not overwrite a user stop that came first; it is kept as secondary."""
    signal = CancelSignal()
    run = CancelSignal.any_of(signal, CancelSignal())
    stall = CancelReason("stall", "no event for 60 s", requested_by="watchdog")
    signal.cancel("user pressed stop")
    for reason in (stall, "user pressed stop", "again", stall, "again"):
        assert run.cancel(reason) is False
    assert run.reason == CancelReason("user", "user pressed stop")
    assert later_causes(run) == (stall, CancelReason("user", "again"))
    assert later_causes(signal) == ()


def test_later_causes_also_come_from_a_parent_whether_they_changed_something_there_or_not():
    signal, other = CancelSignal(), CancelSignal()
    run = CancelSignal.any_of(signal, other)
    below = run.child()
    run.cancel("own")
    signal.cancel("parent")
    signal.cancel("parent again")
    other.cancel("other", urgency=Urgency.ABANDON)
    assert messages(run) == messages(below) == ["parent", "parent again", "other"]
    assert messages(signal) == ["parent again"]


def test_later_causes_are_bounded():
    signal = CancelSignal()
    for number in range(100):
        signal.cancel(str(number))
    assert messages(signal) == [str(number) for number in range(1, 33)]
    assert len(signal.token._later) == 32


def test_fired_at_is_the_time_of_the_root_cause():
    signal = CancelSignal()
    child = signal.child()
    assert fired_at(child) is None
    before = time.monotonic()
    signal.cancel()
    after = time.monotonic()
    signal.cancel(urgency=Urgency.ABANDON)
    late = signal.child()
    assert before <= fired_at(signal) <= after
    assert fired_at(signal.token) == fired_at(child) == fired_at(late)


def test_one_cancel_hands_a_loop_everything_in_a_single_call():
    signal, loops, seen = CancelSignal(), [PlainLoop(), PlainLoop()], []
    children = [signal.child() for _ in range(20)]
    for number, child in enumerate(children):
        for loop in loops:
            watch(child, loop, lambda number=number: seen.append(number))
    signal.cancel()
    assert [len(loop.calls) for loop in loops] == [1, 1]
    for loop in loops:
        loop.turn()
    assert seen == [*range(20), *range(20)]
    assert not signal.token._pins


def test_a_watch_on_a_fired_token_is_scheduled_and_not_run_inline():
    signal, loop, seen = CancelSignal(), PlainLoop(), []
    signal.cancel()
    watch(signal, loop, lambda: seen.append(1))
    assert (seen, len(loop.calls)) == ([], 1)
    loop.turn()
    assert seen == [1]


def test_a_watch_can_be_called_off_until_its_loop_comes_to_it():
    signal, loop, seen = CancelSignal(), PlainLoop(), []
    first, second = (watch(signal, loop, lambda number=number: seen.append(number)) for number in (1, 2))
    signal.cancel()
    assert first.close() is True
    loop.turn()
    assert seen == [2]
    assert second.close() is False


def test_a_watch_takes_the_current_token_of_a_signal():
    signal, loop, seen = CancelSignal(), PlainLoop(), []
    watch(signal, loop, lambda: seen.append("old"))
    signal.cancel()
    signal.reset()
    watch(signal, loop, lambda: seen.append("new"))
    loop.turn()
    assert seen == ["old"]


@pytest.mark.parametrize("call", [seal, fired_at, later_causes, lambda wrong: watch(wrong, PlainLoop(), print)])
def test_what_is_no_signal_is_refused(call):
    with pytest.raises(UsageError, match="a CancelSignal or a CancelToken is needed, not None"):
        call(None)


def test_an_error_on_the_loop_is_logged_and_stops_nothing(caplog):
    signal, loop, seen = CancelSignal(), PlainLoop(), []
    watch(signal, loop, lambda: 1 / 0)
    watch(signal, loop, lambda: seen.append(1))
    signal.cancel()
    loop.turn()
    assert seen == [1]
    assert "ZeroDivisionError" in caplog.text


def test_what_a_keyboard_interrupt_on_the_loop_left_undone_is_done_in_its_next_turn():
    signal, loop, seen = CancelSignal(), PlainLoop(), []

    def interrupt():
        raise KeyboardInterrupt

    watch(signal, loop, interrupt)
    watch(signal, loop, lambda: seen.append(1))
    signal.cancel()
    with pytest.raises(KeyboardInterrupt):
        loop.turn()
    assert seen == []
    loop.turn()
    assert seen == [1]
