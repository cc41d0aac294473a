"""The urgency only rises; each waiter and each callback may ask for a least one."""

from __future__ import annotations

import asyncio

import pytest

from loopctl.cancel import CancelSignal, later_causes, watch
from loopctl.record import CancelReason, Urgency
from tests.unit.cancel.interrupts import PlainLoop

DRAIN, STOP, ABANDON = Urgency.DRAIN, Urgency.STOP, Urgency.ABANDON


def levels(side):
    return [side.is_cancelled(at_least=urgency) for urgency in Urgency]


def test_the_urgency_only_rises_and_a_rise_is_a_change():
    signal = CancelSignal()
    told = [signal.cancel(urgency=urgency) for urgency in (DRAIN, DRAIN, STOP, DRAIN, STOP, ABANDON, STOP, ABANDON)]
    assert told == [True, False, True, False, False, True, False, False]
    assert signal.urgency is ABANDON


@pytest.mark.parametrize(
    ("urgency", "expected"), [(DRAIN, [True, False, False]), (STOP, [True, True, False]), (ABANDON, [True, True, True])]
)
def test_a_poll_answers_for_the_urgency_it_asks_for(urgency, expected):
    signal = CancelSignal()
    child = signal.child()
    signal.cancel(urgency=urgency)
    assert levels(signal) == levels(signal.token) == levels(child) == expected
    assert (signal.urgency, child.urgency) == (urgency, urgency)


def test_raise_if_cancelled_asks_for_the_least_urgency_it_is_given():
    signal = CancelSignal()
    signal.cancel(urgency=DRAIN)
    signal.raise_if_cancelled(at_least=STOP)
    with pytest.raises(Exception, match="cancelled: user"):
        signal.raise_if_cancelled()


def test_a_rise_that_skips_a_level_reaches_it_too():
    signal = CancelSignal()
    seen = []
    signal.on_cancel(lambda: seen.append("stop"), at_least=STOP)
    signal.cancel(urgency=DRAIN)
    assert seen == []
    signal.cancel(urgency=ABANDON)
    assert seen == ["stop"]
    assert levels(signal) == [True, True, True]


def test_a_drain_tells_only_those_that_asked_for_a_drain():
    signal = CancelSignal()
    seen = []
    for urgency in Urgency:
        signal.on_cancel(lambda urgency=urgency: seen.append(urgency), at_least=urgency)
    signal.cancel(urgency=DRAIN)
    assert seen == [DRAIN]
    signal.cancel(urgency=STOP)
    assert seen == [DRAIN, STOP]
    signal.cancel(urgency=ABANDON)
    assert seen == [DRAIN, STOP, ABANDON]


def test_a_callback_is_called_once_in_total_however_often_the_urgency_rises():
    signal = CancelSignal()
    seen = []
    signal.on_cancel(lambda: seen.append(signal.urgency))
    for urgency in Urgency:
        signal.cancel(urgency=urgency)
    assert seen == [DRAIN]


def test_a_waiter_for_stop_sleeps_through_a_drain_and_wakes_at_the_rise():
    async def main():
        signal = CancelSignal()
        waiter = asyncio.ensure_future(signal.notified(at_least=STOP))
        drained = asyncio.ensure_future(signal.notified())
        await asyncio.sleep(0)
        signal.cancel("drain", urgency=DRAIN)
        assert await drained == CancelReason("user", "drain")
        for _ in range(20):
            await asyncio.sleep(0)
        assert not waiter.done()
        signal.cancel("stop now")
        assert await waiter == CancelReason("user", "drain")

    asyncio.run(main())


def test_a_thread_that_waits_for_stop_is_not_woken_by_a_drain():
    signal = CancelSignal()
    signal.cancel(urgency=DRAIN)
    assert signal.wait(0.01, at_least=STOP) is False
    signal.cancel(urgency=STOP)
    assert signal.wait(at_least=STOP) is True


def test_a_watch_acts_from_stop_unless_told_otherwise():
    signal, loop, seen = CancelSignal(), PlainLoop(), []
    watch(signal, loop, lambda: seen.append("stop"))
    watch(signal.token, loop, lambda: seen.append("drain"), at_least=DRAIN)
    signal.cancel(urgency=DRAIN)
    loop.turn()
    assert seen == ["drain"]
    signal.cancel()
    loop.turn()
    assert seen == ["drain", "stop"]


def test_a_rise_reaches_children_and_any_of_that_had_fired_and_their_reason_stays():
    signal, other = CancelSignal(), CancelSignal()
    child = signal.child()
    grandchild = child.child()
    either = CancelSignal.any_of(other, signal)
    seen = []
    for side in (child, grandchild, either):
        side.on_cancel(lambda: seen.append(1), at_least=ABANDON)
    child.cancel("child alone", urgency=DRAIN)
    signal.cancel("parent")
    assert seen == []
    signal.cancel("parent, harder", urgency=ABANDON)
    assert seen == [1, 1, 1]
    assert [side.urgency for side in (child, grandchild, either)] == [ABANDON] * 3
    assert [side.reason.message for side in (child, grandchild, either)] == ["child alone", "child alone", "parent"]


def test_a_child_that_is_more_urgent_than_its_parent_stays_so():
    signal = CancelSignal()
    child = signal.child()
    child.cancel(urgency=ABANDON)
    signal.cancel(urgency=DRAIN)
    assert (signal.urgency, child.urgency) == (DRAIN, ABANDON)


def test_a_second_parent_of_an_any_of_raises_its_urgency():
    first, second = CancelSignal(), CancelSignal()
    either = CancelSignal.any_of(first, second)
    first.cancel("first", urgency=DRAIN)
    second.cancel("second", urgency=ABANDON)
    assert either.reason.message == "first"
    assert either.urgency is ABANDON
    assert later_causes(either) == (CancelReason("user", "second"),)


def test_a_rise_spreads_through_a_diamond_whichever_side_is_walked_first():
    for order in (0, 1):
        top = CancelSignal()
        left, right = top.child(), top.child()
        sides = (left, right) if order else (right, left)
        bottom = CancelSignal.any_of(*sides)
        below = bottom.child()
        right.cancel("right", urgency=ABANDON)
        top.cancel("top", urgency=DRAIN)
        assert [side.urgency for side in (top, left, right, bottom, below)] == [DRAIN, DRAIN, ABANDON, ABANDON, ABANDON]


def test_a_child_made_late_has_the_urgency_its_parent_has_by_then():
    signal = CancelSignal()
    signal.cancel("first", urgency=DRAIN)
    signal.cancel("second", urgency=ABANDON)
    child = signal.child()
    assert (child.reason.message, child.urgency) == ("first", ABANDON)
