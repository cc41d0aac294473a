"""Storms: many threads at once, for seconds, switching as often as they can. What is counted must add up."""

from __future__ import annotations

import asyncio
import itertools
import random
import sys
import threading
import time

import pytest

from loopctl.cancel import CancelSignal, seal
from loopctl.record import Urgency

SECONDS = 1.5


@pytest.fixture(autouse=True)
def eager_switching():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


class Storm:
    """Threads that each repeat a piece of work until the time is over; what one raises fails the test."""

    def __init__(self, seconds=SECONDS):
        self.end = time.monotonic() + seconds
        self.errors = []
        self.threads = []

    def blow(self, work, count=1):
        for _ in range(count):
            thread = threading.Thread(target=self._repeat, args=(work,))
            thread.start()
            self.threads.append(thread)

    def _repeat(self, work):
        try:
            while time.monotonic() < self.end:
                work()
        except BaseException as error:
            self.errors.append(error)
            raise

    def settle(self, signal=None):
        """Wait for all; keep cancelling *signal*, so that whoever began to wait late is told too."""
        for thread in self.threads:
            while thread.is_alive():
                if signal is not None:
                    signal.cancel()
                thread.join(0.01)
        assert self.errors == []


def test_cancel_reset_and_wait_lose_no_wake_up_and_show_no_half_reset_state():
    signal, storm = CancelSignal(), Storm()
    changes, waits = [], []

    def cancel():
        if signal.cancel():
            changes.append(1)

    def wait():
        token = signal.token
        assert token.wait(30) is True, "a lost wake-up"
        assert token.reason is not None
        waits.append(1)

    def look():
        token = signal.token
        is_cancelled = token.is_cancelled()
        reason, urgency = token.reason, token.urgency
        assert not is_cancelled or (reason is not None and urgency is Urgency.STOP)
        assert token.is_cancelled() or not is_cancelled

    storm.blow(cancel, 2)
    storm.blow(signal.reset, 2)
    storm.blow(wait, 4)
    storm.blow(look)
    for thread in storm.threads:
        while thread.is_alive():
            cancel()
            thread.join(0.005)
    assert storm.errors == []
    # Each token was fired by exactly one cancel, and each but the last was swapped for having been fired.
    number, token = signal._latest()
    assert len(changes) == number + token.is_cancelled()
    assert min(number, len(waits)) > 10
    assert not token._entries


def test_waiters_on_several_loops_are_all_told_while_others_cancel_and_reset():
    signal, storm = CancelSignal(), Storm()
    told = itertools.count()

    def one_loop():
        async def main():
            while time.monotonic() < storm.end:
                waiters = [asyncio.ensure_future(signal.notified()) for _ in range(5)]
                async with asyncio.timeout(30):
                    assert None not in await asyncio.gather(*waiters)
                next(told)

        asyncio.run(main())

    storm.blow(one_loop, 3)
    storm.blow(signal.cancel)
    storm.blow(signal.reset)
    storm.settle(signal)
    assert next(told) > 10


def test_a_callback_either_runs_once_or_is_closed_in_time():
    storm, rounds = Storm(), []

    def race():
        signal = CancelSignal()
        side = signal.child() if random.random() < 0.5 else signal
        called, closed = [], []

        def register():
            for number in range(20):
                registration = side.on_cancel(lambda number=number: called.append(number))
                if number % 2:
                    closed.append((number, registration.close()))

        threads = [threading.Thread(target=register), threading.Thread(target=signal.cancel)]
        random.shuffle(threads)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        expected = set(range(20)) - {number for number, was_first in closed if was_first}
        assert sorted(called) == sorted(expected)
        assert not side.token._entries
        assert not signal.token._pins
        rounds.append(len(expected))

    storm.blow(race, 3)
    storm.settle()
    assert len(rounds) > 20


def test_either_the_seal_or_the_cancel_wins_and_never_both():
    outcomes = {"seal": 0, "cancel": 0}
    for number in itertools.count():
        if min(outcomes.values()) >= 20 or number == 5000:
            break
        parent, told = CancelSignal(), {}
        run = CancelSignal.any_of(parent, CancelSignal())
        go = threading.Barrier(2)

        def cancel(run=run, told=told, go=go, parent=parent, number=number):
            go.wait()
            if number % 2:
                told["cancel"] = run.cancel()
            else:
                assert parent.cancel() is True
                told["cancel"] = run.is_cancelled()

        thread = threading.Thread(target=cancel)
        thread.start()
        go.wait()
        sealed = seal(run)
        assert run.is_cancelled() is not sealed
        assert (run.reason is None) is sealed
        thread.join()
        assert told["cancel"] is not sealed
        assert run.is_cancelled() is not sealed
        outcomes["seal" if sealed else "cancel"] += 1
    assert sum(outcomes.values()) > 20


def test_trees_that_grow_and_fall_while_they_are_cancelled_hold_together():
    storm, rounds = Storm(), itertools.count()

    def grow():
        top = CancelSignal()
        made, called = [], []

        def plant():
            sides = [top]
            for _ in range(40):
                parents = random.sample(sides, min(len(sides), random.choice((1, 1, 2))))
                side = CancelSignal.any_of(*parents)
                side.on_cancel(lambda: called.append(1))
                sides.append(side)
            made.extend(sides[1:])

        threads = [threading.Thread(target=plant) for _ in range(2)]
        for thread in threads:
            thread.start()
        top.cancel("drain", urgency=Urgency.DRAIN)
        top.cancel("stop", urgency=Urgency.ABANDON)
        for thread in threads:
            thread.join()
        assert {(side.reason.message, side.urgency) for side in made} == {("drain", Urgency.ABANDON)}
        assert len(called) == len(made) == 80
        made.clear()
        assert not top.token._pins
        next(rounds)

    storm.blow(grow, 2)
    storm.settle()
    assert next(rounds) > 5


def test_runs_that_are_sealed_while_their_session_is_cancelled_and_reset_leave_nothing_in_it():
    session, storm = CancelSignal(), Storm()

    def run():
        signal = CancelSignal.any_of(session, CancelSignal())
        signal.on_cancel(int)
        below = signal.child()
        below.on_cancel(int)
        below.child().on_cancel(int)
        was_unfired = seal(signal)
        assert signal.is_cancelled() is not was_unfired

    storm.blow(run, 4)
    storm.blow(session.cancel)
    storm.blow(session.reset)
    storm.settle()
    assert not session.token._pins
    assert not session.token._kids


def test_deadlines_are_made_and_called_off_from_many_threads():
    storm, ends = Storm(), []

    def make():
        signal = CancelSignal()
        registrations = [signal.cancel_after(random.choice((0.0002, 3600))) for _ in range(3)]
        told = [registration.close() for registration in registrations]
        ends.append(told)
        assert all(told) or signal.wait(30) is True

    storm.blow(make, 4)
    storm.settle()
    assert len(ends) > 50
