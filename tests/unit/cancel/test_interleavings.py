"""Deterministic interleavings: another party acts just before or just after one table operation."""

from __future__ import annotations

import functools
import itertools
import threading
import time

import pytest

from loopctl.cancel import CancelSignal, seal, watch
from loopctl.cancel._latch import Cause
from loopctl.record import CancelReason, Urgency
from tests.unit.cancel.interrupts import Interrupt, PlainLoop, sweep


class Trap(dict):
    """A table that acts once, around its first use by *method*."""

    def __init__(self, content, method, when, action):
        super().__init__(content)
        self._method, self._when, self._action = method, when, action

    def _around(self, method, work):
        action, is_mine = self._action, method == self._method
        if is_mine:
            self._action = None
        if is_mine and action and self._when == "before":
            action()
        result = work()
        if is_mine and action and self._when == "after":
            action()
        return result

    def __setitem__(self, key, value):
        return self._around("insert", lambda: super(Trap, self).__setitem__(key, value))

    def setdefault(self, key, value):
        return self._around("claim", lambda: super(Trap, self).setdefault(key, value))

    def values(self):
        return self._around("list", lambda: list(super(Trap, self).values()))

    def pop(self, key, *default):
        return self._around("remove", lambda: super(Trap, self).pop(key, *default))


def trap(latch, table, method, when, action):
    setattr(latch, table, Trap(getattr(latch, table), method, when, action))


both = pytest.mark.parametrize("when", ["before", "after"])


@both
@pytest.mark.parametrize("table", ["_entries", "_pins"])
def test_a_cancel_around_the_insert_of_a_callback_is_not_missed(when, table):
    signal, called = CancelSignal(), []
    child = signal.child()
    trap(child.token if table == "_entries" else signal.token, table, "insert", when, signal.cancel)
    registration = child.on_cancel(lambda: called.append(1))
    assert called == [1]
    assert registration.close() is False
    assert not signal.token._pins


@both
def test_a_cancel_around_the_insert_of_a_watch_is_not_missed(when):
    signal, loop, called = CancelSignal(), PlainLoop(), []
    trap(signal.token, "_entries", "insert", when, signal.cancel)
    watch(signal, loop, lambda: called.append(1))
    loop.turn()
    assert called == [1]


@both
def test_a_cancel_around_the_insert_of_a_waiting_thread_is_not_missed(when):
    signal = CancelSignal()
    trap(signal.token, "_entries", "insert", when, signal.cancel)
    assert signal.wait() is True


@both
def test_a_cancel_around_the_insert_of_a_deadline_ends_it(when):
    signal = CancelSignal()
    trap(signal.token, "_entries", "insert", when, signal.cancel)
    assert signal.cancel_after(3600).close() is True
    assert not signal.token._entries


@both
def test_a_rise_around_the_insert_of_a_callback_is_not_missed(when):
    signal, called = CancelSignal(), []
    signal.cancel(urgency=Urgency.DRAIN)
    trap(signal.token, "_entries", "insert", when, signal.cancel)
    signal.on_cancel(lambda: called.append(1), at_least=Urgency.STOP)
    assert called == [1]


@both
def test_a_cancel_around_the_link_of_a_child_is_not_missed(when):
    for make in (CancelSignal.child, lambda parent: CancelSignal.any_of(CancelSignal(), parent)):
        signal = CancelSignal()
        trap(signal.token, "_kids", "insert", when, functools.partial(signal.cancel, "around"))
        assert make(signal).reason.message == "around"


@both
def test_a_rise_around_the_link_of_a_child_is_not_missed(when):
    signal = CancelSignal()
    signal.cancel("drain", urgency=Urgency.DRAIN)
    trap(signal.token, "_kids", "insert", when, functools.partial(signal.cancel, urgency=Urgency.ABANDON))
    child = signal.child()
    assert (child.reason.message, child.urgency) == ("drain", Urgency.ABANDON)


@both
def test_a_seal_around_the_link_of_a_child_leaves_no_link(when):
    signal = CancelSignal()
    run = signal.child()
    trap(run.token, "_kids", "insert", when, functools.partial(seal, run))
    child = run.child()
    child.on_cancel(print)
    assert (run.token._kids, signal.token._pins, child.token._roots) == ({}, {}, ())


@both
@pytest.mark.parametrize("table", ["_entries", "_pins"])
def test_a_seal_around_an_insert_leaves_no_pin(when, table):
    signal = CancelSignal()
    run = signal.child()
    trap(run.token if table == "_entries" else signal.token, table, "insert", when, functools.partial(seal, run))
    run.on_cancel(print)
    assert not signal.token._pins


