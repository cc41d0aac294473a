"""What a run is called in OpenTelemetry: the names of attributes, and the values that a record gives them.

Source: the GenAI semantic conventions (open-telemetry/semantic-conventions-genai, status Development), where they have
a name; everything else is in the namespace `loopctl.`. The conventions have none for a cancel. The HTTP conventions
have: what the caller stopped on purpose is no error, so its status stays unset and it has no `error.type`.

Rules: pure; nothing of OpenTelemetry is imported. A value that is not known is left out, never zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from loopctl.errors import ModelError
from loopctl.messages import Usage
from loopctl.record import CallStatus, Run, Stop, ToolCallRecord, Turn

__all__ = [
    "ERROR_TYPE",
    "TRUNCATED",
    "Attributes",
    "call_error",
    "call_result",
    "call_start",
    "chat_error",
    "chat_outcome",
    "chat_result",
    "model_of",
    "run_error",
    "run_result",
    "stop_labels",
    "stop_result",
    "usage_of",
]

Attributes: TypeAlias = Mapping[str, str | bool | int | float | tuple[str, ...]]

ERROR_TYPE = "error.type"

TRUNCATED = "truncated"
"""The `error.type` of a reply that was given up, while the run went on."""

_PROVIDERS = {"google": "gcp.gemini"}
"""Where our name of a provider is not the one of the conventions."""

_FINISH_REASONS = {"tool_calls": "tool_call"}

_LIMITS = {"deadline": "timeout", "stall": "timeout", "budget": "budget_exceeded"}
"""The origins that are an error, and its type: a bound was passed. Every other one is somebody's wish."""

_CLOCK_SKEW = 0.005
"""Seconds: the two clocks in a record are read one after the other, and the moment of the cancel is made of both."""


def model_of(name: str) -> Attributes:
    """Split the name of a model: `openai:gpt-5.2` is `gpt-5.2` of `openai`."""
    provider, colon, model = name.partition(":")
    if not colon:
        return {"gen_ai.provider.name": name, "gen_ai.request.model": name}
    return {"gen_ai.provider.name": _PROVIDERS.get(provider, provider), "gen_ai.request.model": model or name}


def usage_of(usage: Usage) -> Attributes:
    """Give the token counts that are known, and say whether there was more."""
    attributes: dict[str, int | bool] = {}
    if usage.input_tokens is not None:
        attributes["gen_ai.usage.input_tokens"] = usage.input_tokens
    if usage.output_tokens is not None:
        attributes["gen_ai.usage.output_tokens"] = usage.output_tokens
    if usage.is_partial:
        attributes["loopctl.usage.partial"] = True
    return attributes


def run_error(run: Run) -> str | None:
    """Give the `error.type` of a run; None if it is none, as of a run that was stopped on purpose."""
    if run.stop is not None:
        return _LIMITS.get(run.stop.reason.origin)
    if run.error is None:
        return None
    if isinstance(run.error, ModelError) and run.error.status is not None:
        return str(run.error.status)
    return type(run.error).__name__


def run_result(run: Run) -> Attributes:
    """Give what is known of a run when it has ended."""
    return {
        "gen_ai.conversation.id": run.session_id,
        "loopctl.run.outcome": run.outcome,
        "loopctl.run.turns": len(run.turns),
        "loopctl.run.stragglers": len(run.stragglers),
        **usage_of(run.usage),
        **({} if run.stop is None else stop_result(run.stop)),
    }


def stop_labels(stop: Stop) -> Attributes:
    """Give the two facts about a stop that have few values, so that they can be counted."""
    return {"loopctl.cancel.origin": stop.reason.origin, "loopctl.cancel.checkpoint": stop.checkpoint.name}


def stop_result(stop: Stop) -> Attributes:
    """Give all that is known of a stop."""
    attributes: dict[str, str | float | tuple[str, ...]] = {"loopctl.cancel.latency": stop.latency}
    if stop.reason.message:
        attributes["loopctl.cancel.message"] = stop.reason.message
    if stop.reason.requested_by:
        attributes["loopctl.cancel.requested_by"] = stop.reason.requested_by
    if stop.also:
        attributes["loopctl.cancel.also"] = tuple(reason.origin for reason in stop.also)
    return {**stop_labels(stop), **attributes}


def chat_error(turn: Turn | None, run: Run | None) -> str | None:
    """Give the `error.type` of a reply.

    Args:
        turn: What came of it; None if that was not told.
        run: The run, if it ended with this turn; None if it went on.
    """
    if turn is not None and turn.is_whole:
        return None
    return TRUNCATED if run is None else run_error(run)


def chat_outcome(turn: Turn | None, run: Run | None) -> str:
    """Say what became of a reply: it is `completed`, or it ended as its run did."""
    if turn is not None and turn.is_whole:
        return "completed"
    return "failed" if run is None else run.outcome


def chat_result(turn: Turn) -> Attributes:
    """Give what is known of a reply when its turn has ended."""
    known: dict[str, tuple[str, ...]] = {}
    if turn.stop_reason is not None:
        known["gen_ai.response.finish_reasons"] = (_FINISH_REASONS.get(turn.stop_reason, turn.stop_reason),)
    return {**model_of(turn.model), **known, **usage_of(turn.usage)}


def call_start(record: ToolCallRecord) -> Attributes:
    """Give what is known of a tool call when it begins."""
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": record.name,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": record.id,
    }


def call_error(record: ToolCallRecord | None, run: Run | None) -> str | None:
    """Give the `error.type` of a tool call.

    Args:
        record: What came of it; None if that was not told.
        run: The run, if it ended in the same turn; None if it went on.
    """
    status = CallStatus.INTERRUPTED if record is None else record.status
    if status in (CallStatus.COMPLETED, CallStatus.DENIED):
        return None
    if run is not None and (status is not CallStatus.FAILED or _is_after_cancel(record, run)):
        return run_error(run)
    return "tool_error"


def call_result(record: ToolCallRecord) -> Attributes:
    """Give what is known of a tool call when it has ended."""
    return {"loopctl.tool.status": record.status.value, "loopctl.tool.attempts": record.attempts}


def _is_after_cancel(record: ToolCallRecord | None, run: Run) -> bool:
    """True if a call failed when the run was being stopped already: who can tell that it was not because of it."""
    if record is None or record.ended_at is None or run.stop is None:
        return False
    return record.ended_at >= run.ended_at - run.stop.latency - _CLOCK_SKEW
