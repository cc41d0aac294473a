"""What a cancel by id did, as frozen data.

Rule: a receipt never lies. What it says of a run is what the run's record says, or will say.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from loopctl.record import Outcome, Run, Stop

__all__ = ["Receipt", "ReceiptState"]

ReceiptState: TypeAlias = Literal["ended", "cancelling", "already_ended", "unknown"]
"""`ended`: it was cancelled and has ended. `cancelling`: it was cancelled and had not ended when the wait was over.
`already_ended`: the cancel came too late and changed nothing. `unknown`: no such run is known, or not any more."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of one cancel.

    A cancel of a run that is being cancelled already joins that cancel: its receipt is `ended` or `cancelling`, too.
    """

    run_id: str
    state: ReceiptState
    outcome: Outcome | None = None
    """How the run ended: `cancelled` if the state is `ended`. None if it has not, or is unknown."""
    stop: Stop | None = field(default=None, compare=False)
    """How it was stopped; there if the state is `ended`."""
    blocked_at: str = field(default="", compare=False)
    """`file:line` of code that keeps the run's event loop, and with it the end; empty if there is none."""
    silent: tuple[int, ...] = ()
    """Processes that did not answer: an unknown run may be in one of them."""
    run: Run | None = field(default=None, compare=False)
    """The record, if the run is one of this process and has just ended."""

    @property
    def is_open(self) -> bool:
        """True while the run has not ended: what is said of it is not the last word."""
        return self.state != "unknown" and self.outcome is None

    def to_json(self) -> dict[str, Any]:
        """The receipt as a JSON object, without the record."""
        return {
            "run_id": self.run_id,
            "state": self.state,
            "outcome": self.outcome,
            "stop": None if self.stop is None else self.stop.to_json(),
            "blocked_at": self.blocked_at,
            "silent": list(self.silent),
        }
