"""A `KeyboardInterrupt` tears a call at each line in turn; the next call makes it good, and nothing is left behind."""

from __future__ import annotations

import functools

import pytest

from loopctl.cancel import CancelSignal, seal, watch
from loopctl.record import Urgency
from tests.unit.cancel.interrupts import Interrupt, PlainLoop, handling, sweep


def interrupt_here():
    raise KeyboardInterrupt


def torn(at, work):
    """Run *work* with a KeyboardInterrupt, raised by a real handler, at its step *at*."""
    with handling(interrupt_here) as send:
        interrupt = Interrupt(at, send)
        try:
            with interrupt.armed():
                work()
        except KeyboardInterrupt:
            assert interrupt.place is not None
        else:
            assert interrupt.place is None
        return interrupt


def watched_tree():
    signal = CancelSignal()
    sides = [signal, signal.child(), CancelSignal.any_of(CancelSignal(), signal)]
    loop, called, woken = PlainLoop(), [], []
    for number, side in enumerate(sides):
        side.on_cancel(functools.partial(called.append, number))
        watch(side, loop, functools.partial(woken.append, number))
    return signal, sides, loop, called, woken


@pytest.mark.parametrize("has_rise", [False, True])
def test_a_cancel_torn_at_any_line_is_made_good_by_the_next_one(has_rise):
    def scenario(at):
        signal, sides, loop, called, woken = watched_tree()
        if has_rise:
            signal.cancel("drain", urgency=Urgency.DRAIN)
            late = [side.on_cancel(functools.partial(called.append, "late"), at_least=Urgency.STOP) for side in sides]
            assert len(late) == 3
        interrupt = torn(at, lambda: signal.cancel("torn"))
        signal.cancel("again")
        assert all(side.is_cancelled(at_least=Urgency.STOP) for side in sides)
        assert {side.reason for side in sides} == {signal.reason}
        loop.turn()
        assert sorted(woken) == [0, 1, 2]
        # An interrupt at the line of the call itself is one inside the callback: that it was called is known, no more.
        expected = 6 if has_rise else 3
        is_at_call = interrupt.place is not None and interrupt.place[1] == "_call"
        assert len(called) >= expected - is_at_call
        assert len(called) <= expected
        # Torn between its end and its clean-up, a callback stays in the table of the fired token, spent.
        assert sum(len(side.token._entries) for side in sides) <= 1
        assert all(not entry._box for side in sides for entry in side.token._entries.values())
        return interrupt

    assert sweep(scenario, least=80) >= {"cancel", "fire", "_claim", "_mark", "inherit", "_publish", "_wake", "_tell"}


def test_a_cancel_torn_at_any_line_is_made_good_from_a_childs_and_a_registrars_side():
    """Not only by another cancel: who looks at the torn signal sees it as fired or as not fired, never in between."""

    def scenario(at):
        signal, _, _, _, _ = watched_tree()
        interrupt = torn(at, lambda: signal.cancel("torn"))
        is_cancelled, reason, urgency = signal.is_cancelled(), signal.reason, signal.urgency
        assert is_cancelled is (reason is not None) is (urgency is not None)
        assert signal.child().is_cancelled() is is_cancelled
        seen = []
        signal.on_cancel(lambda: seen.append(1))
        assert seen == [1] * is_cancelled
        assert signal.wait(0) is is_cancelled
        return interrupt

    sweep(scenario, least=80)


def test_a_wait_torn_at_any_line_leaves_nothing_behind():
    def scenario(at):
        signal = CancelSignal()
        interrupt = torn(at, lambda: signal.child().wait(0.0001))
        if interrupt.place is not None and interrupt.place[1] in {"detach", "wait"}:
            # The clean-up itself was torn: what is left goes with the cancel.
            signal.cancel()
        assert not signal.token._pins
        return interrupt

    assert sweep(scenario, least=20) >= {"wait", "_arm", "attach"}


def test_a_reset_torn_at_any_line_has_happened_or_not():
    def scenario(at):
        signal = CancelSignal()
        signal.cancel("old")
        old = signal.token
        interrupt = torn(at, signal.reset)
        assert (signal.token is old) is signal.is_cancelled()
        signal.reset()
        assert not signal.is_cancelled()
        assert signal.cancel("new") is True
        signal.reset()
        assert len(signal._tokens) == 1
        return interrupt

    assert sweep(scenario, least=10) >= {"reset", "_latest", "link"}


def test_a_registration_torn_at_any_line_calls_back_once_or_not_at_all():
    def scenario(at):
        signal, called = CancelSignal(), []
        interrupt = torn(at, lambda: signal.child().on_cancel(lambda: called.append(1)))
        signal.cancel()
        assert len(called) <= 1
        assert interrupt.place is not None or called == [1]
        assert not signal.token._pins
        return interrupt

    sweep(scenario, least=10)


def test_a_seal_torn_at_any_line_is_made_good_by_the_next_one():
    for is_fired in (False, True):

        def scenario(at, is_fired=is_fired):
            signal = CancelSignal()
            run = signal.child()
            run.child().on_cancel(print, at_least=Urgency.ABANDON)
            if is_fired:
                run.cancel()
            interrupt = torn(at, lambda: seal(run))
            assert seal(run) is not is_fired
            assert run.cancel(urgency=Urgency.ABANDON) is False
            signal.cancel()
            assert run.is_cancelled() is is_fired
            return interrupt

        sweep(scenario, least=20)


def test_a_keyboard_interrupt_from_a_real_handler_in_a_callback_arrives_after_all_were_told():
    signal, called = CancelSignal(), []
    with handling(interrupt_here) as send:
        signal.on_cancel(lambda: called.append("older"))
        signal.on_cancel(send)
        signal.on_cancel(lambda: called.append("newer"))
        with pytest.raises(KeyboardInterrupt):
            signal.cancel()
    assert called == ["newer", "older"]
