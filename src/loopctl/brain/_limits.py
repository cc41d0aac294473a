"""What bounds a run, as far as the brain can count it.

Rule: counts only. Whatever needs a clock is the driver's, and reaches the brain as a `CancelRequested`.
"""

from __future__ import annotations

from dataclasses import dataclass

from loopctl.errors import UsageError

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of one run."""

    max_turns: int = 50
    """How often the model may be asked, at least 1. Tool calls of the last turn do not run."""

    def __post_init__(self) -> None:
        """Refuse limits under which no run could begin.

        Raises:
            UsageError: *max_turns* is not a whole number of at least 1.
        """
        value: object = self.max_turns
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise UsageError(f"max_turns is {value!r}: give a whole number of at least 1")
