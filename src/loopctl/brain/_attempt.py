"""One request of a turn: which model is asked, in which way, and what it has used up before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from loopctl.fallback import Route
from loopctl.recovery import Budget

__all__ = ["Attempt", "Mode"]

Mode: TypeAlias = Literal["stream", "request", "rescue"]
"""How a model is asked: streamed; in one piece, because the run is configured so; in one piece, because streaming gave
up."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The request that is under way, or that a wait precedes."""

    route: Route
    mode: Mode
    budget: Budget = field(default_factory=Budget)
    wait: float = 0.0
    """Seconds that are waited before it is sent."""

    def to_json(self) -> dict[str, Any]:
        """The attempt as a JSON object."""
        return {
            "route": self.route.to_json(),
            "mode": self.mode,
            "budget": self.budget.to_json(),
            "wait": self.wait,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Attempt:
        """Read what `to_json` gave.

        Raises:
            KeyError: A part is missing.
            ValueError: A part is out of its range.
            UsageError: The route or the budget is none.
        """
        mode, wait = value["mode"], value["wait"]
        if mode not in get_args(Mode):
            raise ValueError(f"{mode!r} is no way to ask a model")
        if not isinstance(wait, int | float) or isinstance(wait, bool) or not wait >= 0:
            raise ValueError(f"{wait!r} is no time to wait")
        return cls(Route.from_json(value["route"]), mode, Budget.from_json(value["budget"]), wait)
