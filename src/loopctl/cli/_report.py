"""The report of a run that did not complete, in one line: what, where, how fast, what had already happened.

Rules: pure; only what the record says. A call that was interrupted or abandoned is never said to have had no effect.
"""

from __future__ import annotations

import os.path
from collections.abc import Iterable

from loopctl.cli._amount import Amount
from loopctl.concurrency import Straggler
from loopctl.record import CallStatus, CancelReason, Checkpoint, Run, Stop, StragglerRecord

__all__ = [
    "WHERE",
    "amount_of",
    "failure_line",
    "kept_line",
    "late_line",
    "milliseconds",
    "one_line",
    "stop_line",
    "summary",
]

WHERE = {
    Checkpoint.TURN_ENTRY: "before the model was asked",
    Checkpoint.MODEL_REQUEST: "while waiting for the reply",
    Checkpoint.STREAM_EVENT: "in the middle of the reply",
    Checkpoint.STREAM_WAIT: "while waiting to ask the model again",
    Checkpoint.RESCUE: "before asking once more without streaming",
    Checkpoint.BETWEEN_CALLS: "between two tool calls",
    Checkpoint.WAVE: "before the next tool calls",
    Checkpoint.TOOL_CALL: "in a tool",
    Checkpoint.RECOVERY_WAIT: "while waiting to try a tool again",
    Checkpoint.PIPELINE: "in a layer around a call",
    Checkpoint.APPROVAL: "while waiting for approval",
    Checkpoint.DELIVERY: "while the reply was being shown",
    Checkpoint.SETUP: "while the model was starting",  # or the store: before the first turn
}
_SIGNALS = {"SIGINT": "Ctrl-C", "SIGTERM": "SIGTERM"}
_ORIGINS = {
    "user": "on request",
    "deadline": "at its deadline",
    "stall": "because nothing happened any more",
    "budget": "at its token budget",
    "disconnect": "because nobody reads it any more",
    "shutdown": "by a shutdown",
    "observer": "by a rule",
    "caller": "by the program",
    "parent": "with the run around it",
}
_STATUS = {
    CallStatus.COMPLETED: "completed",
    CallStatus.FAILED: "failed",
    CallStatus.DENIED: "denied",
    CallStatus.INTERRUPTED: "interrupted (effect unknown)",
    CallStatus.ABANDONED: "abandoned (may still have an effect)",
    CallStatus.NOT_STARTED: "not started",
}
_ENDED = {
    "cancelled": "it was stopped",
    "failed": "it failed",
    "max_turns": "it ran out of turns",
    "interrupted": "the program ended",
}
_CLOSED_WITH_CAUSE = frozenset({CallStatus.NOT_STARTED, CallStatus.INTERRUPTED, CallStatus.ABANDONED})
"""Calls whose closing tells the model how the run ended."""
_NAMED = 4
"""Calls of one status that are named; of more, the rest is counted."""


def stop_line(run: Run, shown: Amount | None = None, *, is_busy: bool = False) -> str:
    """Say how *run* was stopped.

    Args:
        run: A cancelled run.
        shown: How much text was shown; None counts what the run had accepted.
        is_busy: True if the local server still works on what was dropped.
    """
    stop = run.stop
    assert stop is not None, "only a cancelled run was stopped"
    parts = [f"{_cause(stop.reason)} {_place(run, stop)} [{stop.checkpoint.name}] after {milliseconds(stop.latency)}"]
    parts += summary(run, shown)
    if stop.blocked_at:
        parts.append(f"the event loop was blocked at {stop.blocked_at}")
    if is_busy:
        parts.append("the local server is still busy with the prompt")
    return one_line("; ".join(parts))


def failure_line(run: Run, shown: Amount | None = None) -> str:
    """Say why *run* failed or ended early, and what had already happened."""
    parts = summary(run, shown) if run.tool_calls or shown or run.stragglers else []
    already = f" [{'; '.join(parts)}]" if parts else ""
    return one_line(f"{_why(run)}{already}")


def _why(run: Run) -> str:
    if run.outcome != "max_turns":
        return str(run.error)
    turns = len(run.turns)
    return f"after {turns} turn{'' if turns == 1 else 's'} the model still asked for tools: --max-turns allows more"


