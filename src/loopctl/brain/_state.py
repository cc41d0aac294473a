"""All that the brain knows, as one frozen value.

Rule: a step replaces it and never changes it, so a refused input leaves everything as it was.
"""

from __future__ import annotations

from dataclasses import dataclass

from loopctl.brain._attempt import Attempt
from loopctl.brain._limits import Limits
from loopctl.brain._phase import Phase
from loopctl.brain._tool_round import NO_ROUND, ToolRound
from loopctl.messages import Message
from loopctl.recovery import ModelRecovery

__all__ = ["State"]


@dataclass(frozen=True, slots=True)
class State:
    """The whole state of one run."""

    tools: frozenset[str]
    """The names of the tools that exist."""
    limits: Limits
    recovery: ModelRecovery
    is_streaming: bool
    """False if models are asked in one piece from the beginning."""
    phase: Phase = Phase.READY
    turn: int = 0
    """The turn that runs, or ran last; 0 before the first."""
    history: tuple[Message, ...] = ()
    """The conversation before this run."""
    scratch: tuple[Message, ...] = ()
    """What this run adds, committed only if it completes."""
    round: ToolRound = NO_ROUND
    """The round whose results are awaited; `NO_ROUND` in every phase but AWAITING_TOOLS."""
    attempt: Attempt | None = None
    """The request that is awaited or waited for; None in every phase but AWAITING_MODEL and WAITING."""
