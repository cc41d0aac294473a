"""How long one attempt may take: a limit for the whole, for its first event and for each later one.

Invariants: the clock stands still between `pause` and `resume` (a reader holds the run back); one timer, re-armed
by itself, whatever the number of events; an event costs one clock read, of whoever reads it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["Patience"]


class Patience:
    """The time limits of one model request, in seconds; None is no limit."""

    __slots__ = (
        "_each",
        "_first",
        "_holds",
        "_is_stopped",
        "_loop",
        "_on_expired",
        "_paused_at",
        "_start",
        "_timer",
        "_total",
        "also",
        "expired",
        "last",
    )

    def __init__(self, total: float | None = None, first: float | None = None, each: float | None = None) -> None:
        """Limit the whole to *total*, the wait for the first event to *first* and for each later one to *each*."""
        self._total = total
        self._first = first
        self._each = each
        self._paused_at: float | None = None
        self._holds = 0
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopped = False
        self.expired: str | None = None
        """Which limit was passed, in words; None while none was."""
        self.last: float | None = None
        """The loop time of the last event, set by who reads them; None before the first."""
        self.also: Patience | None = None
        """Another clock whose events count here too."""

    def start(self, loop: asyncio.AbstractEventLoop, on_expired: Callable[[], None]) -> None:
        """Begin to count; call *on_expired* once when a limit is passed."""
        self._loop = loop
        self._on_expired = on_expired
        self._start = loop.time()
        self._arm()

    def pause(self) -> None:
        """Stop the clock; what stopped it more than once has to let it go as often."""
        self._holds += 1
        if self._paused_at is None:
            self._paused_at = self._loop.time()

    def resume(self) -> None:
        """Let the clock go on where it stood."""
        self._holds -= 1
        if self._paused_at is None or self._holds:
            return
        now = self._loop.time()
        held = now - self._paused_at
        self._paused_at = None
        self._start += held
        if self.last is not None:
            self.last = min(self.last + held, now)  # an event may have come while the clock stood still
        if self._timer is None and self.expired is None:
            self._arm()

    def hurry(self, seconds: float) -> None:
        """Allow *seconds* more for the whole, and no more for events."""
        self._total = self._loop.time() - self._start + seconds
        self._first = self._each = None
        self._disarm()
        self._arm()

    def stop(self) -> None:
        """Count no more."""
        self._is_stopped = True
        self._disarm()

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _due(self) -> tuple[float, str] | None:
        limits: list[tuple[float, str]] = []
        if self._total is not None:
            limits.append((self._start + self._total, f"not finished within {self._total:g} s"))
        last = self._latest()
        if last is not None and self._each is not None:
            limits.append((last + self._each, f"no further event for {self._each:g} s"))
        if last is None and self._first is not None:
            limits.append((self._start + self._first, f"no first event within {self._first:g} s"))
        return min(limits, default=None)

    def _latest(self) -> float | None:
        seen = (self.last, None if self.also is None else self.also.last)
        return max((moment for moment in seen if moment is not None), default=None)

    def _arm(self) -> None:
        due = self._due()
        # An event may come at any time, and brings its own limit: whoever looks too early looks again.
        latest = self._loop.time() + self._each if self._each is not None else None
        times = [when for when in (due[0] if due is not None else None, latest) if when is not None]
        if times and not self._is_stopped:
            self._timer = self._loop.call_at(min(times), self._check)

    def _check(self) -> None:
        self._timer = None
        if self._paused_at is not None:
            return
        due = self._due()
        if due is not None and self._loop.time() >= due[0]:
            self.expired = due[1]
            self._on_expired()
        else:
            self._arm()