@both
@pytest.mark.parametrize("table", ["_entries", "_kids"])
def test_a_registration_around_the_listing_of_a_cancel_is_not_missed(when, table):
    signal, loop, called, woken = CancelSignal(), PlainLoop(), [], []
    children = []

    def register():
        signal.on_cancel(lambda: called.append(1))
        children.append(signal.child())
        children[0].on_cancel(lambda: called.append(2))
        watch(signal, loop, lambda: woken.append(1))

    trap(signal.token, table, "list", when, register)
    signal.cancel("late")
    loop.turn()
    assert sorted(called) == [1, 2]
    assert woken == [1]
    assert children[0].reason.message == "late"


@both
def test_a_close_around_the_listing_of_a_cancel_wins_or_loses_and_never_both(when):
    signal, called, closed = CancelSignal(), [], []
    registration = signal.on_cancel(lambda: called.append(1))
    trap(signal.token, "_entries", "list", when, lambda: closed.append(registration.close()))
    signal.cancel()
    assert (closed, called) in (([True], []), ([False], [1]))


@both
@pytest.mark.parametrize("other", ["cancel", "seal"])
def test_two_claims_at_once_have_one_winner(when, other):
    signal, told, called = CancelSignal(), {}, []
    signal.on_cancel(lambda: called.append(1))

    def act():
        told["other"] = seal(signal) if other == "seal" else signal.cancel("other")

    trap(signal.token, "_claims", "claim", when, act)
    told["own"] = signal.cancel("own")
    assert told == {"own": when == "after", "other": when == "before"}
    assert called == ([] if (when, other) == ("before", "seal") else [1])


@both
def test_a_rise_against_a_seal_has_one_winner(when):
    for order in ("rise first", "seal first"):
        signal, told = CancelSignal(), {}
        signal.cancel(urgency=Urgency.DRAIN)
        run, rise = functools.partial(seal, signal), functools.partial(signal.cancel, urgency=Urgency.ABANDON)
        first, second = (rise, run) if order == "rise first" else (run, rise)
        trap(signal.token, "_claims", "claim", when, lambda second=second, told=told: told.update(second=second()))
        told["first"] = first()
        has_risen = told["first"] if order == "rise first" else told["second"]
        assert signal.urgency is (Urgency.ABANDON if has_risen else Urgency.DRAIN)
        assert signal.cancel(urgency=Urgency.ABANDON) is False


@both
@pytest.mark.parametrize("action", ["reset", "reset and cancel", "cancel"])
def test_two_resets_at_once_swap_once(when, action):
    signal, told = CancelSignal(), []
    signal.cancel("old")

    def act():
        if "reset" in action:
            signal.reset()
        if "cancel" in action:
            told.append((signal.cancel("pending"), signal.token))

    signal._tokens = Trap(signal._tokens, "claim", when, act)
    signal.reset()
    changed, token = told[0] if told else (False, None)
    assert signal.is_cancelled() is changed
    assert not changed or (signal.token is token and signal.reason.message == "pending")


def test_a_slow_reset_that_enters_its_token_far_too_late_changes_nothing():
    signal = CancelSignal()
    signal.cancel("0")

    def overtake():
        for number in range(5):
            signal.reset()
            signal.cancel(str(number))

    signal._tokens = Trap(signal._tokens, "claim", "before", overtake)
    signal.reset()
    assert (signal.is_cancelled(), signal.reason.message) == (True, "4")
    signal.reset()
    assert (signal.is_cancelled(), len(signal._tokens)) == (False, 1)


def test_at_each_line_of_a_cancel_another_thread_finds_a_whole_state_and_can_finish_the_job():
    """The other thread's cancel loses, helps, and when it returns the tree is marked and woken."""

    def scenario(at):
        signal, loop, woken, called = CancelSignal(), PlainLoop(), [], []
        sides = [signal, signal.child(), signal.child().child()]
        for number, side in enumerate(sides):
            watch(side, loop, functools.partial(woken.append, number))
            side.on_cancel(functools.partial(called.append, number))

        def meanwhile():
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()

        def other():
            signal.cancel("other")
            assert all(side.is_cancelled() and side.reason is signal.reason for side in sides)
            loop.turn()
            seen.append(sorted(woken) == [0, 1, 2])

        seen = []
        interrupt = Interrupt(at, meanwhile)
        with interrupt.armed():
            signal.cancel("own")
        assert seen == [True] * (interrupt.place is not None)
        assert sorted(called) == [0, 1, 2]
        return interrupt

    sweep(scenario, least=80)


