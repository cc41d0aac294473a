"""What follows when a tool call failed: the application's strategy says it, within bounds that hold for each strategy.

Rules: by default nothing is tried twice, because a retry may charge a card twice; no call is tried more than five
times; no retry while an earlier attempt of the same call still runs. A strategy is foreign code: what it raises goes
through to the caller of `ToolRecovery.decide`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from loopctl.errors import UsageError
from loopctl.messages import ToolCall
from loopctl.recovery._backoff import backoff
from loopctl.recovery._check import check_count, check_fraction, check_jitter, check_seconds

__all__ = [
    "CEILING",
    "GiveToModel",
    "RetryCall",
    "ToolDecision",
    "ToolFailure",
    "ToolGivenUp",
    "ToolRecovery",
    "ToolRetry",
    "ToolStrategy",
    "give_to_model",
]

CEILING = 5
"""Attempts of one call that no strategy can exceed."""


@dataclass(frozen=True, slots=True)
class ToolFailure:
    """One failed attempt of a tool call. A cancelled call did not fail, and no strategy sees it."""

    call: ToolCall
    """The call as it was tried: with the corrected arguments, if an earlier retry brought some."""
    text: str
    """What the model would be given."""
    attempt: int
    """Which attempt this was, from 1; one that was refused for its arguments counts too."""
    error: Exception | None = None
    """What was raised; None if nothing was."""
    is_running: bool = False
    """True if the attempt is still running (it was timed out, and did not stop in time)."""
    retries: int = 0
    """Retries that the time limit which the attempt passed still allows: they are made without asking a strategy."""


@dataclass(frozen=True, slots=True)
class RetryCall:
    """A strategy's wish: try the call again."""

    after: float | None = None
    """Seconds to wait, finite and at least 0; None for the backoff of `ToolRecovery`."""
    arguments: Mapping[str, Any] | None = None
    """Corrected arguments; None for the same again. The idempotency key stays the same."""

    def __post_init__(self) -> None:
        """Refuse a wait or arguments that cannot be.

        Raises:
            UsageError: One of them is of another type, or out of its range.
        """
        if self.after is not None:
            check_seconds("RetryCall.after", self.after)
        arguments: object = self.arguments
        if arguments is not None and not isinstance(arguments, Mapping):
            raise UsageError(f"RetryCall.arguments is {arguments!r}: give a mapping of names to values, or None")


@dataclass(frozen=True, slots=True)
class GiveToModel:
    """A strategy's wish: let the model see the error and decide."""

    text: str | None = None
    """What the model is told; None for the failure's own text."""

    def __post_init__(self) -> None:
        """Refuse what is no text.

        Raises:
            UsageError: *text* is neither a text nor None.
        """
        text: object = self.text
        if text is not None and not isinstance(text, str):
            raise UsageError(f"GiveToModel.text is {text!r}: give a text, or None for the failure's own")


ToolDecision: TypeAlias = RetryCall | GiveToModel
"""What a strategy answers."""

ToolStrategy: TypeAlias = Callable[[ToolFailure], ToolDecision]
"""Sees each failed attempt and decides. It does not wait: no coroutine function."""


@dataclass(frozen=True, slots=True)
class ToolRetry:
    """What follows: wait, then try the call again with *arguments*."""

    after: float
    """Seconds, at least 0."""
    arguments: Mapping[str, Any]
    """The corrected arguments, or those of the failed attempt."""


@dataclass(frozen=True, slots=True)
class ToolGivenUp:
    """What follows: the call has failed, and the model is told *text*."""

    text: str


def give_to_model(_failure: ToolFailure) -> ToolDecision:
    """Try nothing again: the strategy by default."""
    return GiveToModel()


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolRecovery:
    """A strategy and the bounds around it; all times in seconds.

    Raises:
        UsageError: A value is out of its range; the text names it.
    """

    strategy: ToolStrategy = give_to_model
    """Asked after each failed attempt that may be followed by another."""
    max_attempts: int = CEILING
    """Attempts of one call, from 1 to 5; the strategy is not asked after the last."""
    first_delay: float = 0.1
    """The shortest backoff, before the first retry; each further one is twice as long."""
    max_delay: float = 30.0
    """The longest backoff. A wait that a strategy gives is taken as it is."""
    jitter: float = 0.1
    """The part, from 0 to 1, by which a backoff may be longer or shorter; the driver draws it."""

    def __post_init__(self) -> None:
        """Check every value."""
        strategy: object = self.strategy
        if not callable(strategy) or _is_async(strategy):
            raise UsageError(
                f"ToolRecovery.strategy is {strategy!r}: give a function (no coroutine function) that takes a "
                "ToolFailure and returns a RetryCall or a GiveToModel"
            )
        check_count("ToolRecovery.max_attempts", self.max_attempts, 1, CEILING)
        for name in ("first_delay", "max_delay"):
            check_seconds(f"ToolRecovery.{name}", getattr(self, name))
        if self.first_delay > self.max_delay:
            raise UsageError("ToolRecovery.first_delay is longer than max_delay: make it shorter, or raise max_delay")
        check_fraction("ToolRecovery.jitter", self.jitter)

    def decide(self, failure: ToolFailure, *, jitter: float) -> ToolRetry | ToolGivenUp:
        """Say what follows *failure*.

        Args:
            failure: The attempt that failed.
            jitter: The part by which a backoff is longer or shorter, from minus to plus `ToolRecovery.jitter`.

        Returns:
            A retry with its wait and arguments, or the text for the model.

        Raises:
            UsageError: *jitter* is out of its range, or the strategy answered something that is no decision.
            Exception: The strategy raised it.
        """
        check_jitter(jitter, self.jitter)
        if failure.is_running or failure.attempt >= self.max_attempts:
            return ToolGivenUp(failure.text)
        if failure.retries:
            return ToolRetry(self._backoff(failure.attempt - 1, jitter), failure.call.arguments)
        answer: object = self.strategy(failure)
        match answer:
            case GiveToModel(text):
                return ToolGivenUp(failure.text if text is None else text)
            case RetryCall(after, arguments):
                wait = self._backoff(failure.attempt - 1, jitter) if after is None else after
                return ToolRetry(wait, failure.call.arguments if arguments is None else arguments)
            case _:
                raise UsageError(
                    f"the recovery strategy answered {answer!r} to a failure of {failure.call.name}: "
                    "return a RetryCall or a GiveToModel"
                )

    def _backoff(self, retry: int, jitter: float) -> float:
        wait = backoff(retry, first=self.first_delay, longest=self.max_delay, jitter=jitter)
        return min(max(wait, self.first_delay), self.max_delay)


def _is_async(strategy: object) -> bool:
    return inspect.iscoroutinefunction(strategy) or inspect.iscoroutinefunction(getattr(strategy, "__call__", None))  # noqa: B004
