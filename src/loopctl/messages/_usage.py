"""How many tokens were used, and whether that is the whole truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Usage"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts. None means unknown; it is never written as zero.

    Source: most servers tell the usage only at the end of a stream, so a stopped one leaves it unknown.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    is_partial: bool = False
    """True if something was used beyond what the counts say: a request ended before its usage was told."""

    @property
    def total_tokens(self) -> int | None:
        """Input plus output as far as known; None if neither is."""
        if self.input_tokens is None and self.output_tokens is None:
            return None
        return (self.input_tokens or 0) + (self.output_tokens or 0)

    def __add__(self, other: Usage) -> Usage:
        """Sum two usages; a side that is unknown adds nothing but its partial mark."""
        return Usage(
            _sum(self.input_tokens, other.input_tokens),
            _sum(self.output_tokens, other.output_tokens),
            self.is_partial or other.is_partial,
        )

    def to_json(self) -> dict[str, Any]:
        """The counts as a JSON object."""
        return {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "is_partial": self.is_partial,
        }


def _sum(left: int | None, right: int | None) -> int | None:
    if left is None or right is None:
        return left if right is None else right
    return left + right
