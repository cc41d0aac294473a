"""How long to wait before the next attempt."""

from __future__ import annotations

__all__ = ["backoff"]

_MOST_DOUBLINGS = 1000
"""A power of two that a float still holds."""


def backoff(retry: int, *, first: float, longest: float, jitter: float) -> float:
    """Give `min(first * 2**retry, longest) * (1 + jitter)` seconds.

    Args:
        retry: Which retry the wait is before, from 0.
        first: Seconds before the first one, without the jitter.
        longest: Seconds that no wait exceeds, without the jitter.
        jitter: The part that is added, or taken away if it is below 0: it keeps many runs that failed together from
            coming back together.
    """
    return min(first * 2.0 ** min(retry, _MOST_DOUBLINGS), longest) * (1 + jitter)
