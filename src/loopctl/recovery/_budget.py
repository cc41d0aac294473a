"""What one model has used up of one turn's retries, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from loopctl.errors import UsageError
from loopctl.recovery._check import check_count, fields_of

__all__ = ["Budget"]


@dataclass(frozen=True, slots=True)
class Budget:
    """The attempts that were used. Each model begins each turn with `Budget()`.

    A retry for one cause takes nothing from the other: a server that limits the rate is not a server that is down.
    """

    transport_retries: int = 0
    rate_limit_retries: int = 0
    is_rescued: bool = False
    """True once the one non-streaming request was asked for; after it there is nothing left."""

    def __post_init__(self) -> None:
        """Refuse what no decision could have given.

        Raises:
            UsageError: A count is not a whole number of at least 0, or *is_rescued* is not a truth value.
        """
        check_count("Budget.transport_retries", self.transport_retries)
        check_count("Budget.rate_limit_retries", self.rate_limit_retries)
        is_rescued: object = self.is_rescued
        if not isinstance(is_rescued, bool):
            raise UsageError(f"Budget.is_rescued is {is_rescued!r}: give True or False")

    @property
    def attempt(self) -> int:
        """The number of the request that this budget allows, from 1: the first, the retries, the rescue."""
        return 1 + self.transport_retries + self.rate_limit_retries + self.is_rescued

    def to_json(self) -> dict[str, Any]:
        """The budget as a JSON object."""
        return {
            "transport_retries": self.transport_retries,
            "rate_limit_retries": self.rate_limit_retries,
            "is_rescued": self.is_rescued,
        }

    @classmethod
    def from_json(cls, value: object) -> Budget:
        """Read what `to_json` gave.

        Raises:
            UsageError: *value* is not such an object.
        """
        return cls(**fields_of(value, "Budget", ("transport_retries", "rate_limit_retries", "is_rescued")))
