"""`on_cancel`: called once, newest first, inline, in the registrar's context, whatever the callbacks do."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import gc
import logging
import weakref

import pytest

from loopctl.cancel import CancelSignal, watch
from loopctl.cancel._fire import _activations
from loopctl.errors import UsageError
from loopctl.record import Urgency
from tests.unit.cancel.interrupts import PlainLoop

variable = contextvars.ContextVar("variable", default="unset")


def test_callbacks_run_inline_the_newest_first():
    signal = CancelSignal()
    seen = []
    for number in range(5):
        signal.on_cancel(functools.partial(seen.append, number))
    signal.cancel()
    assert seen == [4, 3, 2, 1, 0]


def test_the_newest_first_holds_across_the_tree():
    signal = CancelSignal()
    sides = [signal, signal.child(), signal.child().child(), signal]
    seen = []
    for number, side in enumerate(sides):
        side.on_cancel(functools.partial(seen.append, number))
    signal.cancel()
    assert seen == [3, 2, 1, 0]


def test_a_callback_registered_after_the_cancel_runs_at_once():
    signal = CancelSignal()
    signal.cancel()
    seen = []
    registration = signal.on_cancel(lambda: seen.append(1))
    assert seen == [1]
    assert registration.close() is False
    assert not signal.token._entries


def test_close_tells_whether_it_came_first():
    signal = CancelSignal()
    seen = []
    early, late = signal.on_cancel(lambda: seen.append("early")), signal.on_cancel(lambda: seen.append("late"))
    assert early.close() is True
    assert early.close() is False
    signal.cancel()
    assert late.close() is False
    assert seen == ["late"]


def test_a_registration_is_closed_at_the_end_of_its_block():
    signal = CancelSignal()
    seen = []
    with signal.on_cancel(lambda: seen.append(1)) as registration:
        assert len(signal.token._entries) == 1
    assert registration.close() is False
    signal.cancel()
    assert seen == []


def test_dropping_a_registration_calls_nothing_off():
    signal = CancelSignal()
    seen = []
    signal.on_cancel(lambda: seen.append(1))
    gc.collect()
    signal.cancel()
    assert seen == [1]


def test_a_spent_registration_keeps_neither_callback_nor_argument_alive():
    class Thing:
        def use(self):
            pass

    signal = CancelSignal()
    things = [Thing(), Thing()]
    refs = [weakref.ref(thing) for thing in things]
    closed, run = (signal.on_cancel(thing.use) for thing in things)
    things.clear()
    closed.close()
    signal.cancel()
    assert [ref() for ref in refs] == [None, None]
    assert run.close() is False


def test_an_exception_is_logged_and_stops_nothing(caplog):
    signal = CancelSignal()
    seen = []

    def broken():
        raise ValueError("a broken callback")

    signal.on_cancel(lambda: seen.append("older"))
    signal.on_cancel(broken)
    signal.on_cancel(lambda: seen.append("newer"))
    assert signal.cancel() is True
    assert seen == ["newer", "older"]
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("loopctl", logging.ERROR)
    assert "broken" in record.getMessage()
    assert "a broken callback" in caplog.text


def test_a_log_handler_that_raises_stops_nothing(monkeypatch):
    class Broken(logging.Filter):
        def filter(self, _record):
            raise OSError("disk full")

    signal = CancelSignal()
    seen = []
    signal.on_cancel(lambda: seen.append(1))
    signal.on_cancel(lambda: 1 / 0)
    broken = Broken()
    logging.getLogger("loopctl").addFilter(broken)
    try:
        signal.cancel()
    finally:
        logging.getLogger("loopctl").removeFilter(broken)
    assert seen == [1]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, asyncio.CancelledError, GeneratorExit])
def test_what_is_no_exception_is_raised_after_all_were_told(kind):
    signal = CancelSignal()
    loop = PlainLoop()
    child = signal.child()
    seen = []

    def leave():
        raise kind("out")

    signal.on_cancel(lambda: seen.append("oldest"))
    signal.on_cancel(leave)
    child.on_cancel(leave)
    child.on_cancel(lambda: seen.append("newest"))
    with pytest.raises(kind, match="out"):
        signal.cancel()
    assert seen == ["newest", "oldest"]
    assert loop.calls == []
    assert signal.cancel() is False
    assert (seen, signal.is_cancelled(), child.is_cancelled()) == (["newest", "oldest"], True, True)


def test_a_callback_may_cancel_reset_and_ask_its_own_signal():
    signal = CancelSignal()
    seen = []

    def call_back():
        seen.append((signal.cancel("again"), signal.is_cancelled(), signal.reason.message, signal.wait(0)))
        signal.reset()
        seen.append(signal.is_cancelled())
        signal.on_cancel(lambda: seen.append("next"))

    signal.on_cancel(lambda: seen.append("oldest"))
    signal.on_cancel(call_back)
    assert signal.cancel("first") is True
    assert seen == [(False, True, "first", True), False, "oldest"]
    assert signal.cancel() is True
    assert seen[-1] == "next"


def test_a_callback_may_raise_the_urgency_and_those_who_wait_for_that_are_told():
    signal = CancelSignal()
    seen = []
    signal.on_cancel(lambda: seen.append("abandon"), at_least=Urgency.ABANDON)
    signal.on_cancel(lambda: seen.append("older"))
    signal.on_cancel(lambda: seen.append(signal.cancel(urgency=Urgency.ABANDON)))
    signal.cancel()
    assert sorted(map(str, seen)) == ["True", "abandon", "older"]
    assert seen[0] is True


def test_thousands_of_callbacks_that_all_cancel_again_do_not_grow_the_stack(caplog):
    top = CancelSignal()
    sides = [top.child() for _ in range(3000)]
    seen = []
    for side in sides:
        side.on_cancel(lambda: seen.append(top.cancel()))
    sides[0].cancel()
    assert (len(seen), seen.count(True)) == (3000, 1)
    assert caplog.records == []


def test_neither_do_they_if_they_fire_other_signals_in_between(caplog):
    top, seen = CancelSignal(), []

    def call_back():
        other = CancelSignal()
        other.on_cancel(top.cancel)
        other.cancel()
        seen.append(top.cancel())

    for _ in range(3000):
        top.on_cancel(call_back)
    top.cancel()
    assert seen == [False] * 3000
    assert caplog.records == []
    assert not _activations


def test_a_callback_may_unregister_others_and_itself():
    signal = CancelSignal()
    seen = []
    older = signal.on_cancel(lambda: seen.append("older"))
    signal.on_cancel(lambda: seen.append((older.close(), own.close())))
    own = signal.on_cancel(lambda: seen.append(("own", own.close())))
    signal.cancel()
    assert seen == [("own", False), (True, False)]


def test_a_callback_may_register_new_ones_which_run_at_once():
    signal = CancelSignal()
    seen = []
    signal.on_cancel(lambda: seen.append("older"))
    signal.on_cancel(lambda: signal.on_cancel(lambda: seen.append("new")))
    signal.cancel()
    assert seen == ["new", "older"]


def test_a_callback_runs_in_the_context_of_where_it_was_registered():
    signal = CancelSignal()
    seen = []

    def register(value):
        variable.set(value)
        signal.on_cancel(lambda: (seen.append(variable.get()), variable.set("changed")))

    contextvars.Context().run(register, "first")
    contextvars.Context().run(register, "second")
    signal.on_cancel(lambda: seen.append(variable.get()))
    signal.cancel()
    assert seen == ["unset", "second", "first"]
    assert variable.get() == "unset"


def test_callbacks_that_fire_one_another_each_have_a_context_of_their_own():
    first, second = CancelSignal(), CancelSignal()
    seen = []
    variable.set("here")
    first.on_cancel(lambda: (seen.append(variable.get()), second.cancel()))
    second.on_cancel(lambda: (seen.append(variable.get()), first.on_cancel(lambda: seen.append(variable.get()))))
    first.cancel()
    assert seen == ["here", "here", "here"]


async def a_coroutine_function():
    pass


async def an_async_generator_function():
    yield


class CalledLikeACoroutine:
    async def __call__(self):
        pass

    async def method(self):
        pass


@pytest.mark.parametrize(
    "callback",
    [
        a_coroutine_function,
        an_async_generator_function,
        functools.partial(a_coroutine_function),
        CalledLikeACoroutine(),
        CalledLikeACoroutine().method,
    ],
)
def test_a_coroutine_function_is_refused(callback):
    signal = CancelSignal()
    with pytest.raises(UsageError, match="callbacks run inline; give a plain function"):
        signal.on_cancel(callback)
    assert not signal.token._entries


def test_what_cannot_be_called_is_refused():
    with pytest.raises(UsageError, match="on_cancel needs a function, not 'text'"):
        CancelSignal().on_cancel("text")


def test_a_coroutine_that_a_plain_function_gives_is_closed_and_reported(caplog):
    def start_a_coroutine():
        return a_coroutine_function()

    signal = CancelSignal()
    signal.on_cancel(start_a_coroutine)
    signal.cancel()
    gc.collect()
    assert "gave a coroutine, which nothing runs" in caplog.text


def test_waiters_are_woken_before_callbacks_run():
    signal, loop = CancelSignal(), PlainLoop()
    child = signal.child()
    seen = []
    signal.on_cancel(lambda: seen.append(len(loop.calls)))
    watch(child, loop, lambda: None)
    child.on_cancel(lambda: seen.append(len(loop.calls)))
    signal.cancel()
    assert seen == [1, 1]
