"""Observers are checked when an agent is made, told inline in order, and keep their errors to themselves."""

from __future__ import annotations

import asyncio
import functools
import logging
import warnings

import pytest

from loopctl import CancelSignal, UsageError
from loopctl.observers import LoggingObserver, check_observers, notify
from tests.unit.observers.events import began, said


def errors(caplog):
    return [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_each_observer_is_told_each_event_in_registration_order():
    told = []
    observers = check_observers([lambda event: told.append(("a", event)), lambda event: told.append(("b", event))])
    first, second = began(), said("x")
    notify(observers, first)
    notify(observers, second)
    assert told == [("a", first), ("b", first), ("a", second), ("b", second)]


def test_an_error_reaches_neither_the_run_nor_the_other_observers(caplog):
    told = []

    def breaks(event):
        raise ValueError("my fault")

    notify(check_observers([told.append, breaks, told.append]), began())
    assert told == [began(), began()]
    (line,) = errors(caplog)
    assert line.name == "loopctl"
    assert "observer 2 (tests.unit.observers.test_notify.test_an_error" in line.getMessage()
    assert "breaks) raised ValueError at RunStarted of run_1" in line.getMessage()
    assert line.exc_info[1].args == ("my fault",)


def test_the_same_kind_of_error_is_logged_once_for_each_observer_and_event(caplog):
    def breaks(event):
        raise KeyError(getattr(event, "text", ""))

    observers = check_observers([breaks, breaks])
    for text in "abcdef":
        notify(observers, said(text))
    assert len(errors(caplog)) == 2  # one for each of the two
    notify(observers, began())
    assert len(errors(caplog)) == 4
    notify(check_observers([breaks]), began())  # another agent has a memory of its own
    assert len(errors(caplog)) == 5


def test_the_memory_of_errors_is_bounded(caplog):
    def breaks(event):
        raise type("Fresh", (Exception,), {})

    observers = check_observers([breaks])
    for _ in range(1000):
        notify(observers, began())
    assert len(errors(caplog)) == 256


def test_a_cancelled_error_out_of_an_observer_is_an_error_like_any_other(caplog):
    def breaks(event):
        raise asyncio.CancelledError

    async def main():
        notify(check_observers([breaks]), began())
        assert asyncio.current_task().cancelling() == 0
        return "went on"

    assert asyncio.run(main()) == "went on"
    assert "CancelledError" in errors(caplog)[0].getMessage()


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_program_goes_on_when_all_were_told(kind):
    told = []

    def leaves(event):
        raise kind("first")

    def leaves_too(event):
        raise SystemExit("second")

    with pytest.raises(kind) as caught:
        notify(check_observers([leaves, leaves_too, told.append]), began())
    assert caught.value.args == ("first",)
    assert told == [began()]


def test_a_broken_log_handler_stops_nobody():
    class Broken(logging.Handler):
        def emit(self, record):
            raise OSError("disk full")

    told = []
    handler = Broken()
    logging.getLogger("loopctl").addHandler(handler)
    try:
        notify(check_observers([lambda event: 1 / 0, told.append]), began())
    finally:
        logging.getLogger("loopctl").removeHandler(handler)
    assert told == [began()]


def test_a_coroutine_that_no_check_could_see_is_closed_and_reported(caplog):
    async def later(event):
        raise AssertionError("never runs")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        observers = check_observers([lambda event: later(event)])  # noqa: PLW0108 - the lambda is the point
        notify(observers, began())
        notify(observers, began())
    (line,) = errors(caplog)
    assert "it gave a coroutine" in line.exc_text or "it gave a coroutine" in str(line.exc_info[1])


def test_an_observer_may_fire_the_signal_from_inside():
    signal = CancelSignal()
    seen = []
    observers = check_observers([lambda event: signal.cancel("seen enough"), lambda e: seen.append(signal.reason)])
    notify(observers, began())
    assert seen[0].message == "seen enough"


async def async_observer(event):
    pass


async def async_generator(event):
    yield event


def generator(event):
    yield event


class AsyncCall:
    async def __call__(self, event):
        pass


class PlainCall:
    def __call__(self, event):
        pass

    async def method(self, event):
        pass


@pytest.mark.parametrize(
    ("observer", "why"),
    [
        (async_observer, "is an async def"),
        (functools.partial(async_observer), "is an async def"),
        (functools.partial(functools.partial(AsyncCall())), "is an async def"),
        (AsyncCall(), "is an async def"),
        (PlainCall().method, "is an async def"),
        (async_generator, "is a generator function"),
        (generator, "is a generator function"),
        (LoggingObserver, "is a class: give an instance, LoggingObserver"),
        (functools.partial(LoggingObserver), "is a class"),
        ("loud", "cannot be called"),
        (None, "cannot be called"),
    ],
)
def test_what_would_never_observe_anything_is_refused(observer, why):
    with pytest.raises(UsageError, match=why) as caught:
        check_observers([print, observer])
    assert str(caught.value).startswith("observer 2 (")


@pytest.mark.parametrize("observers", [print, 7, None, PlainCall()])
def test_something_else_than_a_list_is_refused(observers):
    with pytest.raises(UsageError, match="takes a list of observers"):
        check_observers(observers)


def test_callable_objects_partials_and_builtins_are_taken_as_they_are():
    plain = PlainCall()
    given = [plain, functools.partial(print, "event"), [].append, lambda event: None]
    assert list(check_observers(iter(given))) == given
    assert check_observers([]) == ()


def test_an_unhashable_observer_with_a_broken_repr_is_taken_and_named(caplog):
    class Awkward:
        __hash__ = None

        def __eq__(self, other):
            raise AssertionError("compared")

        def __repr__(self):
            raise AssertionError("printed")

        def __call__(self, event):
            raise ValueError

    notify(check_observers([Awkward()]), began())
    assert "Awkward) raised ValueError" in errors(caplog)[0].getMessage()
