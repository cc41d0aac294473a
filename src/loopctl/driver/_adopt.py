"""What a run that did not complete leaves to the conversation, if the caller asks for it.

Rules: nothing is said that is not known; each call of a kept reply is closed exactly once; the words name the cause,
so that the model does not guess at faults.
"""

from __future__ import annotations

from collections.abc import Mapping

from loopctl.concurrency import Straggler
from loopctl.messages import AssistantMessage, Message, ToolMessage, ToolResult
from loopctl.record import CallStatus, Run, ToolCallRecord
from loopctl.tools import render_late

__all__ = ["adopted_messages"]

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
    CallStatus.COMPLETED: "",
    CallStatus.FAILED: "This call failed.",
    CallStatus.DENIED: "This call was not allowed. It was not run.",
    CallStatus.NOT_STARTED: "This call was not run: {cause} before it began.",
    CallStatus.INTERRUPTED: "This call was interrupted: {cause} while it ran. Whether it had an effect is unknown.",
    CallStatus.ABANDONED: "This call had not ended when {cause}. It may still be running; its effect is unknown.",
}
"""What the model is told of a call that left no text of its own."""


def adopted_messages(run: Run, late: Mapping[str | None, Straggler]) -> tuple[Message, ...]:
    """Give the messages that tell what had happened in *run*.

    Args:
        run: A run that did not complete.
        late: The abandoned calls that have ended since, by call id.

    Returns:
        The input, the replies as far as they came, and a result for every call; well-formed after any history.
    """
    records = {record.id: record for record in run.tool_calls}
    messages: list[Message] = [run.input]
    for turn in run.turns:
        if turn.reply.text or turn.reply.tool_calls:
            messages.append(AssistantMessage(turn.reply.blocks))
        if turn.reply.tool_calls:
            results = tuple(_closing(records[call.id], run, late.get(call.id)) for call in turn.reply.tool_calls)
            messages.append(ToolMessage(results))
    return tuple(messages)


def _closing(record: ToolCallRecord, run: Run, late: Straggler | None) -> ToolResult:
    status, result = record.status, record.result
    if late is not None:
        status, result = render_late(late.result, late.error)
    text = result if result is not None else _UNSAID[status].format(cause=_cause(run))
    return ToolResult(record.id, text, is_error=status is not CallStatus.COMPLETED)


def _cause(run: Run) -> str:
    if run.stop is not None:
        reason = run.stop.reason
        text = _CAUSES[reason.origin]
        return f"{text} ({reason.message})" if reason.message else text
    if run.outcome == "max_turns":
        return "the run reached its limit of turns"
    return "the run failed"
