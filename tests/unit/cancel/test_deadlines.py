"""Deadlines: on the loop's clock, on the deadline thread, called off, and ended with their token."""

from __future__ import annotations

import _thread
import asyncio
import gc
import os
import threading
import time
import weakref

import pytest

from loopctl.cancel import CancelSignal, later_causes, seal
from loopctl.cancel._timer import Deadlines, deadlines
from loopctl.errors import UsageError
from loopctl.record import CancelReason, Urgency


def test_a_deadline_on_a_loop_cancels_with_its_origin():
    async def main():
        signal = CancelSignal()
        registration = signal.cancel_after(0.001)
        assert await signal.notified() == CancelReason("deadline", "0.001 s are over")
        assert registration.close() is False
        assert not signal.token._entries

    asyncio.run(main())


def test_a_deadline_without_a_loop_is_kept_by_a_thread():
    signal = CancelSignal()
    registration = signal.cancel_after(0.001)
    assert signal.wait() is True
    assert signal.reason.origin == "deadline"
    assert registration.close() is False


def test_the_reason_of_a_deadline_is_given_as_a_text_or_whole():
    first, second = CancelSignal(), CancelSignal()
    first.cancel_after(0, "too slow")
    assert first.reason == CancelReason("deadline", "too slow")
    reason = CancelReason("budget", "spent", requested_by="accounts")
    second.cancel_after(0, reason)
    assert second.reason is reason


@pytest.mark.parametrize("seconds", [0, -1, -0.5, float("-inf")])
def test_a_deadline_that_is_past_cancels_at_once(seconds):
    signal = CancelSignal()
    registration = signal.cancel_after(seconds)
    assert signal.is_cancelled()
    assert registration.close() is False


@pytest.mark.parametrize("seconds", ["5", None, float("nan"), True, object()])
def test_what_is_no_number_of_seconds_is_named_and_refused(seconds):
    signal = CancelSignal()
    with pytest.raises(UsageError, match="seconds is a number of seconds, not"):
        signal.cancel_after(seconds)
    with pytest.raises(UsageError, match="cancel reason"):
        signal.cancel_after(0, 3)
    assert not signal.is_cancelled()


def test_an_infinite_deadline_never_comes():
    signal = CancelSignal()
    registration = signal.cancel_after(float("inf"))
    assert signal.wait(0.001) is False
    assert registration.close() is True


def test_a_deadline_that_was_called_off_does_not_come():
    async def main():
        signal = CancelSignal()
        with signal.cancel_after(0.001):
            pass
        later = CancelSignal()
        later.cancel_after(0.003)
        await later.notified()
        assert not signal.is_cancelled()

    asyncio.run(main())
    signal, later = CancelSignal(), CancelSignal()
    assert signal.cancel_after(0.03).close() is True
    later.cancel_after(0.06)
    later.wait()
    assert not signal.is_cancelled()


def test_deadlines_come_in_the_order_of_their_time():
    seen, last = [], CancelSignal()
    start = time.monotonic() + 0.1
    for order in (4, 2, 3, 1, 5):
        signal = last if order == 5 else CancelSignal()
        signal.on_cancel(lambda order=order: seen.append(order))
        signal.cancel_after(start + order / 1000 - time.monotonic())
    last.wait()
    while len(seen) < 5:
        time.sleep(0.001)
    assert seen == [1, 2, 3, 4, 5]


def test_a_nearer_deadline_overtakes_one_that_the_thread_is_asleep_for():
    far, near = CancelSignal(), CancelSignal()
    registration = far.cancel_after(3600)
    near.cancel_after(0.001)
    assert near.wait() is True
    assert not far.is_cancelled()
    assert registration.close() is True


@pytest.mark.parametrize("where", ["loop", "thread"])
def test_a_deadline_keeps_an_anonymous_signal_alive_until_it_comes(where):
    async def main():
        make()
        gc.collect()
        await seen.notified()

    def make():
        CancelSignal().child().cancel_after(0.001)
        anonymous = CancelSignal().child()
        anonymous.on_cancel(seen.cancel)
        anonymous.cancel_after(0.001)

    seen = CancelSignal()
    if where == "loop":
        asyncio.run(main())
    else:
        make()
        gc.collect()
        assert seen.wait() is True


@pytest.mark.parametrize("where", ["loop", "thread"])
@pytest.mark.parametrize("end", ["cancel", "seal", "close"])
def test_a_deadline_that_ended_holds_its_token_no_longer(where, end):
    async def main():
        ref = begin()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        gc.collect()
        assert ref() is None

    def begin():
        signal = CancelSignal()
        registration = signal.cancel_after(3600)
        {"cancel": signal.cancel, "seal": lambda: seal(signal), "close": registration.close}[end]()
        return weakref.ref(signal.token)

    if where == "loop":
        asyncio.run(main())
    else:
        ref = begin()
        gc.collect()
        assert ref() is None


