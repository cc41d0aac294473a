"""One attempt of a tool call: through the middleware, past who must say yes, to the tool.

Invariants: the record says what ran and what became of it, whatever the middleware around it tells the model; each text
is recorded as the middleware would let it out, also that of a call which was stopped before they saw it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from loopctl.concurrency import Ending, Straggler, epoch, stop_reason, supervise
from loopctl.errors import Cancelled
from loopctl.messages import ToolCall
from loopctl.record import ApprovalEnded, ApprovalRequested, CallStatus, Checkpoint, ToolCallRecord
from loopctl.recovery import ToolFailure
from loopctl.tools._approval import Approval, Approver, ask, verdict
from loopctl.tools._call_context import CallContext
from loopctl.tools._commands import Commands
from loopctl.tools._context import ToolContext, means_of
from loopctl.tools._executors import work_of_call
from loopctl.tools._finish import acting_token, grace_of
from loopctl.tools._limit import LimitClock, TimeLimit, least
from loopctl.tools._outcome import ToolOutcome
from loopctl.tools._pipeline import outcome_of, rewritten, run_layers
from loopctl.tools._report import Report
from loopctl.tools._resources import claim, hold, let_go, wish_of
from loopctl.tools._round import Round
from loopctl.tools._status import explain, status_of
from loopctl.tools._text import encodable
from loopctl.tools._tool import Tool

__all__ = ["Attempt", "CallState"]

_UNKNOWN = (CallStatus.INTERRUPTED, CallStatus.ABANDONED)


@dataclass(slots=True)
class CallState:
    """What the attempts of one call share."""

    call: ToolCall
    """As the model made it."""
    into: Round
    tool: Tool
    record: ToolCallRecord
    approved: tuple[Mapping[str, Any], ...] = ()
    """The arguments that somebody was asked about, and those that were allowed: nobody is asked about them again."""
    timeouts: int = 0
    """Attempts that took too long."""

    def note(self, record: ToolCallRecord) -> None:
        """Keep the newest record."""
        self.record = record
        self.into.note(record)

    def note_text(self, text: str) -> None:
        """Keep another text for the model."""
        self.note(replace(self.record, result=self.text(text)))

    def text(self, text: str) -> str:
        """Give *text* as the middleware would let it out."""
        return encodable(rewritten(self.into.middleware, text))


class Attempt:
    """One attempt."""

    def __init__(self, state: CallState, arguments: Mapping[str, Any]) -> None:
        """Begin with *arguments*; middleware, and who is asked, may change them."""
        self._state = state
        self.wanted = arguments
        self.arguments = arguments
        """What it ran with, or would have."""
        self._outcome = ToolOutcome.failed("")
        """What the model is told."""
        self._caught: Checkpoint | None = None
        """Where the cancel was noticed, if that was further inside than the middleware."""
        self._is_begun = False
        """True while the tool itself runs."""
        self._grace = grace_of(state.tool, state.into.grace, lambda: self._is_begun)
        self._context: ToolContext | None = None
        """What the tool got."""
        self._is_running = False
        self._retries = 0

    @property
    def is_error(self) -> bool:
        """True unless the model is told of a result."""
        return self._outcome.status is not CallStatus.COMPLETED

    async def run(self) -> None:
        """Do it, and note what came of it.

        Raises:
            Cancelled: The token fired: at `PIPELINE`, `APPROVAL` or `TOOL_CALL`.

        Cancellation:
            A checkpoint, bounded by the grace.
        """
        state, into, call = self._state, self._state.into, self._state.call
        report = Report((call.id, call.name, into.run_id), into.token, into.offer, state.text, into.drop)
        context = CallContext(
            call.id,
            call.name,
            into.token,
            f"{into.run_id}:{call.id}",
            report,
            read_only=state.tool.read_only,
            ledger=into.ledger,
            commands=Commands(into.grace.seconds),
        )
        means = means_of(context)
        # Those of the layers and of who is asked touch nothing that the tool holds.
        means.commands.keep = functools.partial(self._keep, context, frozenset(), f"command of {state.call.name}")
        try:
            with acting_token(state.tool, into.token) as means.acting:
                if into.middleware:
                    await self._pipe(context)
                else:
                    await self._do(context)
        finally:
            report.is_open = False
            means.is_over = True
            if self._context is not None:
                means_of(self._context).is_over = True

    @property
    def error(self) -> BaseException | None:
        """What the tool, or the middleware around it, raised."""
        return self._outcome.error

    def failure(self, number: int) -> ToolFailure | None:
        """Give what the recovery is asked about; None if there is nothing to recover: the tool did what it does."""
        record = self._state.record
        if self._outcome.status is not CallStatus.FAILED or record.status is not CallStatus.FAILED:
            return None
        error = self._outcome.error if isinstance(self._outcome.error, Exception) else None
        call = replace(self._state.call, arguments=self.arguments)
        return ToolFailure(call, record.result or "", number, error, self._is_running, self._retries)

    async def _pipe(self, context: CallContext) -> None:
        """Run the middleware with the tool inside of it."""
        state, into = self._state, self._state.into
        begun = state.record.attempts

        async def do(call: ToolCall) -> ToolOutcome:
            self.arguments = call.arguments
            return await self._do(context)

        call = replace(state.call, arguments=self.wanted)
        ending = await run_layers(into.middleware, call, context, do, self._grace)
        self._abandon(ending.straggler, f"middleware of {call.name}")
        ending.raise_if_stopped(self._caught)
        if self._caught is not None:  # a drain, which leaves the layers alone; what they made of it does not count
            raise Cancelled(stop_reason(into.token), self._caught)
        self._take(outcome_of(ending), has_run=state.record.attempts > begun)

    def _take(self, outcome: ToolOutcome, *, has_run: bool) -> None:
        """Note what the pipeline gave. What became of a tool that ran is not for a layer to say."""
        self._outcome = outcome
        record = self._state.record
        status = record.status if has_run else self._unrun(outcome)
        if status in _UNKNOWN:  # a layer stopped it, and not the run
            status = CallStatus.FAILED
        self._state.note(replace(record, status=status, result=encodable(outcome.content)))

    def _unrun(self, outcome: ToolOutcome) -> CallStatus:
        """Give the status of an attempt in which the tool did not run: a no to a second attempt undoes no first one."""
        is_denied = outcome.status is CallStatus.DENIED
        return CallStatus.FAILED if is_denied and self._state.record.attempts else outcome.status

    async def _do(self, context: CallContext) -> ToolOutcome:
        """Run the tool, if it may run."""
        tool = self._state.tool
        if tool.approval is not False or context.needs_approval:
            refusal = await self._refusal(context)
            if refusal is not None:
                return self._note(refusal)
        try:
            bound = tool.bind(self.arguments)
            resources = wish_of(tool, self.arguments).resources
            claim(self._state.call.id, resources, self._state.into)
        except Exception as unfit:  # validators of the tool's own types run here, and may raise `Cancelled` for one
            return self._note(ToolOutcome.failed(explain(unfit), unfit))
        return await self._run_tool(bound, resources, context)

    def _note(self, outcome: ToolOutcome) -> ToolOutcome:
        """Note the end of an attempt in which the tool did not run."""
        record, text = self._state.record, self._state.text(outcome.content)
        self._state.note(replace(record, arguments=self.arguments, status=self._unrun(outcome), result=text))
        self._outcome = outcome
        return outcome

    async def _refusal(self, context: CallContext) -> ToolOutcome | None:
        """Ask for approval, if the call needs it; None if the call may run."""
        state = self._state
        try:
            state.tool.bind(self.arguments)  # nobody is asked about a call that cannot be made
            if state.tool.needs_approval(self.arguments):
                context.require_approval()
        except Exception as unfit:  # as in `_do`; and what the tool declares is a function of the application
            return ToolOutcome.failed(explain(unfit), unfit)
        if not context.needs_approval:
            return None
        if self.arguments in state.approved:
            self.arguments = state.approved[-1]
            return None
        call, approve = replace(state.call, arguments=self.arguments), state.into.approve
        answer = verdict(call, None) if approve is None else await self._ask(approve, call, context)
        if not answer.is_allowed:
            return ToolOutcome.denied(answer.text)
        allowed = self.arguments if answer.arguments is None else answer.arguments
        state.approved, self.arguments = (self.arguments, allowed), allowed
        return None

    async def _ask(self, approve: Approver, call: ToolCall, context: CallContext) -> Approval:
        """Ask, and tell the readers when that begins and when it is over, on every path."""
        state, into = self._state, self._state.into
        asked = replace(state.record, arguments=call.arguments)
        self._caught = Checkpoint.DELIVERY  # if the next line is left by a cancel
        await into.emit(ApprovalRequested(asked, into.run_id))
        how: Literal["allowed", "denied", "withdrawn"] = "withdrawn"
        try:
            ending = await ask(approve, call, context, into.grace)
            self._abandon(ending.straggler, "approve")
            self._raise_if_stopped(ending)
            answer = verdict(call, ending)
            how = "allowed" if answer.is_allowed else "denied"
        finally:
            into.conclude(ApprovalEnded(asked, how, into.run_id))
        self._caught = None
        return answer

    async def _run_tool(self, bound: dict[str, Any], resources: frozenset[str], context: CallContext) -> ToolOutcome:
        state, into = self._state, self._state.into
        own = () if state.tool.timeout is None else (TimeLimit(state.tool.timeout),)
        limit = least((*own, *context.limits), state.timeouts)
        started = epoch()
        await self._announce(resources, started)
        means_of(context).commands.keep = functools.partial(
            self._keep, context, resources, f"command of {state.call.name}"
        )
        ending = await self._supervise(bound, context, limit)
        if ending.straggler is not None:
            self._keep(context, resources, state.call.name, ending.straggler)
        let_go(resources, into)
        if ending.stopped_by == "timeout" and ending.how != "returned":
            assert limit is not None
            self._outcome = self._timed_out(limit)
            self._note_run(CallStatus.FAILED, self._outcome.content, started)
            return self._outcome
        if ending.how == "not_started":
            self._raise_if_stopped(ending)
        status, text = status_of(ending)
        self._note_run(status, text, started)
        self._raise_if_stopped(ending)
        self._outcome = ToolOutcome(status, text or "", ending.value, ending.error)
        return self._outcome

    async def _announce(self, resources: frozenset[str], started: float) -> None:
        """Have it written that the tool is about to be touched: until its end is written too, its effect is unknown."""
        into, record = self._state.into, self._state.record
        if into.begin_call is None:
            return
        about = replace(
            record,
            arguments=self.arguments,
            status=CallStatus.INTERRUPTED,
            attempts=record.attempts + 1,
            started_at=record.started_at or started,
            ended_at=None,
        )
        ending = await into.begin_call(about)
        if ending.stopped_by is not None:
            let_go(resources, into)
            self._raise_if_stopped(ending)

    async def _supervise(self, bound: dict[str, Any], context: CallContext, limit: TimeLimit | None) -> Ending:
        into = self._state.into
        token, acting, clock = into.token, means_of(context).acting, None
        if limit is not None:
            stop, end = token.child(), acting.child()
            token, acting, clock = stop.token, end.token, LimitClock(limit, stop, end)
        self._context = context.for_tool(token, acting)
        self._is_begun = True
        ending = await supervise(
            work_of_call(self._state.tool, bound, self._context),
            into.token,
            grace=self._grace,
            at=Checkpoint.TOOL_CALL,
            patience=clock,
        )
        self._is_begun = False
        return ending

    def _timed_out(self, limit: TimeLimit) -> ToolOutcome:
        self._state.timeouts += 1
        self._retries = limit.retries
        if self._is_running:
            how = "did not stop: it may still be running, and is not tried again. Its effect is unknown."
        else:
            how = "was stopped. Whether it had an effect is unknown."
        text = f"The call took longer than {limit.seconds:g} s and {how}"
        return ToolOutcome.failed(text, TimeoutError(text))

    def _note_run(self, status: CallStatus, text: str | None, started: float) -> None:
        """Note what became of the tool, in the record only: the middleware has not seen it yet."""
        state, record = self._state, self._state.record
        ran = replace(
            record,
            arguments=self.arguments,
            status=status,
            result=None if text is None else state.text(text),
            attempts=record.attempts + 1,
            started_at=record.started_at or started,
            ended_at=None if status is CallStatus.ABANDONED else epoch(),
        )
        state.note(ran)

    def _raise_if_stopped(self, ending: Ending) -> None:
        if ending.reason is not None:
            self._caught = ending.at
        ending.raise_if_stopped()

    def _keep(self, context: CallContext, resources: frozenset[str], name: str, straggler: Straggler) -> None:
        """Note work of the tool that goes on, and keep what it touches from others until it has ended."""
        self._is_running = True
        context.still_running.append(straggler)
        self._abandon(straggler, name)
        hold(resources, straggler, self._state.into.held)

    def _abandon(self, straggler: Straggler | None, name: str) -> None:
        if straggler is not None:
            straggler.name, straggler.call_id = name, self._state.call.id
            self._state.into.abandoned(straggler)
