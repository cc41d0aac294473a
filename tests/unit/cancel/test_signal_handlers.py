"""A real signal handler interrupts each line of the package in turn, and cancels, resets or asks there."""

from __future__ import annotations

import asyncio
import functools
import signal
import threading
import time

import pytest

from loopctl.cancel import CancelSignal, later_causes, seal, watch
from loopctl.record import Urgency
from tests.unit.cancel.interrupts import Interrupt, PlainLoop, handling, sweep

FIRE = {"cancel", "fire", "_claim", "_mark", "inherit", "_publish", "_wake", "_tell", "_tell_each", "_call", "detach"}


class Tree:
    """A signal with everything on it: a child, a grandchild, an any_of, waiters, callbacks."""

    def __init__(self, size=4):
        self.signal = CancelSignal()
        self.child = self.signal.child()
        self.sides = [self.signal, self.child, self.child.child(), CancelSignal.any_of(CancelSignal(), self.child)]
        del self.sides[size:]
        self.loop = PlainLoop()
        self.called, self.woken, self.expected = [], [], []
        for number, side in enumerate(self.sides * 2):
            side.on_cancel(functools.partial(self.called.append, number))
            watch(side, self.loop, functools.partial(self.woken.append, number))
            self.expected.append(number)

    def check(self):
        """Everybody was told exactly once, and all say the same."""
        assert all(side.is_cancelled() for side in self.sides)
        assert {side.reason for side in self.sides} == {self.signal.reason}
        assert self.called == self.expected[::-1]
        self.loop.turn()
        assert sorted(self.woken) == self.expected
        assert all(not side.token._entries and not side.token._pins for side in self.sides)


@pytest.mark.parametrize("event", ["line", "opcode"])
def test_a_handler_that_cancels_at_any_step_of_cancel(event):
    """Case L7 (the signal's part): the handler interrupts the signal's own critical sections; nothing hangs."""

    def scenario(at):
        tree, told = Tree(4 if event == "line" else 2), []  # there are about ten opcodes to a line
        with handling(lambda: told.append(tree.signal.cancel("handler"))) as send:
            interrupt = Interrupt(at, send, event)
            with interrupt.armed():
                told.append(tree.signal.cancel("main"))
        assert told.count(True) == 1
        assert len(told) == (2 if interrupt.place else 1)
        tree.check()
        if interrupt.place:
            assert {tree.signal.reason.message, later_causes(tree.signal)[0].message} == {"handler", "main"}
        return interrupt

    assert sweep(scenario, least=100) >= FIRE


@pytest.mark.parametrize("urgency", list(Urgency))
def test_a_handler_that_cancels_harder_at_any_line_of_cancel(urgency):
    def scenario(at):
        tree, told = Tree(), []
        with handling(lambda: told.append(tree.signal.cancel("handler", urgency=urgency))) as send:
            interrupt = Interrupt(at, send)
            with interrupt.armed():
                told.append(tree.signal.cancel("main", urgency=Urgency.DRAIN))
        if interrupt.place is None:
            tree.signal.cancel(urgency=urgency)
        assert {side.urgency for side in tree.sides} == {urgency}
        if urgency > Urgency.DRAIN:
            tree.check()
        assert sorted(tree.called) == tree.expected
        return interrupt

    assert sweep(scenario, least=100) >= FIRE


def test_a_handler_that_cancels_the_parent_at_any_line_of_a_childs_cancel():
    def scenario(at):
        tree, told = Tree(), []
        with handling(lambda: told.append(tree.signal.cancel("parent"))) as send:
            interrupt = Interrupt(at, send)
            with interrupt.armed():
                told.append(tree.child.cancel("child"))
        if interrupt.place is None:
            tree.signal.cancel("parent")
        assert tree.signal.reason.message == "parent"
        assert all(side.is_cancelled() for side in tree.sides)
        assert sorted(tree.called) == tree.expected
        tree.loop.turn()
        assert sorted(tree.woken) == tree.expected
        return interrupt

    assert sweep(scenario, least=100) >= FIRE