def test_a_deadline_ended_by_another_cancel_will_never_come_and_is_no_later_cause():
    async def main():
        signal, last = CancelSignal(), CancelSignal()
        registration = signal.cancel_after(0.001)
        signal.cancel("user")
        last.cancel_after(0.003)
        await last.notified()
        assert later_causes(signal) == ()
        assert registration.close() is True

    asyncio.run(main())


def test_a_deadline_belongs_to_the_token_that_was_current_when_it_was_made():
    signal, last = CancelSignal(), CancelSignal()
    signal.cancel_after(0.001)
    signal.cancel()
    signal.reset()
    last.cancel_after(0.003)
    last.wait()
    assert not signal.is_cancelled()


def test_a_deadline_raises_the_urgency_of_what_was_only_drained():
    signal = CancelSignal()
    signal.cancel_after(0.05)
    signal.cancel("drain", urgency=Urgency.DRAIN)
    assert signal.wait(at_least=Urgency.STOP) is True
    assert signal.reason.message == "drain"
    assert [reason.origin for reason in later_causes(signal)] == ["deadline"]


def test_a_deadline_of_a_fired_signal_is_made_and_never_comes():
    signal = CancelSignal()
    signal.cancel()
    registration = signal.cancel_after(3600)
    assert not signal.token._entries
    assert registration.close() is True


def test_a_deadline_made_on_a_loop_can_be_called_off_from_another_thread():
    async def main():
        signal = CancelSignal()
        registration = signal.cancel_after(3600)
        handle = registration._handle
        told = await asyncio.to_thread(registration.close)
        await asyncio.sleep(0)
        assert (told, handle.cancelled()) == (True, True)

    asyncio.run(main())


def test_a_deadline_outlives_its_loop_without_harm():
    async def main():
        return signal.cancel_after(3600)

    signal = CancelSignal()
    registration = asyncio.run(main())
    assert signal.cancel() is True
    assert registration.close() is True


def test_many_threads_share_one_deadline_thread():
    signals = [CancelSignal() for _ in range(200)]

    def start(part):
        for signal in part:
            signal.cancel_after(0.002)

    starters = [threading.Thread(target=start, args=(signals[first::8],)) for first in range(8)]
    for thread in starters:
        thread.start()
    for thread in starters:
        thread.join()
    assert all(signal.wait() for signal in signals)
    assert [thread.name for thread in threading.enumerate()].count("loopctl-deadlines") == 1
    assert not deadlines._pending


def test_the_deadline_thread_outlives_what_a_callback_raises(caplog):
    def leave():
        raise SystemExit

    first, second = CancelSignal(), CancelSignal()
    first.on_cancel(leave)
    first.cancel_after(0.001)
    second.cancel_after(0.002)
    assert second.wait() is True
    assert "run by the deadline thread, raised" in caplog.text


class Alarm:
    def __init__(self, key):
        self._key = key
        self.rang = threading.Event()

    def _fire(self):
        self.rang.set()


def test_the_deadline_thread_starts_with_the_first_ends_when_idle_and_starts_again():
    own = Deadlines(idle=0.001)
    assert not own.is_running()
    for key in range(20):
        alarm = Alarm(key)
        own.add(alarm, 0.0005)
        assert alarm.rang.wait(10)
        if key % 2:
            while own.is_running():
                time.sleep(0.0005)
    while own.is_running():
        time.sleep(0.0005)


def test_a_deadline_that_comes_in_while_the_thread_leaves_is_not_lost():
    own = Deadlines(idle=0.0)
    alarms = [Alarm(key) for key in range(500)]
    for alarm in alarms:
        own.add(alarm, 0.0)
    assert all(alarm.rang.wait(10) for alarm in alarms)
    while own.is_running():
        time.sleep(0.0005)


def test_the_thread_looks_once_more_after_it_has_given_up_its_place():
    own, claim = Deadlines(), object()
    own._runner[0] = claim
    own._inbox.put((0.0, 1))
    assert own._leave(claim) is False
    assert own._runner == {0: claim}
    own._inbox.get()
    assert own._leave(claim) is True
    assert not own.is_running()


def test_a_thread_that_cannot_be_started_is_said_and_leaves_nothing(monkeypatch):
    def refuse(_run, _arguments):
        raise RuntimeError("can't start new thread")

    own = Deadlines()
    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        own.add(Alarm(1), 1.0)
    assert (own._pending, own.is_running()) == ({}, False)


def test_deadlines_that_were_called_off_are_swept_out_of_the_heap():
    own = Deadlines()
    heap = [(float(number), number) for number in range(1000)]
    own._pending = {7: Alarm(7)}
    own._sweep(heap)
    assert heap == [(7.0, 7)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_has_deadlines_of_its_own():
    mine = CancelSignal()
    mine.cancel_after(3600).close()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal = CancelSignal()
            signal.cancel_after(0.001)
            status = 0 if signal.wait(20) and not deadlines._pending else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
