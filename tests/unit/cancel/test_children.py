"""Children and any_of: who is cancelled with whom, and who is kept alive by being observed."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from loopctl.cancel import CancelSignal, later_causes, watch
from loopctl.errors import UsageError
from loopctl.record import CancelReason, Urgency
from tests.unit.cancel.interrupts import PlainLoop


def test_a_child_is_cancelled_with_its_parent_and_carries_its_reason():
    signal = CancelSignal()
    child, grandchild = signal.child(), signal.child().child()
    reason = CancelReason("shutdown", "bye")
    signal.cancel(reason)
    assert child.reason is reason
    assert grandchild.reason is reason
    assert child.cancel("own") is False


def test_a_childs_own_cancel_does_not_reach_its_parent_or_its_siblings():
    """Case D4 (at the signal): cancelling one of two leaves the other untouched."""
    signal = CancelSignal()
    child, sibling = signal.child(), signal.child()
    assert child.cancel("own") is True
    assert not signal.is_cancelled()
    assert not sibling.is_cancelled()
    assert signal.cancel("parent") is True
    assert (child.reason.message, sibling.reason.message) == ("own", "parent")


def test_a_child_of_a_token_is_a_child_of_that_firing_only():
    signal = CancelSignal()
    child = signal.token.child()
    signal.cancel("first")
    signal.reset()
    signal.cancel("second", urgency=Urgency.ABANDON)
    assert (child.reason.message, child.urgency) == ("first", Urgency.STOP)


def test_a_child_of_a_cancelled_signal_is_born_cancelled():
    signal = CancelSignal()
    signal.cancel("before")
    assert signal.child().child().reason == CancelReason("user", "before")


def test_the_whole_tree_is_marked_before_anything_runs():
    signal = CancelSignal()
    sides = [signal]
    for depth in range(30):
        sides.append(sides[depth // 2].child())
    seen = []
    for side in sides:
        side.on_cancel(lambda: seen.append(all(other.is_cancelled() and other.reason for other in sides)))
    signal.cancel()
    assert seen == [True] * len(sides)


def test_a_dropped_unobserved_child_leaves_nothing_in_its_parent():
    signal = CancelSignal()
    children = [signal.child() for _ in range(10)]
    registration = children[3].on_cancel(print)
    del children
    assert len(signal.token._kids) == 1
    registration.close()
    del registration
    assert (len(signal.token._kids), len(signal.token._pins)) == (0, 0)


def test_an_observed_anonymous_grandchild_survives_and_is_told():
    signal = CancelSignal()
    seen = []
    signal.child().child().on_cancel(lambda: seen.append(1))
    gc.collect()
    signal.cancel()
    assert seen == [1]
    gc.collect()
    assert (signal.token._kids, signal.token._pins) == ({}, {})


def test_a_watched_or_timed_anonymous_child_survives():
    signal, loop = CancelSignal(), PlainLoop()
    seen = []
    watch(signal.child(), loop, lambda: seen.append("watched"))
    timed = signal.child().cancel_after(3600)
    gc.collect()
    assert len(signal.token._kids) == 2
    signal.cancel()
    loop.turn()
    assert seen == ["watched"]
    assert timed.close() is True
    assert not signal.token._pins


def test_a_child_that_only_a_task_or_a_thread_waits_for_survives():
    async def main():
        signal = CancelSignal()
        task = asyncio.ensure_future(signal.child().notified())
        thread = threading.Thread(target=signal.child().wait)
        thread.start()
        while len(signal.token._pins) < 2:
            await asyncio.sleep(0)
        gc.collect()
        signal.cancel("both")
        assert (await task).message == "both"
        thread.join()
        assert not signal.token._pins

    asyncio.run(main())


def test_a_dropped_tree_is_collected_with_what_observed_it():
    signal = CancelSignal()
    signal.child().on_cancel(print)
    signal.child().child().on_cancel(print)
    before = sum(isinstance(thing, CancelSignal | type(signal.token)) for thing in gc.get_objects())
    del signal
    gc.collect()
    after = sum(isinstance(thing, CancelSignal) for thing in gc.get_objects())
    assert before > after


def test_any_of_fires_with_the_first_of_them_and_its_reason():
    first, second = CancelSignal(), CancelSignal()
    either = CancelSignal.any_of(first, second)
    second.cancel("second")
    first.cancel("first")
    assert either.reason.message == "second"
    assert later_causes(either) == (CancelReason("user", "first"),)


def test_any_of_takes_the_one_that_fired_first_not_the_one_named_first():
    early, late = CancelSignal(), CancelSignal()
    early.cancel("early")
    late.cancel("late")
    assert CancelSignal.any_of(late, CancelSignal(), early).reason.message == "early"


def test_any_of_a_child_goes_by_the_time_of_the_root_cause():
    parent, other = CancelSignal(), CancelSignal()
    parent.cancel("parent")
    other.cancel("other")
    child = parent.child()
    assert CancelSignal.any_of(other, child).reason.message == "parent"


def test_any_of_reaches_none_of_its_parents():
    first, second = CancelSignal(), CancelSignal()
    assert CancelSignal.any_of(first, second.token).cancel() is True
    assert not first.is_cancelled()
    assert not second.is_cancelled()


def test_any_of_takes_tokens_repetitions_and_nothing():
    signal = CancelSignal()
    either = CancelSignal.any_of(signal, signal.token, signal.child(), signal)
    assert len(either.token._parents) == 2
    assert CancelSignal.any_of().cancel() is True
    signal.cancel("once")
    assert either.reason.message == "once"
    assert later_causes(either) == ()


@pytest.mark.parametrize("wrong", [None, "signal", 3, object(), CancelSignal])
def test_any_of_what_is_no_signal_is_refused(wrong):
    with pytest.raises(UsageError, match="a CancelSignal or a CancelToken is needed"):
        CancelSignal.any_of(CancelSignal(), wrong)


def test_an_observed_any_of_is_kept_by_each_of_its_parents():
    for which in (0, 1):
        parents = [CancelSignal(), CancelSignal()]
        seen = []
        CancelSignal.any_of(*parents).on_cancel(lambda seen=seen: seen.append(1))
        gc.collect()
        parents[which].cancel()
        assert seen == [1]
        assert all(not parent.token._pins for parent in parents)


def test_a_child_that_is_reset_alone_is_still_cancelled_with_its_parent():
    signal = CancelSignal()
    child = signal.child()
    child.cancel("own")
    child.reset()
    assert not child.is_cancelled()
    signal.cancel("parent")
    assert child.reason.message == "parent"


def test_a_reset_child_of_a_cancelled_parent_has_no_parent_any_more():
    fired, silent = CancelSignal(), CancelSignal()
    either = CancelSignal.any_of(fired, silent)
    fired.cancel("fired")
    either.reset()
    assert not either.is_cancelled()
    silent.cancel("silent")
    assert either.reason.message == "silent"


def test_one_of_two_signals_that_ends_takes_nothing_from_the_other():
    """Case D3 (at the signal): two are cancelled, one is reset first; the other is still cancelled."""
    first, second = CancelSignal(), CancelSignal()
    runs = [CancelSignal.any_of(side, CancelSignal()) for side in (first, second)]
    first.cancel("first")
    second.cancel("second")
    first.reset()
    assert second.is_cancelled()
    assert [run.reason.message for run in runs] == ["first", "second"]
