"""Run the calls of one reply, one after the other.

Invariants: the token is polled before each call, and a call that was not begun stays `not_started`; each call that
was begun is recorded with its one status before anything is raised; nothing here decides what the model is told next.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from loopctl.cancel import CancelToken
from loopctl.concurrency import (
    Ending,
    Grace,
    Straggler,
    TaskWork,
    ThreadWork,
    Work,
    describe,
    epoch,
    stop_reason,
    supervise,
)
from loopctl.errors import Cancelled, ToolError
from loopctl.messages import ToolCall, ToolResult
from loopctl.record import (
    CallStatus,
    Checkpoint,
    Event,
    ToolCallRecord,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    Urgency,
)
from loopctl.tools._context import ToolContext
from loopctl.tools._render import render
from loopctl.tools._text import encodable
from loopctl.tools._tool import Tool

__all__ = ["Round", "render_late", "run_sequentially"]


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
    abandoned: Callable[[Straggler], None]
    """Keeps a straggler."""


async def run_sequentially(calls: tuple[ToolCall, ...], into: Round) -> tuple[ToolResult, ...]:
    """Run *calls* in order.

    Returns:
        One result for each call.

    Raises:
        Cancelled: The token fired: at `BETWEEN_CALLS`, `TOOL_CALL` or `DELIVERY`.

    Cancellation:
        A checkpoint before and during each call.
    """
    results = []
    for call in calls:
        if into.token.is_cancelled():
            raise Cancelled(stop_reason(into.token), Checkpoint.BETWEEN_CALLS)
        results.append(await _run_one(call, into))
    return tuple(results)


async def _run_one(call: ToolCall, into: Round) -> ToolResult:
    record = ToolCallRecord(call.id, call.name, call.arguments, CallStatus.NOT_STARTED)
    await into.emit(ToolStarted(record, into.run_id))
    tool = into.tools[call.name]
    try:
        arguments = tool.bind(call.arguments)
    except Exception as error:  # validators of the tool's own types run here, and may raise `Cancelled` for one
        record = replace(record, status=CallStatus.FAILED, result=_describe(error))
        into.note(record)
    else:
        record = await _attempt(tool, arguments, record, into)
    await into.emit(ToolFinished(record, into.run_id))
    return ToolResult(call.id, record.result or "", is_error=record.status is not CallStatus.COMPLETED)


async def _attempt(tool: Tool, arguments: dict[str, Any], record: ToolCallRecord, into: Round) -> ToolCallRecord:
    report = _Report(record, into)
    context = ToolContext(record.id, record.name, into.token, f"{into.run_id}:{record.id}", report)
    started = replace(record, attempts=1, started_at=epoch())
    ending = await supervise(
        _work(tool, arguments, context),
        into.token,
        grace=into.grace,
        at=Checkpoint.TOOL_CALL,
        at_least=Urgency.DRAIN,
    )
    report.is_open = False
    ended = record if ending.how == "not_started" else _ended(started, ending)
    into.note(ended)
    if ending.straggler is not None:
        ending.straggler.name, ending.straggler.call_id = record.name, record.id
        into.abandoned(ending.straggler)
    ending.raise_if_stopped()
    return ended


def _work(tool: Tool, arguments: dict[str, Any], context: ToolContext) -> Work:
    if tool.is_async:
        return TaskWork(tool.call(arguments, context), name=f"loopctl tool {tool.name}")
    return ThreadWork(
        lambda: tool.call(arguments, context), name=f"loopctl tool {tool.name}", can_unwind=tool.takes_context
    )


def _ended(record: ToolCallRecord, ending: Ending) -> ToolCallRecord:
    status, result = _status(ending)
    return replace(record, status=status, result=result, ended_at=None if status is CallStatus.ABANDONED else epoch())


def render_late(value: Any, error: BaseException | None) -> tuple[CallStatus, str | None]:
    """Say what an abandoned call came to after all.

    Args:
        value: What it returned.
        error: What it raised; None if it returned.

    Returns:
        Its status (a late cancellation leaves the effect unknown), and the text for the model.
    """
    if error is not None:
        is_unwound = isinstance(error, asyncio.CancelledError | Cancelled)
        return (CallStatus.INTERRUPTED, None) if is_unwound else (CallStatus.FAILED, _describe(error))
    try:
        return CallStatus.COMPLETED, render(value)
    except Exception as unfit:  # the value's own code runs here
        return CallStatus.FAILED, _describe(unfit)


def _status(ending: Ending) -> tuple[CallStatus, str | None]:
    if ending.how == "abandoned":
        return CallStatus.ABANDONED, None
    if ending.how == "returned":
        return render_late(ending.value, None)
    is_unwound = ending.how == "unwound" or isinstance(ending.error, Cancelled)
    if ending.stopped_by is not None and is_unwound:
        return CallStatus.INTERRUPTED, None
    return CallStatus.FAILED, _describe(ending.error)


def _describe(error: BaseException | None) -> str:
    """What the model is told of a tool's error: its own text, or the error's name and text."""
    if isinstance(error, asyncio.CancelledError):
        return "the tool was cancelled from inside: it raised CancelledError, and nobody had stopped the run"
    text = describe(error)
    if isinstance(error, ToolError):
        # The text is the tool's own, made for the model: no name before it.
        _, _, text = text.partition(": ")
        text = text or "the tool failed without saying why"
    return encodable(text)


class _Report:
    """What `ctx.progress` calls, from whatever thread the tool is on; silent once the call is over."""

    __slots__ = ("_into", "_loop", "_record", "_thread", "is_open")

    def __init__(self, record: ToolCallRecord, into: Round) -> None:
        self._record = record
        self._into = into
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self.is_open = True

    def __call__(self, message: str, fraction: float | None) -> None:
        event = ToolProgress(self._record.id, self._record.name, message, fraction, self._into.run_id)
        if threading.get_ident() == self._thread:
            self._offer(event)
            return
        try:
            self._loop.call_soon_threadsafe(self._offer, event)
        except RuntimeError:  # the loop is closed: nobody reads any more
            return

    def _offer(self, event: ToolProgress) -> None:
        if self.is_open and not self._into.token.is_cancelled():
            self._into.offer(event)
