"""Ctrl-C and SIGTERM as cancels, only while they are needed.

Rules: handlers are installed with `signal.signal` (a handler of the loop would not run while the loop is blocked),
in the main thread only, counted, so that nested use installs them once; what was there before is put back exactly,
and is still called if it was a function of the host's own.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from loopctl.record import CancelReason

__all__ = ["interrupts"]

Stop = Callable[[CancelReason], object]

_stops: list[Stop] = []
_previous: dict[int, Any] = {}
_OURS = {
    signal.SIGINT: CancelReason("user", "Ctrl-C", "SIGINT"),
    signal.SIGTERM: CancelReason("shutdown", "asked to terminate", "SIGTERM"),
}


@contextmanager
def interrupts(stop: Stop) -> Iterator[None]:
    """Call *stop* with a reason for each SIGINT and SIGTERM while the block runs.

    Args:
        stop: Called in the signal handler, so it must do little and take no lock; `CancelSignal.cancel` is made for
            it. It may raise `KeyboardInterrupt` to leave at once. With nested use every *stop* is called, the
            innermost first.

    In another than the main thread nothing is installed: signals do not arrive there.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _stops.append(stop)
    if len(_stops) == 1:
        _install()
    try:
        yield
    finally:
        _stops.remove(stop)
        if not _stops:
            _restore()


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
    for stop in reversed(_stops):
        stop(reason)
    previous = _previous.get(number)
    if callable(previous) and previous is not signal.default_int_handler:
        previous(number, frame)
