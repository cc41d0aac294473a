"""Ready-made strategies for failed tool calls."""

from __future__ import annotations

from collections.abc import Collection

from loopctl.errors import UsageError
from loopctl.recovery._check import check_count
from loopctl.recovery._tool import CEILING, GiveToModel, RetryCall, ToolDecision, ToolFailure, ToolStrategy

__all__ = ["retry_transient"]


def retry_transient(
    *,
    times: int = 2,
    on: tuple[type[Exception], ...] = (ConnectionError, TimeoutError),
    tools: Collection[str] | None = None,
) -> ToolStrategy:
    """Make a strategy that tries a call again, with the backoff, if what it raised tends to pass.

    Args:
        times: Retries after the first attempt, from 1 to 4.
        on: The errors that are tried again, subclasses included; every other one is given to the model.
        tools: The names of the tools whose calls may run twice without harm; None means all of them.

    Raises:
        UsageError: An argument is out of its range or of another type.
    """
    check_count("retry_transient(times=…)", times, 1, CEILING - 1)
    kinds: object = on
    if not isinstance(kinds, tuple) or not all(
        isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds
    ):
        raise UsageError(f"retry_transient(on=…) is {on!r}: give a tuple of exception classes")
    if isinstance(tools, str):
        raise UsageError(f"retry_transient(tools=…) is {tools!r}: give a collection of names, for instance [{tools!r}]")
    named = None if tools is None else frozenset(tools)

    def strategy(failure: ToolFailure) -> ToolDecision:
        is_named = named is None or failure.call.name in named
        if is_named and failure.attempt <= times and isinstance(failure.error, on):
            return RetryCall()
        return GiveToModel()

    return strategy
