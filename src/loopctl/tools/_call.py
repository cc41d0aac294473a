"""One tool call, from the event of its start to the event of its end.

Invariants: a call that was begun is recorded with its one status before anything is raised. A retry is the same call:
one `ToolStarted`, one `ToolFinished`, one idempotency key.
"""

from __future__ import annotations

import logging

from loopctl.concurrency import breathe, sleep
from loopctl.errors import ToolError
from loopctl.messages import ToolCall, ToolResult
from loopctl.record import CallStatus, Checkpoint, ToolCallRecord, ToolFinished, ToolStarted
from loopctl.recovery import ToolRetry
from loopctl.tools._attempt import Attempt, CallState
from loopctl.tools._round import Round

__all__ = ["Call"]

_log = logging.getLogger("loopctl")


class Call:
    """One call."""

    def __init__(self, call: ToolCall, into: Round, *, has_siblings: bool = False) -> None:
        """Prepare to run *call*; with siblings, others of its wave begin in the same turn of the loop."""
        record = ToolCallRecord(call.id, call.name, call.arguments, CallStatus.NOT_STARTED)
        self._state = CallState(call, into, into.tools[call.name], record)
        self._into = into
        self._has_siblings = has_siblings

    async def run(self) -> ToolResult:
        """Run it, and run it again as often as the recovery says.

        Raises:
            Cancelled: The token fired: at `DELIVERY`, `RECOVERY_WAIT`, or where an attempt is.

        Cancellation:
            A checkpoint in each of its waits.
        """
        into, state = self._into, self._state
        await into.emit(ToolStarted(state.record, into.run_id))
        if self._has_siblings:  # those that begin together are all announced before the first of them does anything
            await breathe()
            into.poll(Checkpoint.WAVE)
        attempt, number = Attempt(state, state.call.arguments), 1
        await attempt.run()
        while (retry := self._retry(attempt, number)) is not None:
            await sleep(retry.after, into.token, at=Checkpoint.RECOVERY_WAIT)
            # The same arguments again: the middleware is given what it was given before, and changes it as before.
            is_same = retry.arguments == attempt.arguments
            attempt, number = Attempt(state, attempt.wanted if is_same else retry.arguments), number + 1
            await attempt.run()
        record = state.record
        await into.emit(ToolFinished(record, into.run_id))
        return ToolResult(record.id, record.result or "", is_error=attempt.is_error)

    def _retry(self, attempt: Attempt, number: int) -> ToolRetry | None:
        if attempt.error is not None and not isinstance(attempt.error, ToolError):
            # The model is given its text; where it was raised, only the author of the tool needs to know.
            _log.debug("%s (%s) failed", self._state.call.name, self._state.call.id, exc_info=attempt.error)
        failure = attempt.failure(number)
        if failure is None:
            return None
        try:
            decision = self._into.decide(failure)
        except Exception:  # the application's strategy runs here
            _log.warning("the recovery of %s failed: its error goes to the model", failure.call.name, exc_info=True)
            return None
        if isinstance(decision, ToolRetry):
            return decision
        if decision.text != failure.text:  # words of the strategy, which knows the error itself
            self._state.note_text(decision.text)
        return None
