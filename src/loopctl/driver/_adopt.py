"""What a run that did not complete leaves to the conversation, if the caller asks for it.

Rules: nothing is said that is not known; each call of a kept reply is closed exactly once; the words name the cause,
so that the model does not guess at faults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

from loopctl.concurrency import Straggler, epoch
from loopctl.errors import ModelError
from loopctl.messages import AssistantMessage, Message, ToolMessage, ToolResult
from loopctl.record import CallStatus, Run, ToolCallRecord, Turn
from loopctl.tools import render_late

__all__ = ["adopted_messages", "late_record", "late_records"]

_Rewrite: TypeAlias = Callable[[str], str]
"""Gives a late text as the middleware lets it out."""

_CAUSES = {
    "user": "the user stopped the run",
    "deadline": "the run reached its deadline",
    "stall": "the run was stopped because nothing happened any more",
    "budget": "the run reached its token budget",
    "disconnect": "the client disconnected",
    "shutdown": "the program is shutting down",
    "observer": "a rule of the application stopped the run",
    "caller": "the application stopped the run",
    "parent": "the run that this one was part of ended",
}

_UNSAID = {
    CallStatus.COMPLETED: "This call completed. What it returned was not kept.",
    CallStatus.FAILED: "This call failed.",
    CallStatus.DENIED: "This call was not allowed. It was not run.",
    CallStatus.NOT_STARTED: "This call was not run: {cause} before it began.",
    CallStatus.INTERRUPTED: "This call was interrupted: {cause} while it ran. Whether it had an effect is unknown.",
    CallStatus.ABANDONED: "This call had not ended when {cause}. It may still be running; its effect is unknown.",
}
"""What the model is told of a call that left no text of its own."""


def late_records(run: Run, stragglers: Iterable[Straggler], rewrite: _Rewrite) -> dict[str, ToolCallRecord]:
    """Give the records of the calls of *run* that have ended since, by their ids, as they are known now."""
    records = {record.id: record for record in run.tool_calls}
    late: dict[str, ToolCallRecord] = {}
    for one in stragglers:
        record = records.get(one.call_id or "")
        if one.run_id == run.id and one.is_ended and record is not None:
            now = late_record(record, one, rewrite)
            if now is not record:
                late[record.id] = now
    return late


def late_record(record: ToolCallRecord, straggler: Straggler, rewrite: _Rewrite) -> ToolCallRecord:
    """Give the record of a call as it is known when *straggler* has ended; the same one if that says nothing of it.

    What was abandoned beside a tool (who was asked for approval, a middleware) says nothing about its call.
    """
    if record.status is not CallStatus.ABANDONED or (record.id, record.name) != (straggler.call_id, straggler.name):
        return record
    status, result = render_late(straggler.result, straggler.error)
    return replace(record, status=status, result=None if result is None else rewrite(result), ended_at=epoch())


def adopted_messages(run: Run, late: Mapping[str, ToolCallRecord]) -> tuple[Message, ...]:
    """Give the messages that tell what had happened in *run*.

    Args:
        run: A run that did not complete.
        late: What calls of it came to after it, by their ids.

    Returns:
        The input, the replies as far as they came, and a result for every call; well-formed after any history.
    """
    records = {record.id: record for record in run.tool_calls} | dict(late)
    messages: list[Message] = [run.input]
    for turn in run.turns:
        if turn.reply.text or turn.reply.tool_calls:
            messages.append(AssistantMessage(turn.reply.blocks))
        if turn.reply.tool_calls:
            now = [records[call.id] for call in turn.reply.tool_calls]
            messages.append(ToolMessage(tuple(_closing(record, _cause(run, turn)) for record in now)))
    return tuple(messages)


def _closing(record: ToolCallRecord, cause: str) -> ToolResult:
    text = record.result if record.result is not None else _UNSAID[record.status].format(cause=cause)
    return ToolResult(record.id, text, is_error=record.status is not CallStatus.COMPLETED)


def _cause(run: Run, turn: Turn) -> str:
    if run.stop is not None:
        reason = run.stop.reason
        text = _CAUSES[reason.origin]
        return f"{text} ({reason.message})" if reason.message else text
    if run.outcome == "max_turns":
        return "the run reached its limit of turns"
    if run.outcome == "interrupted":
        return "the program ended"
    if isinstance(run.error, ModelError):
        return "a request to the model failed" if turn.is_whole else "the model's reply broke off"
    return "a fault in the program ended the run"
