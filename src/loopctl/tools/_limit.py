"""How long one attempt of a tool call may take."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from loopctl.cancel import CancelSignal
from loopctl.concurrency import Patience, check_seconds
from loopctl.errors import UsageError
from loopctl.record import CancelReason

__all__ = ["LimitClock", "TimeLimit", "check_limit", "least"]


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """A limit for each attempt of one call."""

    seconds: float
    """For the first attempt."""
    retries: int = 0
    """Attempts that may follow one that took too long, each with twice the time."""

    def after(self, timeouts: int) -> TimeLimit:
        """Give what is left of it after so many attempts that took too long."""
        used = min(timeouts, self.retries)
        return TimeLimit(self.seconds * 2**used, self.retries - used)


def check_limit(name: str, seconds: float) -> float:
    """Give *seconds* if they can be a limit.

    Raises:
        UsageError: They cannot; the text names *name*.
    """
    if check_seconds(name, seconds) == 0:
        raise UsageError(f"{name} is more than 0 seconds: leave it out for no limit")
    return float(seconds)


def least(limits: Iterable[TimeLimit], timeouts: int) -> TimeLimit | None:
    """Give the shortest of *limits* after so many attempts that took too long; of equal ones that with most retries."""
    left = (limit.after(timeouts) for limit in limits)
    return min(left, key=lambda limit: (limit.seconds, -limit.retries), default=None)


class LimitClock(Patience):
    """Counts the time of one attempt, and tells the tool when it is over."""

    __slots__ = ("_stops",)

    def __init__(self, limit: TimeLimit, *stops: CancelSignal) -> None:
        """Fire *stops*, which the tool sees, when the time of *limit* is over."""
        super().__init__(total=limit.seconds)
        self._stops = stops

    def start(self, loop: asyncio.AbstractEventLoop, on_expired: Callable[[], None]) -> None:
        """Begin to count; call *on_expired* once when the time is over."""

        def expire() -> None:
            on_expired()
            for stop in self._stops:
                stop.cancel(CancelReason("deadline", f"the call was {self.expired}"))

        super().start(loop, expire)
