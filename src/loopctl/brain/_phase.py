"""Where a run is: the states of the machine.

Rules: a phase that is not terminal is named after the one thing it waits for; a terminal phase bears the name of
its outcome, and nothing leads out of it.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["Phase"]


class Phase(Enum):
    """The states of the brain."""

    READY = "ready"
    """Nothing has happened yet: waits for `Started`."""
    AWAITING_MODEL = "awaiting_model"
    """The last effect was `CallModel`: waits for what became of the request."""
    WAITING = "waiting"
    """The last effect was `Wait`: a request failed, and the same model is asked again when the time is over."""
    AWAITING_TOOLS = "awaiting_tools"
    """The last effect was `RunTools`: waits for the results."""
    COMPLETED = "completed"
    """The model gave a reply without tool calls. The only ending whose scratch is committed."""
    CANCELLED = "cancelled"
    """The run was stopped on request. Not a failure."""
    MAX_TURNS = "max_turns"
    """The model still wanted tools in the last allowed turn."""
    FAILED = "failed"
    """The model's side failed: every model that could be asked was given up."""

    @property
    def is_terminal(self) -> bool:
        """True if the run is over; terminal is for ever."""
        return self in _TERMINAL


_TERMINAL = frozenset({Phase.COMPLETED, Phase.CANCELLED, Phase.MAX_TURNS, Phase.FAILED})
