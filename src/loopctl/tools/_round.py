"""What the dispatch of calls needs of the run that it works for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from loopctl.cancel import CancelToken
from loopctl.concurrency import Ending, Grace, Straggler, poll
from loopctl.record import ApprovalEnded, Checkpoint, Event, ToolCallRecord
from loopctl.recovery import ToolFailure, ToolGivenUp, ToolRetry
from loopctl.tools._approval import Approver
from loopctl.tools._ledger import EffectLedger
from loopctl.tools._pipeline import ToolLayer
from loopctl.tools._tool import Tool

__all__ = ["Round"]


@dataclass(frozen=True, slots=True)
class Round:
    """What the dispatch needs of the run that it works for."""

    run_id: str
    tools: Mapping[str, Tool]
    token: CancelToken
    grace: Grace
    note: Callable[[ToolCallRecord], None]
    """Keeps the newest record of a call."""
    emit: Callable[[Event], Awaitable[None]]
    """Hands an event to the readers; may wait for them."""
    offer: Callable[[Event], object]
    """Hands an event to the readers that have room; never waits. Called on the loop."""
    conclude: Callable[[ApprovalEnded], object]
    """Hands over what closes something, whether the readers have room or not. Called on the loop."""
    drop: Callable[[], object]
    """Counts an event that came too late."""
    abandoned: Callable[[Straggler], None]
    """Keeps a straggler."""
    decide: Callable[[ToolFailure], ToolRetry | ToolGivenUp]
    """Says what follows a failed attempt; the application's strategy runs in it."""
    held: dict[str, Straggler]
    """Resources that abandoned calls still touch, of this run and of others."""
    busy: dict[str, str] = field(default_factory=dict)
    """Resources that running calls of this round touch, and the ids of those calls."""
    approve: Approver | None = None
    """Asked before each call of a tool that needs it; None means nobody can be asked."""
    middleware: tuple[ToolLayer, ...] = ()
    """What stands around each call, outermost first."""
    begin_call: Callable[[ToolCallRecord], Awaitable[Ending]] | None = None
    """Told before a tool is touched; waits until that is on disk. None if it is kept nowhere."""
    ledger: EffectLedger | None = None
    """What `ctx.once` writes to."""

    def poll(self, at: Checkpoint) -> None:
        """Go no further if the run was told to stop.

        Raises:
            Cancelled: It was; *at* is where that was noticed.
        """
        poll(self.token, at)
