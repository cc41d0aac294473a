"""How runs are bounded: the numbers that an agent is made with, checked when it is made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from loopctl.concurrency import check_count, check_seconds
from loopctl.errors import UsageError

__all__ = ["RunConfig"]

_DISPATCHES = ("sequential", "parallel")


@dataclass(frozen=True, kw_only=True, slots=True)
class RunConfig:
    """The bounds of a run; all times in seconds, None where None is allowed means no bound.

    Raises:
        UsageError: A value is out of its range; the text names it.
    """

    max_turns: int = 50
    """Model requests that a run may make, 1 or more."""
    grace: float = 1.0
    """Seconds that stopped work gets to unwind before it is abandoned, 0 or more."""
    deadline: float | None = None
    """Seconds from the start of each run to its cancel (origin `deadline`)."""
    stall_timeout: float | None = None
    """Seconds without an event or progress before the run is cancelled (origin `stall`)."""
    max_total_tokens: int | None = None
    """Tokens, of input and output together, after which no further request is made (origin `budget`); what a server
    does not tell does not count."""
    turn_timeout: float | None = 300.0
    """Seconds for one whole model request, and for getting a model ready (`prepare`) before it."""
    first_event_timeout: float | None = 120.0
    """Seconds to the first event of a stream."""
    event_timeout: float | None = 180.0
    """Seconds between two events of a stream."""
    stream: bool = True
    """False asks for whole replies, if the model has `complete`."""
    dispatch: Literal["sequential", "parallel"] = "sequential"
    """How the calls of one reply are run: one after the other, or side by side where the tools allow it."""
    max_concurrency: int = 8
    """Calls of one run that may go on at once in parallel dispatch, 1 or more."""
    keep_runs: int = 1000
    """Records that `Session.runs` keeps; older ones are dropped."""

    def __post_init__(self) -> None:
        """Check every value."""
        for name in ("max_turns", "keep_runs", "max_concurrency", "max_total_tokens"):
            value = getattr(self, name)
            if value is not None or name != "max_total_tokens":
                check_count(f"RunConfig.{name}", value)
        if not isinstance(self.stream, bool):
            raise UsageError(f"RunConfig.stream is True or False, not {self.stream!r}")
        if self.dispatch not in _DISPATCHES:
            raise UsageError(f"RunConfig.dispatch is 'sequential' or 'parallel', not {self.dispatch!r}")
        self._check_times()

    def _check_times(self) -> None:
        if not math.isfinite(check_seconds("RunConfig.grace", self.grace)):
            raise UsageError("RunConfig.grace is finite: a stop has a bound. Give seconds, for instance 1.0")
        for name in ("deadline", "stall_timeout", "turn_timeout", "first_event_timeout", "event_timeout"):
            value = getattr(self, name)
            if value is not None and check_seconds(f"RunConfig.{name}", value) == 0:
                raise UsageError(f"RunConfig.{name} is more than 0 seconds, or None for no limit")
