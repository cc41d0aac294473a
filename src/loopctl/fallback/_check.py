"""Checks of what a person configures, and of what was stored as JSON; each error names the value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeGuard

from loopctl.errors import UsageError

__all__ = ["check_count", "check_seconds", "fields_of", "is_time"]


def check_count(name: str, value: object, least: int, most: float = math.inf) -> None:
    """Refuse what is no whole number from *least* to *most*.

    Raises:
        UsageError: It is not.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        bounds = f"from {least} on" if most == math.inf else f"from {least} to {most:g}"
        raise UsageError(f"{name} is {value!r}: give a whole number {bounds}")


def check_seconds(name: str, value: object) -> None:
    """Refuse what is no finite number of seconds of at least 0.

    Raises:
        UsageError: It is not.
    """
    if not is_time(value) or value < 0:
        raise UsageError(f"{name} is {value!r}: give seconds, finite and at least 0")


def is_time(value: object) -> TypeGuard[float]:
    """True for a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def fields_of(value: object, what: str, names: tuple[str, ...]) -> dict[str, Any]:
    """Read a JSON object that has exactly the fields *names*.

    Raises:
        UsageError: It is no object, or has others.
    """
    if not isinstance(value, Mapping) or set(value) != set(names):
        raise UsageError(f"not a stored {what}: {value!r}. Give what to_json() gave, unchanged.")
    return dict(value)
