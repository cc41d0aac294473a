"""What follows when a model request failed: wait and try again, one rescue, or the next model.

Rules: the order is stream attempts, rescue, next model; a permanent failure ends it at once; the rescue comes once and
never for a rate limit; a decision depends on its arguments alone.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, TypeAlias

from loopctl.errors import UsageError
from loopctl.recovery._backoff import backoff
from loopctl.recovery._budget import Budget
from loopctl.recovery._check import check_count, check_fraction, check_jitter, check_seconds, fields_of
from loopctl.recovery._failure import Failure, FailureKind

__all__ = ["Decision", "Escalate", "EscalateReason", "ModelRecovery", "Rescue", "Retry"]

EscalateReason: TypeAlias = Literal["permanent", "spent", "wait_too_long", "rescue_failed", "probe"]
"""Why a model is given up for this turn: it will say no again; its retries are used up; it asks for a longer wait than
is allowed; the rescue failed too; it was a probe that met a rate limit."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Wait, then send the same request to the same model in the same way."""

    after: float
    """Seconds to wait, at least 0."""
    budget: Budget
    """What the next failure is judged with."""


@dataclass(frozen=True, slots=True)
class Rescue:
    """Send the same request to the same model once more, without streaming and without a wait."""

    budget: Budget
    """What its failure is judged with."""


@dataclass(frozen=True, slots=True)
class Escalate:
    """Give this model up for this turn: the next one is asked, and if there is none the run has failed."""

    reason: EscalateReason


Decision: TypeAlias = Retry | Rescue | Escalate
"""What follows a failed model request."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelRecovery:
    """How often and how patiently one model is asked in one turn; all times in seconds.

    Raises:
        UsageError: A value is out of its range; the text names it.
    """

    transport_retries: int = 3
    """Attempts after the first, 0 or more, when a request was lost on the way or the server broke down."""
    first_delay: float = 0.1
    """Wait before the first of them; each further one waits twice as long."""
    max_delay: float = 10.0
    """The longest of these waits, without the jitter."""
    jitter: float = 0.1
    """The part, from 0 to 1, by which these waits may be longer or shorter; the driver draws it."""
    rate_limit_retries: int = 3
    """Attempts after the first, 0 or more, when the server limits the rate; a budget of their own."""
    rate_limit_delay: float = 5.0
    """Wait before each of them if the server does not say how long."""
    max_rate_limit_delay: float = 60.0
    """If the server asks for a longer wait than this, the next model is asked at once."""
    rescue: bool = True
    """True: when streaming gave up, ask once without streaming, if the model can."""

    def __post_init__(self) -> None:
        """Check every value."""
        for name in ("transport_retries", "rate_limit_retries"):
            check_count(f"ModelRecovery.{name}", getattr(self, name))
        for name in ("first_delay", "max_delay", "rate_limit_delay", "max_rate_limit_delay"):
            check_seconds(f"ModelRecovery.{name}", getattr(self, name))
        check_fraction("ModelRecovery.jitter", self.jitter)
        for least, most in (("first_delay", "max_delay"), ("rate_limit_delay", "max_rate_limit_delay")):
            if getattr(self, least) > getattr(self, most):
                raise UsageError(f"ModelRecovery.{least} is longer than {most}: make it shorter, or raise {most}")
        rescue: object = self.rescue
        if not isinstance(rescue, bool):
            raise UsageError(f"ModelRecovery.rescue is {rescue!r}: give True or False")

    def decide(
        self, budget: Budget, failure: Failure, *, jitter: float, can_rescue: bool, is_probe: bool = False
    ) -> Decision:
        """Say what follows *failure*.

        Args:
            budget: What this model used in this turn before.
            failure: What became of the request that *budget* allowed.
            jitter: The part by which a wait is longer or shorter, from minus to plus `ModelRecovery.jitter`.
            can_rescue: True if the failed request was streamed and the model can be asked without streaming.
            is_probe: True if the request tried whether a model is well again. A rate limit then ends the trial at
                once: another model is at hand, and waiting is what a limited server does not prove itself by.

        Returns:
            The next step, with the budget for it.

        Raises:
            UsageError: *jitter* is out of its range.
        """
        check_jitter(jitter, self.jitter)
        if failure.kind is FailureKind.PERMANENT:
            return Escalate("permanent")
        if budget.is_rescued:
            return Escalate("rescue_failed")
        if failure.kind is FailureKind.RATE_LIMIT:
            return Escalate("probe") if is_probe else self._limited(budget, failure)
        return self._lost(budget, jitter, can_rescue=can_rescue)

    def _limited(self, budget: Budget, failure: Failure) -> Decision:
        wait = self.rate_limit_delay if failure.retry_after is None else failure.retry_after
        if wait > self.max_rate_limit_delay:
            return Escalate("wait_too_long")
        if budget.rate_limit_retries >= self.rate_limit_retries:
            return Escalate("spent")
        return Retry(wait, replace(budget, rate_limit_retries=budget.rate_limit_retries + 1))

    def _lost(self, budget: Budget, jitter: float, *, can_rescue: bool) -> Decision:
        retry = budget.transport_retries
        if retry < self.transport_retries:
            wait = backoff(retry, first=self.first_delay, longest=self.max_delay, jitter=jitter)
            return Retry(wait, replace(budget, transport_retries=retry + 1))
        if can_rescue and self.rescue:
            return Rescue(replace(budget, is_rescued=True))
        return Escalate("spent")

    def to_json(self) -> dict[str, Any]:
        """The values as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: object) -> ModelRecovery:
        """Read what `to_json` gave.

        Raises:
            UsageError: *value* is not such an object.
        """
        return cls(**fields_of(value, "ModelRecovery", tuple(field.name for field in fields(cls))))
