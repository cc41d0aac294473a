"""What a cancel by id did, as frozen data.

Rule: a receipt never lies. What it says of a run is what the run's record says, or will say.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from loopctl.record import Outcome, Run

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
    run: Run | None = field(default=None, compare=False)
    """The record, where it is at hand; always there if the state is `ended` and the run is one of this process."""

    def to_json(self) -> dict[str, Any]:
        """The receipt as a JSON object; of the record, how the run was stopped."""
        stop = None if self.run is None else self.run.stop
        return {
            "run_id": self.run_id,
            "state": self.state,
            "outcome": self.outcome,
            "stop": None if stop is None else stop.to_json(),
        }
