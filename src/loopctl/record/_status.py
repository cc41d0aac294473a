"""What a run is doing, as it was seen at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from loopctl.record._checkpoint import Checkpoint
from loopctl.record._reason import CancelReason

__all__ = ["RunStatus"]


@dataclass(frozen=True, slots=True)
class RunStatus:
    """A run that goes on, as it was when somebody looked."""

    id: str
    session_id: str
    model: str
    """The name of the model that is asked, or was asked last."""
    started_at: float
    """Epoch seconds."""
    turn: int
    """From 1; 0 before the first."""
    checkpoint: Checkpoint
    """What it waits at, or passed last."""
    tools: tuple[str, ...] = ()
    """The tools that run; of those that somebody is asked about, only these."""
    stopping: CancelReason | None = None
    """Why it is being stopped; None if it is not."""
    blocked_at: str = ""
    """`file:line` of code that keeps the event loop's thread, and with it the stop; empty if there is none."""
    pid: int = 0
    """The process that it is in; 0 for this one."""
    command: str = ""
    """What that process runs, as far as it says; empty for this one."""

    @property
    def state(self) -> Literal["running", "stopping"]:
        """`stopping` from the cancel on."""
        return "running" if self.stopping is None else "stopping"

    def to_json(self) -> dict[str, Any]:
        """The status as a JSON object."""
        return {
            "id": self.id,
            "session_id": self.session_id,
            "state": self.state,
            "model": self.model,
            "started_at": self.started_at,
            "turn": self.turn,
            "checkpoint": self.checkpoint.name,
            "tools": list(self.tools),
            "stopping": None if self.stopping is None else self.stopping.to_json(),
            "blocked_at": self.blocked_at,
            "pid": self.pid,
            "command": self.command,
        }
