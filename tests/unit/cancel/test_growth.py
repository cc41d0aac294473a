"""A million of each leaves nothing: counted in table entries and in memory blocks."""

from __future__ import annotations

import gc
import sys
import time

import pytest

from loopctl.cancel import CancelSignal, seal, watch
from loopctl.cancel._timer import deadlines
from tests.unit.cancel.interrupts import PlainLoop

MILLION = 1_000_000


def nothing():
    pass


def grown(work, times):
    """How many memory blocks *times* repetitions of *work* leave behind."""
    work()
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(times):
        work()
    while not deadlines._inbox.empty():
        time.sleep(0.001)
    gc.collect()
    return sys.getallocatedblocks() - before


def test_a_million_registrations_and_closes_leave_nothing():
    signal = CancelSignal()
    register = signal.on_cancel

    def work():
        register(nothing).close()

    assert grown(work, MILLION) < 100
    assert signal.cancel() is True


def test_a_million_children_leave_nothing():
    signal = CancelSignal()
    assert grown(signal.child, MILLION) < 100
    assert not signal.token._kids


@pytest.mark.parametrize("kind", ["observed child", "any_of", "watch", "reset", "sealed run", "deadline", "wait"])
def test_tens_of_thousands_of_anything_else_leave_nothing(kind):
    signal, loop = CancelSignal(), PlainLoop()

    def reset():
        signal.cancel()
        signal.reset()

    def sealed_run():
        run = CancelSignal.any_of(signal, CancelSignal())
        run.on_cancel(nothing)
        seal(run)

    works = {
        "observed child": lambda: signal.child().on_cancel(nothing).close(),
        "any_of": lambda: CancelSignal.any_of(signal, CancelSignal()),
        "watch": lambda: watch(signal, loop, nothing).close(),
        "reset": reset,
        "sealed run": sealed_run,
        "deadline": lambda: signal.cancel_after(3600).close(),
        "wait": lambda: signal.wait(1e-9),
    }
    assert grown(works[kind], 20_000) < 500
    token = signal.token
    assert (token._entries, token._pins, token._kids, len(signal._tokens)) == ({}, {}, {}, 1)
    assert not deadlines._pending
