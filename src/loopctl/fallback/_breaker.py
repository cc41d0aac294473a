"""A breaker: whether turns ask a model, go past it, or try whether it is well again.

Rules: what time alone changes is not stored: a breaker that was tripped is recovering when its cooldown is over, with
no transition for it, so that looking changes nothing. A report belongs to the generation in which its turn was routed;
a later generation ignores it, so that a slow turn from before a trip neither closes the breaker nor trips it again.

Source: M. Nygard, "Release It!", circuit breaker: closed, open, half-open. There is no limit to probes in flight: a
probe that is cancelled reports nothing, and a slot that it held would stay taken.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from loopctl.errors import UsageError
from loopctl.fallback._check import check_count, check_seconds, fields_of, is_time

__all__ = ["Breaker", "BreakerConfig", "BreakerState"]


class BreakerState(StrEnum):
    """Where turns go."""

    PRIMARY = "primary"
    """To the model."""
    FALLBACK = "fallback"
    """Past it: it failed too often, and the cooldown is not over."""
    RECOVERING = "recovering"
    """To the model, as probes: the cooldown is over, and it has not proved itself yet."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BreakerConfig:
    """When a breaker trips and when it closes.

    Raises:
        UsageError: A value is out of its range; the text names it.
    """

    failures: int = 3
    """Failed turns in a row that trip it, 1 or more."""
    cooldown: float = 60.0
    """Seconds after a trip in which the model is not asked, 0 or more."""
    probes: int = 2
    """Good turns in a row, after the cooldown, that close it, 1 or more."""

    def __post_init__(self) -> None:
        """Check every value."""
        check_count("BreakerConfig.failures", self.failures, 1)
        check_seconds("BreakerConfig.cooldown", self.cooldown)
        check_count("BreakerConfig.probes", self.probes, 1)

    def to_json(self) -> dict[str, Any]:
        """The values as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: object) -> BreakerConfig:
        """Read what `to_json` gave.

        Raises:
            UsageError: *value* is not such an object.
        """
        return cls(**fields_of(value, "BreakerConfig", ("failures", "cooldown", "probes")))


@dataclass(frozen=True, kw_only=True, slots=True)
class Breaker:
    """The breaker of one model; `Breaker()` is closed and has seen nothing.

    Raises:
        UsageError: The values contradict each other.
    """

    config: BreakerConfig = field(default_factory=BreakerConfig)
    failures: int = 0
    """Failed turns in a row while it is closed."""
    probes: int = 0
    """Good probes in a row since it was tripped."""
    tripped_at: float | None = None
    """When it was tripped last; None if it is closed."""
    generation: int = 0
    """How often it was tripped, tripped again, or closed."""

    def __post_init__(self) -> None:
        """Refuse a breaker that no reports can have led to."""
        if not isinstance(self.config, BreakerConfig):
            raise UsageError(f"Breaker.config is {self.config!r}: give a BreakerConfig")
        is_closed = self.tripped_at is None
        check_count("Breaker.failures", self.failures, 0, self.config.failures - 1 if is_closed else 0)
        check_count("Breaker.probes", self.probes, 0, 0 if is_closed else self.config.probes - 1)
        check_count("Breaker.generation", self.generation, 0 if is_closed else 1)
        if not is_closed and not is_time(self.tripped_at):
            raise UsageError(f"Breaker.tripped_at is {self.tripped_at!r}: give the seconds of a clock, or None")

    def state(self, now: float) -> BreakerState:
        """Say where a turn that begins *now* goes.

        Args:
            now: Seconds of the clock that the reports were given with. If it is more than a cooldown before the trip
                it is another clock, and the cooldown counts as over: no stored breaker can hold for ever.
        """
        if self.tripped_at is None:
            return BreakerState.PRIMARY
        # Not `now - tripped_at`: another thread may have read the clock just before the trip.
        is_cooling = math.fabs(now - self.tripped_at) < self.config.cooldown
        return BreakerState.FALLBACK if is_cooling else BreakerState.RECOVERING

    def succeeded(self, generation: int) -> Breaker:
        """Count a turn in which the model replied.

        Args:
            generation: The breaker's when the turn was routed.
        """
        if generation != self.generation:
            return self
        if self.tripped_at is None:
            return self if self.failures == 0 else replace(self, failures=0)
        if self.probes + 1 < self.config.probes:
            return replace(self, probes=self.probes + 1)
        return Breaker(config=self.config, generation=self.generation + 1)

    def failed(self, generation: int, now: float) -> Breaker:
        """Count a turn in which the model was given up, for whatever cause: a rate limit is one.

        While it is recovering one failure trips it again.

        Args:
            generation: The breaker's when the turn was routed.
            now: When it was given up: the cooldown begins.
        """
        if generation != self.generation:
            return self
        if self.tripped_at is None and self.failures + 1 < self.config.failures:
            return replace(self, failures=self.failures + 1)
        return Breaker(config=self.config, tripped_at=now, generation=self.generation + 1)

    def to_json(self) -> dict[str, Any]:
        """The breaker as a JSON object, its config included."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: object) -> Breaker:
        """Read what `to_json` gave.

        Raises:
            UsageError: *value* is not such an object, or no reports can have led to it.
        """
        found = fields_of(value, "Breaker", ("config", "failures", "probes", "tripped_at", "generation"))
        return cls(**found | {"config": BreakerConfig.from_json(found["config"])})
