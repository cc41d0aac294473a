"""Checks of what a person configures, and of what was stored as JSON; each error names the value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from loopctl.errors import UsageError

__all__ = ["check_count", "check_fraction", "check_jitter", "check_seconds", "fields_of"]


def check_count(name: str, value: object, least: int = 0, most: float = math.inf) -> None:
    """Refuse what is no whole number from *least* to *most*.

    Raises:
        UsageError: It is not.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        bounds = f"from {least} on" if most == math.inf else f"from {least} to {most:g}"
        raise UsageError(f"{name} is {value!r}: give a whole number {bounds}")


def check_seconds(name: str, value: Any) -> None:
    """Refuse what is no finite number of seconds of at least 0.

    Raises:
        UsageError: It is not.
    """
    if not _is_number(value) or not 0 <= value < math.inf:
        raise UsageError(f"{name} is {value!r}: give seconds, finite and at least 0")


def check_fraction(name: str, value: Any) -> None:
    """Refuse what is no number from 0 to 1.

    Raises:
        UsageError: It is not.
    """
    if not _is_number(value) or not 0 <= value <= 1:
        raise UsageError(f"{name} is {value!r}: give a number from 0 to 1")


def check_jitter(jitter: float, most: float) -> None:
    """Refuse a jitter that was not drawn from minus *most* to *most*.

    Raises:
        UsageError: It was not: a bug of the driver.
    """
    if not _is_number(jitter) or not -most <= jitter <= most:
        raise UsageError(f"the jitter is {jitter!r}: draw it from {-most:g} to {most:g}")


def fields_of(value: object, what: str, names: tuple[str, ...]) -> dict[str, Any]:
    """Read a JSON object that has exactly the fields *names*.

    Raises:
        UsageError: It is no object, or has others.
    """
    if not isinstance(value, Mapping) or set(value) != set(names):
        raise UsageError(f"not a stored {what}: {value!r}. Give what to_json() gave, unchanged.")
    return dict(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
