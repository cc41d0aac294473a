"""How observers are checked and told: inline, in registration order, each with its errors to itself.

Rules:

1. An observer's error never reaches the run nor the other observers. It is logged once per observer, kind of event and
   kind of error, so that an observer that fails on every fragment of text does not flood the log.
2. `KeyboardInterrupt`, `SystemExit` and whatever else is meant to end the program go on when all were told.
3. Nothing is awaited: an observer that could only hand out a coroutine is refused when the agent is made.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import logging
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from loopctl.errors import UsageError
from loopctl.record import Event

__all__ = ["Observer", "Observers", "check_observers", "notify"]

Observer: TypeAlias = Callable[[Event], None]
"""Called with every event of every run, on the run's own loop; it returns soon and changes nothing."""

_log = logging.getLogger("loopctl")

_MOST = 256
"""Kinds of errors that are remembered, and logged, in the life of an agent."""


class Observers(tuple[Observer, ...]):  # noqa: SLOT001 - a tuple's subclass can have no slots
    """Checked observers in registration order, with the memory of the errors that were logged; see `check_observers`.

    May be shared by any number of runs, loops and threads.
    """

    def __init__(self, _observers: Iterable[Observer] = ()) -> None:
        """Remember no error yet; the observers themselves are taken by `tuple`."""
        super().__init__()
        self._logged: set[tuple[int, type, type]] = set()

    def _report(self, place: int, event: Event, error: BaseException) -> None:
        kind = (place, type(event), type(error))
        if kind in self._logged or len(self._logged) >= _MOST:
            return
        self._logged.add(kind)
        with contextlib.suppress(Exception):  # a broken log handler must not stop the other observers
            _log.error(
                "observer %d (%s) raised %s at %s of %s. The run goes on; the next errors of this kind are not logged",
                place + 1,
                _name_of(self[place]),
                type(error).__name__,
                type(event).__name__,
                event.run_id,
                exc_info=error,
            )


def check_observers(observers: Iterable[Observer]) -> Observers:
    """Take what an agent was given as its observers.

    Args:
        observers: Plain functions or callable objects, in the order in which they are to be told.

    Returns:
        The same, as a tuple that `notify` takes.

    Raises:
        UsageError: One cannot be called, or calling it would do nothing by itself: an `async def`, a generator
            function, a class instead of its instance.
    """
    if not isinstance(observers, Iterable):
        raise UsageError(f"observers= takes a list of observers, not {_name_of(observers)}: write observers=[…]")
    given = tuple(observers)
    for place, observer in enumerate(given, 1):
        problem = _problem_of(observer)
        if problem:
            raise UsageError(f"observer {place} ({_name_of(observer)}) {problem}")
    return Observers(given)


def notify(observers: Observers, event: Event) -> None:
    """Tell *event* to each of *observers*, in order, before anything else goes on.

    Args:
        observers: What `check_observers` gave.
        event: What has happened.

    Raises:
        BaseException: An observer raised `KeyboardInterrupt`, `SystemExit` or another one that ends the program: the
            first of them, when all were told.
    """
    last_word: BaseException | None = None
    for place, observer in enumerate(observers):
        try:
            _tell(observer, event)
        # CancelledError too: in a plain call it cancels no task, and must not be taken for a cancel of the run's.
        except (Exception, asyncio.CancelledError) as error:  # noqa: ASYNC103
            observers._report(place, event, error)
        except BaseException as error:  # noqa: ASYNC103 - the first of them is raised when all were told
            last_word = last_word or error
    if last_word is not None:
        raise last_word


def _tell(observer: Callable[[Event], object], event: Event) -> None:
    result = observer(event)
    if inspect.iscoroutine(result):  # a lambda around an `async def`: no check could have seen it
        result.close()
        raise UsageError("it gave a coroutine, which nothing runs: use a plain def")


def _problem_of(observer: Any) -> str:
    inner = observer
    while isinstance(inner, functools.partial):
        inner = inner.func
    if inspect.isclass(inner):
        return f"is a class: give an instance, {inner.__name__}(…)"
    if not callable(inner):
        return "cannot be called: an observer is a function of one event"
    for function in (inner, type(inner).__call__):
        if inspect.iscoroutinefunction(function):
            return "is an async def, and observers are not awaited: use a plain def, and hand on what may wait"
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            return "is a generator function, so calling it does nothing: use a plain def without yield"
    return ""


def _name_of(thing: object) -> str:
    """Name *thing* without running code of its own."""
    while isinstance(thing, functools.partial):
        thing = thing.func
    named = thing if inspect.isroutine(thing) or inspect.isclass(thing) else type(thing)
    return f"{named.__module__}.{named.__qualname__}"