@pytest.mark.parametrize("event", ["line", "opcode"])
def test_a_handler_that_cancels_at_any_step_of_reset(event):
    def scenario(at):
        signal, told, woken = CancelSignal(), [], []
        loop = PlainLoop()
        child = signal.child()
        signal.cancel("old")
        with handling(lambda: told.append((signal.cancel("handler"), signal.token))) as send:
            interrupt = Interrupt(at, send, event)
            watch(child, loop, functools.partial(woken.append, "old"))
            with interrupt.armed():
                signal.reset()
        changed, token = told[0] if told else (False, None)
        assert signal.is_cancelled() is changed
        assert (signal.token is token) is (changed or token is signal.token)
        assert (signal.reason.message if changed else "handler") == "handler"
        assert child.reason.message == "old"
        assert signal.cancel() is not changed
        assert len(signal._tokens) <= 2
        return interrupt

    assert sweep(scenario, least=10) >= {"reset", "_latest", "link"}


@pytest.mark.parametrize("event", ["line", "opcode"])
def test_a_handler_that_resets_and_cancels_at_any_step_of_reset(event):
    """Whatever the interrupted reset had looked at: it never swaps the fresh token out unless it sees it fired."""

    def scenario(at):
        signal, seen = CancelSignal(), []

        def handler():
            signal.reset()
            token = signal.token
            seen.append((token.is_cancelled(), signal.cancel("handler"), token, signal.token is token))

        signal.cancel("old")
        with handling(handler) as send:
            interrupt = Interrupt(at, send, event)
            with interrupt.armed():
                signal.reset()
        if seen:
            was_cancelled, changed, token, is_same = seen[0]
            assert (was_cancelled, changed, is_same) == (False, True, True)
            assert token.reason.message == "handler"
            assert signal.token is token or not signal.is_cancelled()
        signal.reset()
        assert len(signal._tokens) == 1
        assert signal.cancel() is True
        return interrupt

    assert sweep(scenario, least=10) >= {"reset", "_latest", "link"}


def test_a_handler_that_resets_at_any_line_of_cancel():
    def scenario(at):
        tree, told = Tree(), []
        with handling(tree.signal.reset) as send:
            interrupt = Interrupt(at, send)
            with interrupt.armed():
                told.append(tree.signal.cancel("main"))
        assert told == [True]
        assert tree.child.reason.message == "main"
        assert sorted(tree.called) == tree.expected
        tree.loop.turn()
        assert sorted(tree.woken) == tree.expected
        return interrupt

    assert sweep(scenario, least=100) >= FIRE


def test_a_handler_that_cancels_at_any_step_of_on_cancel_and_close():
    for event in ("line", "opcode"):

        def scenario(at, event=event):
            signal, called = CancelSignal(), []
            child = signal.child()
            with handling(signal.cancel) as send:
                interrupt = Interrupt(at, send, event)
                with interrupt.armed():
                    registration = child.on_cancel(functools.partial(called.append, 1))
                    closed = registration.close()
            assert (len(called) == 1) is (not closed)
            assert not child.token._entries
            assert not signal.token._pins
            signal.cancel()
            assert (len(called) == 1) is (not closed)
            return interrupt

        assert sweep(scenario, least=20) >= {"on_cancel", "_arm", "attach", "close", "detach", "_take"}


def test_a_handler_that_cancels_at_any_step_of_child_and_any_of():
    for event in ("line", "opcode"):

        def scenario(at, event=event):
            signal = CancelSignal()
            with handling(functools.partial(signal.cancel, "handler")) as send:
                interrupt = Interrupt(at, send, event)
                with interrupt.armed():
                    child = signal.child()
                    either = CancelSignal.any_of(CancelSignal(), child, signal)
                    late = either.child()
            if interrupt.place is None:
                signal.cancel("handler")
            assert [side.reason.message for side in (child, either, late)] == ["handler"] * 3
            return interrupt

        assert sweep(scenario, least=30) >= {"child", "any_of", "_below", "link", "_take_roots", "__init__"}