def summary(run: Run, shown: Amount | None = None) -> list[str]:
    """Say what had already happened in *run*: the text, the tool calls by status, what still runs."""
    shown = amount_of(run) if shown is None else shown
    parts = []
    if shown:
        parts.append(f"{shown} shown{_tokens(run)}")
    elif not run.tool_calls:
        parts.append("nothing shown")
    if run.tool_calls:
        parts.append(f"tools: {_calls(run)}")
    if run.stragglers:
        parts.append(f"still running: {', '.join(map(_straggler, run.stragglers))}")
    return parts


def late_line(straggler: Straggler) -> str:
    """Say that abandoned work has ended after all."""
    how = "with an error" if straggler.error is not None else "normally"
    return f"  {straggler.name} ended after all, {how}, after {straggler.age:.1f} s"


def kept_line(run: Run) -> str:
    """Say what of *run*, which did not complete, is part of the conversation now that it was adopted."""
    said = amount_of(run)
    parts = ["your message"]
    if said:
        parts.append(f"the reply as far as it came ({said})")
    if run.tool_calls:
        parts.append(f"the tool calls with what is known of them: {_calls(run)}")
    if len(parts) == 1:
        return f"Kept: your message alone, since {_ENDED[run.outcome]} before anything was said or done."
    is_told = any(call.status in _CLOSED_WITH_CAUSE for call in run.tool_calls)
    untold = "" if is_told else f" The model is not told that {_ENDED[run.outcome]}."
    return f"Kept: {'; '.join(parts)}.{untold}"


def amount_of(run: Run) -> Amount:
    """Count the text of all replies of *run*, the unfinished one included."""
    return Amount.of(*(turn.reply.text for turn in run.turns))


def one_line(text: str) -> str:
    """Give *text* without line breaks."""
    return " ".join(text.split())


def _cause(reason: CancelReason) -> str:
    name = _SIGNALS.get(reason.requested_by)
    if name is not None:
        return f"stopped by {name}"
    if reason.origin == "user" and reason.requested_by:
        return f"stopped by {reason.requested_by}" + (f": {reason.message}," if reason.message else "")
    return f"stopped {_ORIGINS[reason.origin]}" + (f" ({reason.message})" if reason.message else "")


def _place(run: Run, stop: Stop) -> str:
    if stop.checkpoint is Checkpoint.TOOL_CALL:
        return _place_of_tool(run)
    if stop.checkpoint is Checkpoint.SETUP and not run.turns:
        return "while its store was being opened"
    if stop.checkpoint is Checkpoint.STREAM_EVENT and not _has_begun(run):
        return "while waiting for the reply"
    return WHERE[stop.checkpoint]


def _place_of_tool(run: Run) -> str:
    for prefix, suffix, statuses in (
        ("in the tool ", "", {CallStatus.INTERRUPTED, CallStatus.ABANDONED}),
        ("before the tool ", " began", {CallStatus.NOT_STARTED}),
    ):
        for call in run.tool_calls:
            if call.status in statuses:
                return f"{prefix}{call.name}{suffix}"
    return "as a tool ended"


def _has_begun(run: Run) -> bool:
    return bool(run.turns) and bool(run.turns[-1].reply.blocks)


def milliseconds(seconds: float) -> str:
    """Give a latency for people."""
    return f"{seconds * 1000:.0f} ms" if seconds >= 0.001 else "less than 1 ms"  # noqa: PLR2004


def _tokens(run: Run) -> str:
    tokens = run.usage.output_tokens
    if tokens is None:
        return ""
    if not run.usage.is_partial:
        return f" ({tokens} tokens)"
    # What is known may be of turns that showed nothing, a choice of tools for one: then it says nothing of the text.
    is_of_text = any(turn.is_whole and turn.reply.text and turn.usage.output_tokens for turn in run.turns)
    return f" (at least {tokens} tokens)" if is_of_text else ""


def _calls(run: Run) -> str:
    by_status = {status: [call.name for call in run.tool_calls if call.status is status] for status in _STATUS}
    return ", ".join(f"{_names(names)} {_STATUS[status]}" for status, names in by_status.items() if names)


def _names(names: Iterable[str]) -> str:
    every = list(names)
    more = f" and {len(every) - _NAMED} more" if len(every) > _NAMED else ""
    return ", ".join(every[:_NAMED]) + more


def _straggler(straggler: StragglerRecord) -> str:
    at = f" at {_short_path(straggler.where)}" if straggler.where else ""
    return f"{straggler.name}{at} ({straggler.kind}, {straggler.age:.1f} s)"


def _short_path(where: str) -> str:
    here = os.path.join(os.getcwd(), "")  # noqa: PTH109, PTH118 - a prefix of a text, not a path
    return where.removeprefix(here)