def test_at_each_line_of_a_cancel_a_second_one_of_another_side_finds_its_way():
    """Two sides of a diamond at once, at each line: the bottom fires once, and both causes are known there."""
    for urgencies in itertools.product(Urgency, repeat=2):

        def scenario(at, urgencies=urgencies):
            left, right = CancelSignal(), CancelSignal()
            bottom = CancelSignal.any_of(left, right)
            below, called = bottom.child(), []
            below.on_cancel(lambda: called.append(1))
            interrupt = Interrupt(at, functools.partial(right.cancel, "right", urgency=urgencies[1]))
            with interrupt.armed():
                left.cancel("left", urgency=urgencies[0])
            if interrupt.place is None:
                right.cancel("right", urgency=urgencies[1])
            assert below.reason is bottom.reason
            assert bottom.reason.message in {"left", "right"}
            assert (bottom.urgency, below.urgency) == (max(urgencies), max(urgencies))
            assert called == [1]
            return interrupt

        sweep(scenario, least=40)


def test_a_helper_carries_a_torn_rise_on_through_a_diamond():
    """The bottom is walked by its short side before its long side brings the rise: it is walked again."""
    top = CancelSignal()
    left, right = top.child(), top.child().child()
    bottom = CancelSignal.any_of(left, right)
    below = bottom.child()
    right.cancel("right", urgency=Urgency.DRAIN)
    right.token._claim(Cause(CancelReason("user", "torn"), time.monotonic(), 3))
    assert below.urgency is Urgency.DRAIN
    top.cancel("top", urgency=Urgency.DRAIN)
    assert [side.urgency for side in (top, left, right, bottom, below)] == [1, 1, 3, 3, 3]


def test_a_seal_at_any_line_of_making_an_observed_child_leaves_nothing_above_it():
    def scenario(at):
        signal = CancelSignal()
        run = signal.child()
        interrupt = Interrupt(at, functools.partial(seal, run))
        with interrupt.armed():
            child = run.child()
            child.on_cancel(print)
            child.child().on_cancel(print)
        if interrupt.place is None:
            seal(run)
        assert (signal.token._pins, child.token._roots, child.token._parents) == ({}, (), ())
        assert len(child.token._pins) == 1
        assert child.cancel() is True
        return interrupt

    assert sweep(scenario, least=40) >= {"link", "_take_roots", "_roots_above", "attach"}


def test_two_rises_at_once_have_one_winner_at_whatever_step_they_meet():
    def scenario(at):
        signal, told = CancelSignal(), []
        signal.cancel(urgency=Urgency.DRAIN)
        interrupt = Interrupt(at, lambda: told.append(signal.cancel("other", urgency=Urgency.ABANDON)), "opcode")
        with interrupt.armed():
            told.append(signal.cancel("own", urgency=Urgency.ABANDON))
        assert told.count(True) == 1
        assert signal.urgency is Urgency.ABANDON
        return interrupt

    sweep(scenario, least=200)


def test_the_urgency_stays_what_it_was_when_the_seal_returned_at_whatever_step_a_rise_meets_it():
    def scenario(at):
        signal, told = CancelSignal(), []
        signal.cancel(urgency=Urgency.DRAIN)
        interrupt = Interrupt(at, lambda: told.append((seal(signal), signal.urgency)), "opcode")
        with interrupt.armed():
            has_risen = signal.cancel(urgency=Urgency.ABANDON)
        if interrupt.place is not None:
            assert told == [(False, Urgency.ABANDON if has_risen else Urgency.DRAIN)]
            assert signal.urgency is told[0][1]
        return interrupt

    sweep(scenario, least=100)


def test_at_no_step_of_a_cancel_is_its_urgency_seen_on_its_way():
    def scenario(at):
        signal = CancelSignal()
        child = signal.child()
        seen = []

        def look():
            for side in (signal, child):
                polls = [side.is_cancelled(urgency) for urgency in Urgency]
                seen.append((side.urgency, side.reason is not None, *polls))

        interrupt = Interrupt(at, look, "opcode")
        with interrupt.armed():
            signal.cancel(urgency=Urgency.ABANDON)
        assert set(seen) <= {(None, *[False] * 4), (Urgency.ABANDON, *[True] * 4)}
        return interrupt

    sweep(scenario, least=200)
