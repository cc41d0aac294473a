"""Deadlines: a cancel that comes by itself after some time, on the running loop's clock or on the deadline thread.

Invariants:

1. A deadline is an entry of its latch like any observer: it pins the latch, ends with it, and fires at most once.
2. Its timer is let go of as soon as the latch reaches STOP or the deadline is called off. A latch that was only
   drained keeps it: the deadline raises the urgency.
3. A loop's timer is cancelled on that loop only.
"""

from __future__ import annotations

import asyncio
import math
from typing import Final

from loopctl.cancel._fire import fire
from loopctl.cancel._latch import Latch
from loopctl.cancel._links import detach
from loopctl.cancel._post import Post
from loopctl.cancel._registration import Registration
from loopctl.cancel._timer import deadlines
from loopctl.errors import UsageError
from loopctl.record import CancelReason, Urgency

__all__ = ["Deadline", "deadline_reason", "seconds_of", "start_deadline"]

_STOP: Final = Urgency.STOP.value


def seconds_of(value: object, name: str) -> float:
    """Give *value* as a number of seconds.

    Raises:
        UsageError: It is no number, or it is NaN; *name* says whose it is.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
        raise UsageError(f"{name} is a number of seconds, not {value!r}")
    return float(value)


def deadline_reason(value: CancelReason | str | None, seconds: float) -> CancelReason:
    """Give the reason of a deadline; a text alone is its message.

    Raises:
        UsageError: *value* is of another type.
    """
    if value is None:
        return CancelReason("deadline", f"{seconds:g} s are over")
    if isinstance(value, str):
        return CancelReason("deadline", value)
    return CancelReason.of(value)


def start_deadline(latch: Latch, seconds: float, reason: CancelReason) -> Deadline:
    """Fire *latch* in *seconds*, on the running loop's timer, or else on the deadline thread; at once if it is past."""
    deadline = Deadline(latch, reason)
    if seconds <= 0:
        deadline._fire()
        return deadline
    if not latch._reached[_STOP] and not latch._is_sealed() and seconds != math.inf:
        deadline._set_timer(seconds)
    deadline._arm()
    return deadline


class Deadline(Registration):
    """A cancel that is due at some time."""

    __slots__ = ("_handle", "_loop", "_reason")

    def __init__(self, latch: Latch, reason: CancelReason) -> None:
        """Be due never, yet."""
        super().__init__(latch, _STOP, _nothing)
        self._reason = reason
        self._loop: asyncio.AbstractEventLoop | None = None
        self._handle: asyncio.TimerHandle | None = None

    def close(self) -> bool:
        """Call it off.

        Returns:
            True if it will now never fire, also because its signal was fired before by something else; False if it
            has fired or was called off before.
        """
        self._give_up()
        return super().close()

    def _set_timer(self, seconds: float) -> None:
        self._loop = _running_loop()
        if self._loop is None:
            deadlines.add(self, seconds)
        else:
            self._handle = self._loop.call_later(seconds, self._fire)

    def _fire(self) -> None:
        if self._take() is not None:
            self._handle = None  # it refers to this method
            detach(self)
            fire(self._latch, self._reason, _STOP)

    def _wake(self, post: Post) -> bool:
        self._retire(post)
        return True

    def _retire(self, post: Post) -> None:
        handle = self._handle
        if handle is None or self._loop is None:
            deadlines.discard(self._key)
        elif self._loop is _running_loop():
            handle.cancel()
        else:
            post.add(self._loop, handle.cancel)


def _nothing() -> None:
    """Stand in the box: the deadline itself is the work."""


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
