"""The runs of one agent in this process, to be cancelled by id: those that go on, and how the last ones ended.

Rules: a cancel is for the one run that it names; whether it was in time is decided by the run's own token and nothing
else; an end is noted before the run leaves the active ones, so that a known run is never unknown in between.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress

from loopctl.cancel import CancelSignal
from loopctl.concurrency import check_seconds, sleep
from loopctl.control._receipt import Receipt
from loopctl.driver import Agent, RunHandle
from loopctl.errors import Cancelled
from loopctl.observers import check_observers
from loopctl.record import CancelReason, Event, Outcome, Run, RunEnded, Urgency

__all__ = ["LiveRuns", "Pressed", "press"]

_KEPT = 1000
"""Ended runs whose outcome is remembered."""
_BEYOND_GRACE = 1.0
"""Seconds more than the grace that a cancel waits for the end if it is not told how long."""


class Pressed:
    """A cancel that was made: what it did so far, and the wait for the rest."""

    def __init__(
        self, receipt: Receipt, handle: RunHandle | None = None, patience: float = 0.0, *, is_in_time: bool = False
    ) -> None:
        """Keep *receipt*, and *handle* if the run has not ended; *patience* is how long to wait for that."""
        self.receipt = receipt
        """As things were when it was made."""
        self._handle = handle
        self._patience = patience
        self._is_in_time = is_in_time

    async def wait(self, seconds: float | None = None) -> Receipt:
        """Wait for the run's end, *seconds* at most.

        Returns:
            The receipt.

        Cancellation:
            Ends the wait, and nothing else.
        """
        if self._handle is None:
            return self.receipt
        over = CancelSignal()
        self._handle.on_end(lambda _: over.cancel())
        with suppress(Cancelled):  # it is over
            await sleep(self._patience if seconds is None else seconds, over)
        return self.now()

    def now(self) -> Receipt:
        """Give the receipt as things are now."""
        return self.receipt if self._handle is None else receipt_of(self._handle, is_in_time=self._is_in_time)


class LiveRuns:
    """The runs of one agent, in all of its sessions in this process."""

    def __init__(self, agent: Agent) -> None:
        """Follow *agent*'s runs from now on; it is one of its observers until `close`."""
        self._agent = agent
        self._ended: deque[tuple[str, Outcome]] = deque(maxlen=_KEPT)
        agent.observers = check_observers((*agent.observers, self._observe))
        for handle in agent.active:  # these began with the observers of before
            handle.on_end(self._keep)

    @property
    def active(self) -> tuple[RunHandle, ...]:
        """The runs that have not ended, the oldest first."""
        return self._agent.active

    async def cancel(
        self,
        run_id: str,
        reason: CancelReason | str | None = None,
        urgency: Urgency = Urgency.STOP,
        *,
        wait: float | None = None,
    ) -> Receipt:
        """Cancel the run *run_id* and nothing else, and say what that did.

        May be awaited on any event loop, of any thread. Again is allowed: a stronger urgency acts, everything else
        joins the cancel that is under way.

        Args:
            run_id: The id of a run of this agent.
            reason: Why; None and a text mean that the user asked.
            urgency: How hard.
            wait: Seconds to wait for the run's end; None is the grace of the agent's runs and one more.

        Returns:
            The receipt; one that says `unknown` for an id that is not known.

        Raises:
            UsageError: *reason*, *urgency* or *wait* is none.

        Cancellation:
            Ends the wait. The cancel itself was made before it, and stays.
        """
        seconds = None if wait is None else check_seconds("wait", wait)
        return await self.press(run_id, reason, urgency).wait(seconds)

    def press(self, run_id: str, reason: CancelReason | str | None = None, urgency: Urgency = Urgency.STOP) -> Pressed:
        """Cancel the run *run_id* as `cancel` does, without waiting for anything; from any thread."""
        reason = CancelReason.of(reason)
        handle = self.find(run_id)
        if handle is None:
            return Pressed(self.recall(run_id))
        is_in_time = press(handle, reason, urgency)
        return Pressed(
            receipt_of(handle, is_in_time=is_in_time),
            handle,
            self._agent.config.grace + _BEYOND_GRACE,
            is_in_time=is_in_time,
        )

    def close(self) -> None:
        """Follow the agent no more: how its later runs end is not known here. Again changes nothing."""
        self._agent.observers = check_observers(known for known in self._agent.observers if known != self._observe)

    def find(self, run_id: str) -> RunHandle | None:
        """Give the handle of the run *run_id* if it has not ended."""
        return next((handle for handle in self.active if handle.id == run_id), None)

    def recall(self, run_id: str) -> Receipt:
        """Say how the run *run_id*, which is not active, ended."""
        outcome = dict(self._ended.copy()).get(run_id)
        return Receipt(run_id, "unknown") if outcome is None else Receipt(run_id, "already_ended", outcome)

    def _observe(self, event: Event) -> None:
        if isinstance(event, RunEnded):
            self._keep(event.run)

    def _keep(self, run: Run) -> None:
        self._ended.append((run.id, run.outcome))


def press(handle: RunHandle, reason: CancelReason, urgency: Urgency) -> bool:
    """Cancel the run of *handle*; True if it is a cancelled run now, by this or by an earlier cancel."""
    return handle.cancel(reason, urgency=urgency) or (handle.run is None and handle.is_stopping)


def receipt_of(handle: RunHandle, *, is_in_time: bool) -> Receipt:
    """Give the receipt of a cancel, as things stand now; *is_in_time* is what `press` gave."""
    run = handle.run
    if run is None:
        return Receipt(handle.id, "cancelling" if is_in_time else "already_ended", blocked_at=handle.status.blocked_at)
    return Receipt(handle.id, "ended" if is_in_time else "already_ended", run.outcome, run.stop, run=run)
