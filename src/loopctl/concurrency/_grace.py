"""How long pressed work may unwind, and how that is bounded by the work that it is a part of."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextvars import ContextVar

__all__ = ["FinishGrace", "Grace", "Pressure", "around"]


class Pressure:
    """What the work of a race can know of it: until when the graces inside of it must be over."""

    __slots__ = ("until",)

    def __init__(self) -> None:
        """Leave them alone yet."""
        self.until: float = math.inf


around: ContextVar[Pressure | None] = ContextVar("loopctl_around", default=None)
"""Of the race that the current task or thread is the work of."""


class Grace:
    """How long pressed work may unwind: one deadline for everything in flight, set when it is first asked for.

    Made inside of other work, it is over a little before that work's own grace: else a run inside of a tool would end
    in the very instant in which the tool is given up for not ending.
    """

    __slots__ = ("_around", "_deadline", "seconds")

    def __init__(self, seconds: float) -> None:
        """Allow *seconds* from the first `deadline` on."""
        self.seconds: float = seconds
        self._deadline: float | None = None
        self._around = around.get()

    def deadline(self, now: float) -> float:
        """The loop time at which the grace ends."""
        if self._deadline is None:
            self._deadline = now + self.seconds
            if self._around is not None:
                self._deadline = min(self._deadline, self._around.until)
        return self._deadline

    def apart(self, now: float) -> float:
        """The loop time at which the grace of a single work ends that something else presses than the cancel."""
        return now + self.seconds if self._around is None else min(now + self.seconds, self._around.until)

    def spared_until(self, now: float) -> float | None:
        """The loop time until which the work may go on as if nothing had happened; None if it is pressed at once."""
        del now
        return None


class FinishGrace(Grace):
    """The grace of work that may finish: not pressed for some seconds, then abandoned."""

    __slots__ = ("_finish_within", "_may_finish", "_plain", "_spared_until")

    def __init__(self, plain: Grace, finish_within: float, may_finish: Callable[[], bool]) -> None:
        """Spare the work for *finish_within* seconds if it *may_finish*; else it gets what is left of *plain*."""
        super().__init__(plain.seconds)
        self._plain = plain
        self._finish_within = finish_within
        self._may_finish = may_finish
        self._spared_until: float | None = None

    def deadline(self, now: float) -> float:
        return self._plain.deadline(now)

    def spared_until(self, now: float) -> float | None:
        if not self._may_finish():
            return None
        if self._spared_until is None:
            self._spared_until = now + self._finish_within
        return self._spared_until
