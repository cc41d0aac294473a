"""What kind of failure a model request ended in.

Rules: decided by the status, the mark `retryable` and the wait that the server asked for, and by nothing else; the
provider's "no" is final (it has read the body: an empty account answers 429 too), and so is a status that says that
the request itself is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Failure", "FailureKind", "classify"]

_RATE_LIMITS = frozenset({429, 503, 529})
_REFUSALS = range(400, 500)
_PASSING = frozenset({408, 409, 425})
"""The only statuses from 400 to 499, beside 429, under which the same request may succeed later."""


class FailureKind(StrEnum):
    """How a failure is treated."""

    TRANSPORT = "transport"
    """Lost on the way, or the server broke down: a truncated reply, a timeout and a lost connection too."""
    RATE_LIMIT = "rate_limit"
    """The server is there and asks for less: wait as it says."""
    PERMANENT = "permanent"
    """The same request will fail again."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed model request, judged."""

    kind: FailureKind
    retry_after: float | None = None
    """Seconds that the server asked to wait, at least 0; None if it did not say, or said something impossible."""


def classify(status: int | None, *, retryable: bool, retry_after: float | None = None) -> Failure:
    """Judge a failed model request.

    Args:
        status: The HTTP status; None if there was no answer to have one.
        retryable: What the model's side says: may the same request succeed later?
        retry_after: Seconds that the server asked to wait; None if it did not say.

    Returns:
        The failure. A wait below 0, or one that is not a number, counts as not said.

    Source: RFC 9110 section 15 (408, 425, 429, 503); 529 is Anthropic's and some proxies' "overloaded"; 409 is a lost
    race at the server (OpenAI's and Anthropic's own clients repeat it).
    """
    said: object = retry_after  # of a model of one's own, so anything; "not a number" compares as False
    is_possible = isinstance(said, int | float) and said >= 0
    return Failure(_kind(status, retryable=retryable), retry_after if is_possible else None)


def _kind(status: int | None, *, retryable: bool) -> FailureKind:
    if not retryable:
        return FailureKind.PERMANENT
    if status in _RATE_LIMITS:
        return FailureKind.RATE_LIMIT
    if status in _REFUSALS and status not in _PASSING:
        return FailureKind.PERMANENT
    return FailureKind.TRANSPORT
