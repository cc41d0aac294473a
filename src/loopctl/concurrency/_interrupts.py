"""Ctrl-C and SIGTERM as cancels, only while they are needed.

Rules: handlers are installed with `signal.signal` (a handler of the loop would not run while the loop is blocked),
in the main thread only, counted, so that nested use installs them once; what was there before is put back exactly,
and is still called if it was a function of the host's own. A handler in Python runs when the main thread gets to it:
`woken_by_signals` keeps a loop from sleeping on.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from loopctl.record import CancelReason

__all__ = ["interrupts", "woken_by_signals"]

Stop = Callable[[CancelReason], object]

_inside: list[Arrivals] = []
_previous: dict[int, Any] = {}
_OURS = {
    signal.SIGINT: CancelReason("user", "Ctrl-C", "SIGINT"),
    signal.SIGTERM: CancelReason("shutdown", "asked to terminate", "SIGTERM"),
}


class Arrivals:
    """What has come while the block ran."""

    __slots__ = ("is_fatal", "stop")

    def __init__(self, stop: Stop) -> None:
        """Remember whom to tell."""
        self.stop = stop
        self.is_fatal: bool = False
        """True once a SIGTERM came that nobody but us handles: without us it would have ended the process."""


@contextmanager
def interrupts(stop: Stop) -> Iterator[Arrivals]:
    """Call *stop* with a reason for each SIGINT and SIGTERM while the block runs.

    Args:
        stop: Called in the signal handler, so it must do little and take no lock; `CancelSignal.cancel` is made for
            it. It may raise `KeyboardInterrupt` to leave at once. With nested use every *stop* is called, the
            innermost first.

    In another than the main thread nothing is installed: signals do not arrive there.

    Returns:
        As a context manager: what has arrived, kept up to date.
    """
    arrivals = Arrivals(stop)
    if threading.current_thread() is not threading.main_thread():
        yield arrivals
        return
    _inside.append(arrivals)
    if len(_inside) == 1:
        _install()
    try:
        yield arrivals
    finally:
        _inside.remove(arrivals)
        if not _inside:
            _restore()


@contextmanager
def woken_by_signals(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Let every signal of the process wake *loop* while the block runs.

    Without it a handler set with `signal.signal` is told late, or never, of a signal that comes in the instant before
    the loop begins to wait, or in another thread: neither interrupts the wait. A loop keeps its descriptor for that
    only as long as it has a handler of its own, and whoever removes the last one takes it away for all; so this keeps
    one for a signal that means nothing. Nothing is done in another than the main thread, or by a loop that cannot.

    Source: signal.set_wakeup_fd.
    """
    number = getattr(signal, "SIGURG", None)
    if number is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    descriptor = signal.set_wakeup_fd(-1)
    handler = signal.getsignal(number)
    with suppress(NotImplementedError):
        loop.add_signal_handler(number, _ignore)
    try:
        yield
    finally:
        loop.remove_signal_handler(number)
        if handler is not None:
            signal.signal(number, handler)
        signal.set_wakeup_fd(descriptor)


def _ignore() -> None:
    """Do nothing: the loop is awake."""


def _install() -> None:
    for number in _OURS:
        handler = signal.getsignal(number)
        if handler is not signal.SIG_IGN:  # a job that a shell put into the background ignores Ctrl-C on purpose
            _previous[number] = handler
            signal.signal(number, _handle)


def _restore() -> None:
    for number, handler in _previous.items():
        # None is a handler that was not installed from Python: it cannot be put back from here.
        if signal.getsignal(number) is _handle and handler is not None:
            signal.signal(number, handler)
    _previous.clear()


def _handle(number: int, frame: FrameType | None) -> None:
    reason = _OURS[signal.Signals(number)]
    previous = _previous.get(number)
    for arrivals in reversed(_inside):
        arrivals.is_fatal |= number == signal.SIGTERM and previous is signal.SIG_DFL
        arrivals.stop(reason)
    if callable(previous) and previous is not signal.default_int_handler:
        previous(number, frame)
