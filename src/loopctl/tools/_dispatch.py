"""Run the calls of one reply: one after the other, or in waves.

Invariants: the token is polled before each call, and a call that was not begun stays `not_started`; each call that
was begun is recorded with its one status before anything is raised; nothing here decides what the model is told next.
A retry is the same call: one `ToolStarted`, one `ToolFinished`, one idempotency key.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from loopctl.concurrency import (
    Ending,
    ForeignWork,
    Grace,
    Patience,
    Straggler,
    breathe,
    sleep,
    stop_reason,
    supervise,
    together,
)
from loopctl.errors import Cancelled, ToolError
from loopctl.messages import ToolCall, ToolResult
from loopctl.record import (
    ApprovalEnded,
    ApprovalRequested,
    CallStatus,
    Checkpoint,
    Event,
    ToolCallRecord,
    ToolFinished,
    ToolStarted,
)
from loopctl.recovery import ToolFailure, ToolRetry
from loopctl.tools._approval import Approval, Approver, ask, verdict
from loopctl.tools._commands import Commands
from loopctl.tools._context import ToolContext
from loopctl.tools._executors import work_of_call
from loopctl.tools._finish import acting_token, grace_of
from loopctl.tools._outcome import ToolOutcome
from loopctl.tools._pipeline import outcome_of, run_layers
from loopctl.tools._report import Report
from loopctl.tools._round import Round
from loopctl.tools._status import begun, ended, explain
from loopctl.tools._text import encodable
from loopctl.tools._tool import Tool
from loopctl.tools._waves import Wish, plan

__all__ = ["run_in_waves", "run_sequentially"]

_log = logging.getLogger("loopctl")


async def run_sequentially(calls: tuple[ToolCall, ...], into: Round) -> tuple[ToolResult, ...]:
    """Run *calls* in order.

    Returns:
        One result for each call.

    Raises:
        Cancelled: The token fired: at `BETWEEN_CALLS`, `TOOL_CALL`, `RECOVERY_WAIT` or `DELIVERY`.

    Cancellation:
        A checkpoint before and during each call.
    """
    results = []
    for call in calls:
        _poll(into, Checkpoint.BETWEEN_CALLS)
        results.append(await _Call(call, into).run())
    return tuple(results)


async def run_in_waves(calls: tuple[ToolCall, ...], into: Round, limit: int) -> tuple[ToolResult, ...]:
    """Run *calls*, side by side those that may, at most *limit* of them at once.

    Returns:
        One result for each call, in the order of *calls*.

    Raises:
        Cancelled: The token fired: at the innermost wait of the first call that was running, in the order of *calls*;
            at `WAVE` if none was.

    Cancellation:
        A checkpoint at the top of each wave, before each queued call and during each call.
    """
    results: dict[int, ToolResult] = {}
    for wave in plan([_wish(into.tools[call.name], call.arguments) for call in calls]):
        _poll(into, Checkpoint.WAVE)
        if len(wave) == 1:
            results[wave[0]] = await _Call(calls[wave[0]], into).run()
            continue
        door = replace(into, emit=_Door(into).emit)
        works = [functools.partial(_run_queued, calls[index], door) for index in wave]
        results.update(zip(wave, await together(works, limit=limit, name="loopctl call"), strict=True))
    return tuple(results[index] for index in range(len(calls)))


async def _run_queued(call: ToolCall, into: Round) -> ToolResult:
    _poll(into, Checkpoint.WAVE)
    return await _Call(call, into, has_siblings=True).run()


def _poll(into: Round, at: Checkpoint) -> None:
    if into.token.is_cancelled():
        raise Cancelled(stop_reason(into.token), at)


def _wish(tool: Tool, arguments: Mapping[str, Any]) -> Wish:
    """What the tool says of a call; a call of which it cannot say it runs alone."""
    try:
        return tool.wish(arguments)
    except Exception:  # what a tool declares may be a function of the application
        _log.warning("tool %s cannot say what a call may run beside: the call runs alone", tool.name, exc_info=True)
        return Wish()


class _Door:
    """Lets the calls of one wave hand over their events one at a time, as a run does that has one call."""

    def __init__(self, into: Round) -> None:
        self._into = into
        self._busy: asyncio.Future[None] | None = None

    async def emit(self, event: Event) -> None:
        while self._busy is not None:
            work = ForeignWork(self._busy)
            ending = await supervise(work, self._into.token, grace=Grace(0), at=Checkpoint.DELIVERY)
            ending.raise_if_stopped()
        passed = self._busy = asyncio.get_running_loop().create_future()
        try:
            await self._into.emit(event)
        finally:
            self._busy = None
            passed.set_result(None)


class _Call:
    """One call, from the event of its start to the event of its end."""

    def __init__(self, call: ToolCall, into: Round, *, has_siblings: bool = False) -> None:
        self._call = call
        self._into = into
        self._tool = into.tools[call.name]
        self._arguments = call.arguments
        """Those of the current attempt."""
        self._has_siblings = has_siblings
        self._allowed: Mapping[str, Any] | None = None
        """What was approved: another attempt with the same arguments does not ask again."""
        self._error: BaseException | None = None
        """What the current attempt failed with."""
        self._value: Any = None
        """What the current attempt returned."""
        self._caught: Checkpoint | None = None
        """Where the cancel was noticed, if that was further inside than the middleware."""
        self._is_running = False
        """True if the current attempt was abandoned."""
        self._is_begun = False
        """True while the tool itself runs."""
        self._grace = grace_of(self._tool, into.grace, lambda: self._is_begun)
        self._record = ToolCallRecord(call.id, call.name, call.arguments, CallStatus.NOT_STARTED)

    async def run(self) -> ToolResult:
        """Run it, and run it again as often as the recovery says."""
        into = self._into
        await into.emit(ToolStarted(self._record, into.run_id))
        if self._has_siblings:  # those that begin together are all announced before the first of them does anything
            await breathe()
            _poll(into, Checkpoint.WAVE)
        attempt = 1
        while (after := await self._attempt(attempt)) is not None:
            await sleep(after, into.token, at=Checkpoint.RECOVERY_WAIT)
            attempt += 1
        record = self._record
        await into.emit(ToolFinished(record, into.run_id))
        return ToolResult(record.id, record.result or "", is_error=record.status is not CallStatus.COMPLETED)

    async def _attempt(self, number: int) -> float | None:
        """Try once.

        Returns:
            Seconds to wait before the next attempt; None if there is none.
        """
        self._error, self._is_running = None, False
        call, into = self._call, self._into
        report = Report(call.id, call.name, into.run_id, into.token, into.offer)
        with acting_token(self._tool, into.token) as acting:
            key = f"{into.run_id}:{call.id}"
            commands = Commands(into.grace.seconds)
            context = ToolContext(call.id, call.name, into.token, key, report, commands=commands, ledger=into.ledger)
            context._acting = acting
            try:
                if into.middleware:
                    await self._pipe(context)
                else:
                    await self._do(context)
            finally:
                report.is_open = False
                context._end()
        if self._record.status is not CallStatus.FAILED:
            return None
        return self._recover(self._failure(number))

    def _failure(self, number: int) -> ToolFailure:
        known = self._error if isinstance(self._error, Exception) else None
        call = replace(self._call, arguments=self._arguments)
        return ToolFailure(call, self._record.result or "", number, known, self._is_running)

    async def _pipe(self, context: ToolContext) -> None:
        """Run the middleware with the tool inside of it, and note what came of it."""
        into = self._into
        self._caught = None

        async def do(call: ToolCall) -> ToolOutcome:
            self._arguments = call.arguments
            await self._do(context)
            record = self._record
            status = CallStatus.FAILED if record.status is CallStatus.ABANDONED else record.status
            return ToolOutcome(status, record.result or "", self._value, self._error)

        call = replace(self._call, arguments=self._arguments)
        ending = await run_layers(into.middleware, call, context, do, self._grace)
        self._abandon(ending.straggler, f"middleware of {call.name}")
        if ending.stopped_by is not None:  # what the layers would have made of the text is not known: a secret, perhaps
            self._note(replace(self._record, result=None))
        ending.raise_if_stopped(self._caught)
        if self._caught is not None:  # a drain ended a question, which the layers do not hear of
            raise Cancelled(stop_reason(into.token), self._caught)
        self._take(outcome_of(ending))

    def _take(self, outcome: ToolOutcome) -> None:
        """Note what the pipeline gave; the id and the name are the engine's."""
        is_late = self._record.status is CallStatus.ABANDONED
        status = CallStatus.ABANDONED if is_late else outcome.status
        record = replace(self._record, arguments=self._arguments, status=status)
        self._note(replace(record, result=encodable(outcome.content)))
        self._error = outcome.error

    async def _do(self, context: ToolContext) -> None:
        """Run the tool, if it may run, and note what came of it."""
        is_allowed = self._tool.approval is False or self._allowed == self._arguments
        if not is_allowed and not await self._is_allowed(context):
            return
        record = replace(self._record, arguments=self._arguments)
        try:
            bound = self._tool.bind(self._arguments)
            resources = self._claim()
        except Exception as unfit:  # validators of the tool's own types run here, and may raise `Cancelled` for one
            self._fail(unfit)
            return
        ending = await self._supervise(bound, resources, context)
        self._error = ending.error
        self._value = ending.value
        is_unbegun = ending.how == "not_started" and ending.stopped_by != "timeout"
        self._note(self._record if is_unbegun else ended(begun(record), ending))
        self._raise_if_stopped(ending)

    def _raise_if_stopped(self, ending: Ending) -> None:
        if ending.reason is not None:
            self._caught = ending.at
        ending.raise_if_stopped()

    async def _is_allowed(self, context: ToolContext) -> bool:
        """Ask for approval, if the call needs it."""
        try:
            self._tool.bind(self._arguments)  # nobody is asked about a call that cannot be made
            if not self._tool.needs_approval(self._arguments):
                return True
        except Exception as unfit:  # as in `_do`; and what the tool declares is a function of the application
            self._fail(unfit)
            return False
        call, approve = replace(self._call, arguments=self._arguments), self._into.approve
        answer = verdict(call, None) if approve is None else await self._ask(approve, call, context)
        if not answer.is_allowed:
            refused = replace(self._record, arguments=self._arguments, status=CallStatus.DENIED)
            self._note(replace(refused, result=encodable(answer.text)))
            return False
        if answer.arguments is not None:
            self._arguments = answer.arguments
        self._allowed = self._arguments
        return True

    async def _ask(self, approve: Approver, call: ToolCall, context: ToolContext) -> Approval:
        """Ask, and tell the readers when that begins and when it is over, on every path."""
        into = self._into
        asked = replace(self._record, arguments=call.arguments)
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

    def _fail(self, unfit: Exception) -> None:
        self._error = unfit
        record = replace(self._record, arguments=self._arguments)
        self._note(replace(record, status=CallStatus.FAILED, result=explain(unfit)))

    def _note(self, record: ToolCallRecord) -> None:
        self._record = record
        self._into.note(record)

    def _recover(self, failure: ToolFailure) -> float | None:
        try:
            decision = self._into.decide(failure)
        except Exception:  # the application's strategy runs here
            _log.warning("the recovery of %s failed: its error goes to the model", failure.call.name, exc_info=True)
            return None
        if isinstance(decision, ToolRetry):
            self._arguments = decision.arguments
            return decision.after
        self._note(replace(self._record, result=encodable(decision.text)))
        return None

    async def _supervise(self, arguments: dict[str, Any], resources: frozenset[str], context: ToolContext) -> Ending:
        into = self._into
        keep = functools.partial(self._hold, resources)
        context._commands.keep = keep
        self._is_begun = True
        ending = await supervise(
            work_of_call(self._tool, arguments, context),
            into.token,
            grace=self._grace,
            at=Checkpoint.TOOL_CALL,
            patience=None if context._limit is None else Patience(total=context._limit),
        )
        self._is_begun = False
        if ending.straggler is not None:
            keep(ending.straggler)
        for resource in resources:
            into.busy.pop(resource, None)
        return ending

    def _abandon(self, straggler: Straggler | None, name: str) -> None:
        if straggler is not None:
            straggler.name, straggler.call_id = name, self._call.id
            self._into.abandoned(straggler)

    def _hold(self, resources: frozenset[str], straggler: Straggler) -> None:
        """Keep *resources* from others until *straggler*, which is of the current attempt, has ended."""
        self._is_running = True
        self._abandon(straggler, self._call.name)
        held = self._into.held

        def release(_: Straggler) -> None:
            for resource in resources:
                if held.get(resource) is straggler:
                    del held[resource]

        held.update(dict.fromkeys(resources, straggler))
        straggler.on_end(release)

    def _claim(self) -> frozenset[str]:
        """Take what the call touches.

        Raises:
            ToolError: Something else still touches it: an abandoned call, or one that corrected arguments ran into.
        """
        into = self._into
        resources = _wish(self._tool, self._arguments).resources
        for resource in sorted(resources):
            straggler = into.held.get(resource)
            if straggler is not None:
                where = f" (it hangs at {straggler.where})" if straggler.where else ""
                raise ToolError(
                    f"{resource!r} is still in use by an earlier call of {straggler.name} ({straggler.call_id}), which"
                    f" was stopped and has not ended{where}. Go on without it, or try again later."
                )
            if resource in into.busy:
                raise ToolError(
                    f"{resource!r} is in use by the call {into.busy[resource]}. Try again when it has ended."
                )
        into.busy.update(dict.fromkeys(resources, self._call.id))
        return resources