def test_a_handler_that_cancels_at_any_line_of_seal():
    def scenario(at):
        signal, called, told = CancelSignal(), [], []
        run = signal.child()
        run.on_cancel(lambda: called.append(1))
        run.child().on_cancel(lambda: called.append(2))
        with handling(lambda: told.append(run.cancel("handler"))) as send:
            interrupt = Interrupt(at, send)
            with interrupt.armed():
                sealed = seal(run)
        if told:
            assert sealed is not told[0]
        assert run.is_cancelled() is not sealed
        assert called == ([] if sealed else [2, 1])
        assert not signal.token._pins
        return interrupt

    assert sweep(scenario, least=30) >= {"seal", "seal_latch", "_seal", "unlink"}


def steps_until_it_blocks(event):
    """How many steps a `wait` makes before its thread sleeps."""
    signal, seen = CancelSignal(), []
    counting = Interrupt(-1, lambda: None, event)
    signal.on_cancel(lambda: seen.append(counting.steps))
    signal.cancel_after(0.2)
    with counting.armed():
        assert signal.child().wait() is True
    return seen[0]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("event", ["line", "opcode"])
def test_a_handler_that_cancels_at_any_step_of_wait(event):
    """A lost wake-up would hang: the wait has no bound, and nobody else cancels."""
    steps = steps_until_it_blocks(event)
    functions = set()
    for at in range(1, steps + 1):
        signal = CancelSignal()
        with handling(signal.cancel) as send:
            interrupt = Interrupt(at, send, event)
            with interrupt.armed():
                assert signal.child().wait() is True
        functions.add(interrupt.place[1])
        assert not signal.token._pins
    assert functions >= {"wait", "_arm", "attach", "_is_due"}


def test_a_signal_that_interrupts_no_wait_ends_it_all_the_same():
    """One that another thread took, or that came just before the wait: its handler needs the main thread to run."""
    cancel, is_over, slept = CancelSignal(), threading.Event(), []

    def press():
        while not cancel.token._entries:
            time.sleep(0.001)
        time.sleep(0.05)  # the main thread waits by now
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        if not is_over.wait(5):
            slept.append("through")
            signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

    with handling(cancel.cancel):
        thread = threading.Thread(target=press)
        thread.start()
        assert cancel.wait() is True
        is_over.set()
        thread.join()
    assert slept == []


def test_a_handler_that_cancels_at_any_line_of_awaiting_notified():
    def scenario(at):
        signal = CancelSignal()

        async def main():
            asyncio.get_running_loop().call_later(0.002, signal.cancel, "too late")
            async with asyncio.timeout(30):
                return await signal.child().notified()

        with handling(functools.partial(signal.cancel, "handler")) as send:
            interrupt = Interrupt(at, send)
            with interrupt.armed():
                reason = asyncio.run(main())
        assert reason.message in {"handler", "too late"}
        assert not signal.token._pins
        return interrupt

    assert sweep(scenario, least=20) >= {"notified", "__await__", "_wait", "_arm", "attach"}


def test_a_handler_that_registers_makes_children_and_closes_at_any_line_of_cancel():
    def scenario(at):
        tree, called, closed = Tree(), [], []
        registration = tree.child.on_cancel(lambda: called.append("closable"))

        def handler():
            tree.child.on_cancel(lambda: called.append("late"))
            tree.signal.child().on_cancel(lambda: called.append("child"))
            closed.append(registration.close())

        with handling(handler) as send:
            interrupt = Interrupt(at, send)
            with interrupt.armed():
                tree.signal.cancel("main")
        late = ["child", "late"] if interrupt.place else []
        assert sorted(called) == sorted([*late, *(["closable"] if closed != [True] else [])])
        tree.check()
        return interrupt

    assert sweep(scenario, least=100) >= FIRE
