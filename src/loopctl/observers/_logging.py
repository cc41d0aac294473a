"""Structured logging of runs through the standard library: one line per event, its facts as fields of the record.

Rules:

1. A cancel is an ordinary line: it was asked for. Only a failed run is an ERROR, and only running out of turns a
   WARNING. What a deadline ended is told from what a user ended by the field `origin`.
2. A fact that is not known has no field; it is never zero.
3. What people and models said is not logged, unless `deltas` asks for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from loopctl.observers._text import one_line
from loopctl.record import (
    ApprovalEnded,
    ApprovalRequested,
    AttemptReset,
    Event,
    Run,
    RunEnded,
    RunStarted,
    StragglerEnded,
    TextDelta,
    ThinkingDelta,
    ToolCallRecord,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    WaitStarted,
)

__all__ = ["LoggingObserver"]

_Line: TypeAlias = tuple[str, Mapping[str, object]]
"""The text for people, and the fields for machines."""

_OUTCOME_LEVELS = {"failed": logging.ERROR, "max_turns": logging.WARNING}
_FREQUENT = (TextDelta, ThinkingDelta, ToolProgress)


class LoggingObserver:
    """Writes a line for each event of a run.

    Each record has the fields `run_id` and `event` (the name of the event's type). The others by event: `turn`,
    `model`, `tool`, `call_id`, `answer`, `status`, `attempts`, `duration`, `outcome`, `origin`, `reason`,
    `requested_by`, `checkpoint`, `latency`, `also`, `stragglers`, `input_tokens`, `output_tokens`, `is_usage_partial`,
    `error_type`, `error`. Seconds throughout.
    """

    def __init__(
        self, logger: str | logging.Logger = "loopctl.runs", level: int = logging.INFO, *, deltas: bool = False
    ) -> None:
        """Write to *logger*.

        Args:
            logger: The logger, or its name.
            level: Of ordinary lines, cancelled runs among them. A failed run is ERROR, one that ran out of turns
                WARNING, the progress of a tool DEBUG.
            deltas: Write each fragment of text and thinking too, at DEBUG. It is what the model says: think of who may
                read the log.
        """
        self._logger = logging.getLogger(logger) if isinstance(logger, str) else logger
        self._level = level
        self._deltas = deltas

    def __call__(self, event: Event) -> None:
        """Write the line of *event*."""
        if isinstance(event, TextDelta | ThinkingDelta) and not self._deltas:
            return
        describe = _LINES.get(type(event))
        level = self._level_of(event)
        if describe is None or not self._logger.isEnabledFor(level):
            return
        text, fields = describe(event)
        known = {name: value for name, value in fields.items() if value is not None}
        extra = {"run_id": event.run_id, "event": type(event).__name__, **known}
        self._logger.log(level, "%s: %s", event.run_id, text, extra=extra)

    def _level_of(self, event: Event) -> int:
        if isinstance(event, RunEnded):
            return _OUTCOME_LEVELS.get(event.run.outcome, self._level)
        return logging.DEBUG if isinstance(event, _FREQUENT) else self._level

    def __repr__(self) -> str:
        """Name the logger."""
        return f"<LoggingObserver {self._logger.name}>"


def _run_started(_: RunStarted) -> _Line:
    return "started", {}


def _turn_started(event: TurnStarted) -> _Line:
    return f"turn {event.number} asks {one_line(event.model)}", {"turn": event.number, "model": event.model}


def _delta(event: TextDelta | ThinkingDelta) -> _Line:
    return one_line(event.text), {"text": event.text}


def _attempt_reset(event: AttemptReset) -> _Line:
    return f"turn {event.number}: the attempt failed, another follows", {"turn": event.number}


def _wait_started(event: WaitStarted) -> _Line:
    long = "" if event.seconds is None else f" {event.seconds:.3f} s"
    return f"waits{long} ({one_line(event.why)})", {"wait": event.why, "duration": event.seconds}


def _tool_started(event: ToolStarted) -> _Line:
    return f"{one_line(event.name)} ({one_line(event.id)}) begins", {"tool": event.name, "call_id": event.id}


def _approval_requested(event: ApprovalRequested) -> _Line:
    text = f"{one_line(event.name)} ({one_line(event.id)}) waits for approval"
    return text, {"tool": event.name, "call_id": event.id}


def _approval_ended(event: ApprovalEnded) -> _Line:
    text = f"{one_line(event.name)} ({one_line(event.id)}): approval {event.answer}"
    return text, {"tool": event.name, "call_id": event.id, "answer": event.answer}


def _tool_progress(event: ToolProgress) -> _Line:
    share = "" if event.fraction is None else f"{event.fraction:.0%} "
    text = f"{one_line(event.name)} ({one_line(event.id)}): {share}{one_line(event.message)}"
    return text, {"tool": event.name, "call_id": event.id, "fraction": event.fraction}


def _tool_finished(event: ToolFinished) -> _Line:
    call = event.call
    seconds = _seconds_of(call)
    after = "" if seconds is None else f" after {seconds:.3f} s"
    return f"{one_line(call.name)} ({one_line(call.id)}) {call.status.value}{after}", {
        "tool": call.name,
        "call_id": call.id,
        "status": call.status.value,
        "attempts": call.attempts,
        "duration": seconds,
    }


def _seconds_of(call: ToolCallRecord) -> float | None:
    if call.started_at is None or call.ended_at is None:
        return None
    return max(0.0, call.ended_at - call.started_at)


def _turn_ended(event: TurnEnded) -> _Line:
    turn = event.turn
    state = "ended" if turn.is_whole else "ended, its reply unfinished"
    return f"turn {turn.number} {state}", {
        "turn": turn.number,
        "model": turn.model,
        "duration": max(0.0, turn.ended_at - turn.started_at),
        "stop_reason": turn.stop_reason,
        "input_tokens": turn.usage.input_tokens,
        "output_tokens": turn.usage.output_tokens,
        "is_usage_partial": turn.usage.is_partial,
    }


def _run_ended(event: RunEnded) -> _Line:
    run = event.run
    seconds = max(0.0, run.ended_at - run.started_at)
    hanging = f"; stragglers: {len(run.stragglers)}" if run.stragglers else ""
    text = f"{run.outcome}{_cause(run)}, {seconds:.3f} s and {len(run.turns)} turns after its start{hanging}"
    return text, {
        "outcome": run.outcome,
        "duration": seconds,
        "session_id": run.session_id,
        "turns": len(run.turns),
        "tool_calls": len(run.tool_calls),
        "stragglers": len(run.stragglers),
        "input_tokens": run.usage.input_tokens,
        "output_tokens": run.usage.output_tokens,
        "is_usage_partial": run.usage.is_partial,
        **_stop_fields(run),
        **_error_fields(run),
    }


def _cause(run: Run) -> str:
    if run.stop is not None:
        return f" at {run.stop.checkpoint.name} ({one_line(str(run.stop.reason))}) within {run.stop.latency:.3f} s"
    return "" if run.error is None else f" ({type(run.error).__name__}: {one_line(str(run.error))})"


def _stop_fields(run: Run) -> dict[str, object]:
    if run.stop is None:
        return {}
    reason = run.stop.reason
    return {
        "origin": reason.origin,
        "reason": reason.message or None,
        "requested_by": reason.requested_by or None,
        "checkpoint": run.stop.checkpoint.name,
        "latency": run.stop.latency,
        "also": tuple(later.origin for later in run.stop.also) or None,
    }


def _error_fields(run: Run) -> dict[str, object]:
    if run.error is None or run.outcome == "cancelled":
        return {}
    return {"error_type": type(run.error).__name__, "error": str(run.error)}


def _straggler_ended(event: StragglerEnded) -> _Line:
    straggler = event.straggler
    how = "returned" if event.error is None else "raised"
    return f"the abandoned {straggler.kind} {one_line(straggler.name)} {how} after {straggler.age:.3f} s", {
        "straggler": straggler.name,
        "kind": straggler.kind,
        "call_id": straggler.call_id,
        "duration": straggler.age,
        "late": how,
        "error": event.error,
    }


_LINES: Mapping[type, Callable[[Any], _Line]] = {
    RunStarted: _run_started,
    TurnStarted: _turn_started,
    TextDelta: _delta,
    ThinkingDelta: _delta,
    AttemptReset: _attempt_reset,
    WaitStarted: _wait_started,
    ToolStarted: _tool_started,
    ApprovalRequested: _approval_requested,
    ApprovalEnded: _approval_ended,
    ToolProgress: _tool_progress,
    ToolFinished: _tool_finished,
    TurnEnded: _turn_ended,
    RunEnded: _run_ended,
    StragglerEnded: _straggler_ended,
}
