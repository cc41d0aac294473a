"""What a caller may give for a time and for a count."""

from __future__ import annotations

import math

from loopctl.errors import UsageError

__all__ = ["check_count", "check_seconds"]


def check_seconds(name: str, value: float) -> float:
    """Give *value* if it is a number of seconds from 0 on.

    Raises:
        UsageError: It is not; the text names *name*.
    """
    given: object = value
    if isinstance(given, bool) or not isinstance(given, int | float) or not given >= 0:  # NaN is not, either
        raise UsageError(f"{name} is a number of seconds, 0 or more, not {given!r}")
    try:
        return float(given)
    except OverflowError:
        return math.inf


def check_count(name: str, value: int) -> int:
    """Give *value* if it is a whole number from 1 on.

    Raises:
        UsageError: It is not; the text names *name*.
    """
    given: object = value
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise UsageError(f"{name} is a whole number from 1 on, not {given!r}")
    return given
