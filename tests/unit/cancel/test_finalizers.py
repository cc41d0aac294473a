"""Finalizers that cancel, close, reset and register, started by the collector in the middle of everything."""

from __future__ import annotations

import contextlib
import gc

import pytest

from loopctl.cancel import CancelSignal, seal


@pytest.fixture
def busy_collector():
    """Collect after every few allocations."""
    before = gc.get_threshold()
    gc.set_threshold(7, 2, 2)
    yield
    gc.set_threshold(*before)


class Finalized:
    """Garbage in a cycle: only the collector ends it, wherever it happens to run."""

    runs = 0

    def __init__(self, action):
        self.action = action
        self.cycle = self

    def __del__(self):
        Finalized.runs += 1
        self.action()


def test_finalizers_may_cancel_close_reset_and_register_in_the_middle_of_anything(busy_collector):
    Finalized.runs = 0
    called = []
    for number in range(600):
        signal = CancelSignal()
        child = signal.child()
        registrations = [child.on_cancel(lambda number=number: called.append(number)) for _ in range(3)]
        for action in (
            signal.cancel,
            signal.reset,
            registrations[0].close,
            lambda child=child: child.on_cancel(int),
            lambda signal=signal: signal.child().on_cancel(int),
            lambda child=child: child.wait(0),
        ):
            Finalized(action)
        either = CancelSignal.any_of(signal, child, CancelSignal())
        with contextlib.suppress(ValueError):
            signal.on_cancel(int)
        before = signal.token
        signal.cancel("last")
        assert before.is_cancelled()
        assert child.is_cancelled()
        assert either.is_cancelled()
        assert called.count(number) in {2, 3}
        seal(either)
    assert Finalized.runs > 2000


def test_a_registration_dropped_into_a_cycle_whose_end_closes_it_is_closed(busy_collector):
    signal = CancelSignal()
    for _ in range(2000):
        registration = signal.child().on_cancel(int)
        Finalized(registration.close)
        del registration
    gc.collect()
    assert (signal.token._pins, signal.token._kids) == ({}, {})


def test_children_that_the_collector_ends_while_the_parent_is_cancelled_are_no_obstacle(busy_collector):
    for _ in range(200):
        signal = CancelSignal()
        for _ in range(20):
            child = signal.child()
            child.on_cancel(int).close()
            Finalized(child.cancel)
        kept = [signal.child() for _ in range(5)]
        signal.cancel()
        assert all(child.is_cancelled() for child in kept)
    gc.collect()
