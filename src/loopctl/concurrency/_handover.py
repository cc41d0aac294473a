"""How a cancel reaches the loop of a run, and where the loop's thread hangs if it does not take it.

Rules: code that blocks the loop's own thread is bounded by nothing, so it is named: in the log while it lasts, in the
run's record when it is over. What runs at the cancel takes no lock: it may be inside of a signal handler.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from typing import Final

from loopctl.cancel import CancelToken, deadlines, fired_at, new_key, watch
from loopctl.concurrency._clock import monotonic
from loopctl.concurrency._straggler import place_of_thread
from loopctl.record import Urgency

__all__ = ["Handover"]

_log = logging.getLogger("loopctl")

_PATIENCE: Final = 1.0
"""Seconds after which a loop that has not noticed is looked at again, and named in the log."""
_BLOCKED: Final = 0.1
"""Seconds that no loop takes which is only busy."""


class Handover:
    """Watches one run's token until `stop`."""

    __slots__ = ("_called", "_is_noticed", "_key", "_noticed", "_place", "_pressed", "_thread", "_token", "seconds")

    def __init__(self, token: CancelToken, loop: asyncio.AbstractEventLoop) -> None:
        """Watch *token* for *loop*, which runs in this thread."""
        self._key = new_key()
        self._token = token
        self._thread = threading.get_ident()
        self._place = ""
        self._is_noticed = False
        self._pressed: float | None = None
        self.seconds: float = 0.0
        """From the cancel to the loop's next turn."""
        self._noticed = watch(token, loop, self._on_noticed)
        self._called = token.on_cancel(self._on_cancel, at_least=Urgency.STOP)

    @property
    def blocked_at(self) -> str:
        """`file:line` at which the loop's thread was when the cancel came, if that kept it; empty if it did not."""
        return self._place if self.seconds >= _BLOCKED else ""

    @property
    def held_at(self) -> str:
        """`file:line` at which the loop's thread is now, if that keeps a cancel from it. From any thread."""
        if self._is_noticed or self._pressed is None or monotonic() - self._pressed < _BLOCKED:
            return ""
        return place_of_thread(self._thread)

    def stop(self) -> None:
        """Watch no more."""
        if self._noticed.close() and self._token.is_cancelled(Urgency.STOP):
            self._on_noticed()  # the run ended in the very turn
        self._called.close()
        deadlines.discard(self._key)

    def _on_cancel(self) -> None:
        if self._is_noticed:  # from another thread, and the loop was faster
            return
        self._pressed = monotonic()
        self._place = place_of_thread(self._thread)
        with contextlib.suppress(RuntimeError):  # the system has no thread for that
            deadlines.add(self, _PATIENCE)

    def _on_noticed(self) -> None:
        self._is_noticed = True
        self.seconds = monotonic() - (fired_at(self._token) or monotonic())
        deadlines.discard(self._key)

    def _fire(self) -> None:
        if not self._is_noticed:
            self._place = place_of_thread(self._thread)
            _log.warning("the event loop has not taken a cancel for %g s: it is blocked at %s", _PATIENCE, self._place)
