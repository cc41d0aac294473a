"""What stops a run without being asked: its deadline, a stall, its token budget.

Rules: each fires the run's own signal and no other, with its own origin; a cause that came first stays. The clocks
stand still while a reader holds the run back; while a person is asked, and in a wait whose end is known, nothing is a
stall, but the deadline counts. The budget is looked at before a turn and not after it: a reply that was paid for is
kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from loopctl.concurrency import Patience
from loopctl.driver._config import RunConfig
from loopctl.messages import Usage
from loopctl.record import CancelReason, Origin

__all__ = ["Watchdogs"]


class Watchdogs:
    """The deadline, the stall watchdog and the token budget of one run."""

    def __init__(self, config: RunConfig, cancel: Callable[[CancelReason], object]) -> None:
        """Watch by the limits of *config*; *cancel* is the run's."""
        self._deadline = Patience(total=config.deadline)
        self._stall = Patience(first=config.stall_timeout, each=config.stall_timeout)
        self._config = config
        self._cancel = cancel

    @property
    def clocks(self) -> tuple[Patience, ...]:
        """What stands still while a reader holds the run back."""
        return (self._deadline, self._stall)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to count."""
        config = self._config
        self._loop = loop
        self._deadline.start(loop, lambda: self._fire("deadline", f"it had {config.deadline:g} s"))
        self._stall.start(loop, lambda: self._fire("stall", f"nothing happened for {config.stall_timeout:g} s"))

    def touch(self) -> None:
        """Note a sign of life: an event, or a tool's progress."""
        self._stall.last = self._loop.time()

    def hold(self) -> None:
        """Count no stall while a person is asked, or in a wait whose end is known; followed by one `release`."""
        self._stall.pause()

    def release(self) -> None:
        """Count on, from now; that somebody answered, or that the wait is over, is a sign of life."""
        self.touch()
        self._stall.resume()

    def follow(self, patience: Patience) -> None:
        """Count the events of a stream, which notes them on a clock of its own, as signs of life."""
        self._stall.also = patience

    def spent(self, usage: Usage) -> None:
        """Look at what the run has used so far; what is not known does not count."""
        limit, total = self._config.max_total_tokens, usage.total_tokens
        if limit is not None and total is not None and total >= limit:
            self._fire("budget", f"it has used {total} tokens of {limit}")

    def stop(self) -> None:
        """Count no more."""
        for clock in self.clocks:
            clock.stop()

    def _fire(self, origin: Origin, message: str) -> None:
        self._cancel(CancelReason(origin, message, "loopctl"))
