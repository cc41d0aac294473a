"""Hand-made records and event sequences: what a run would tell, without a run."""

from __future__ import annotations

import time

from loopctl.errors import Cancelled, MaxTurnsExceeded, ModelError
from loopctl.messages import AssistantMessage, Text, Usage, UserMessage
from loopctl.record import (
    ApprovalEnded,
    ApprovalRequested,
    CallStatus,
    CancelReason,
    Checkpoint,
    Run,
    RunEnded,
    RunStarted,
    Stop,
    StragglerEnded,
    StragglerRecord,
    TextDelta,
    ToolCallRecord,
    ToolFinished,
    ToolStarted,
    Turn,
    TurnEnded,
    TurnStarted,
)

KNOWN = Usage(10, 5)
HANGING = StragglerRecord("thread", "save", "c1", 2.5, "tools.py:7")


def reason(origin="user", message="pressed stop"):
    return CancelReason(origin, message)


def stop_of(origin="user", *, at=Checkpoint.TOOL_CALL, latency=0.25, also=(), stragglers=()):
    return Stop(reason(origin), at, latency, stragglers, also)


def a_turn(number=1, *, whole=True, usage=KNOWN, model="openai:gpt-5.2", stop_reason="stop"):
    reply = AssistantMessage((Text("the secret plan"),))
    return Turn(number, model, reply, whole, stop_reason if whole else None, usage, 1000.0, 1002.0)


def a_call(status=CallStatus.NOT_STARTED, *, id="c1", name="save", attempts=1, ended_at=None):
    is_begun = status is not CallStatus.NOT_STARTED and attempts > 0
    started = 1000.0 if is_begun else None
    ended = (ended_at or 1001.5) if is_begun and status is not CallStatus.ABANDONED else None
    return ToolCallRecord(id, name, {"path": "secret.txt"}, status, "secret result", attempts, started, ended)


def a_run(outcome="completed", *, stop=None, error=None, turns=None, calls=(), usage=KNOWN, stragglers=(), id="run_1"):
    if outcome == "cancelled":
        stop = stop or stop_of()
        error = Cancelled(stop.reason, stop.checkpoint)
    elif outcome == "max_turns":
        error = MaxTurnsExceeded("used its 2 turns")
    elif outcome == "failed":
        error = error or ModelError("the server said no", status=503)
    ended = time.time()
    return Run(
        id=id,
        session_id="session_1",
        outcome=outcome,
        input=UserMessage("my secret question"),
        output="the secret plan" if outcome == "completed" else None,
        partial_text="",
        stop=stop,
        turns=tuple(turns) if turns is not None else (a_turn(),),
        tool_calls=tuple(calls),
        stragglers=stragglers,
        usage=usage,
        error=error,
        started_at=ended - 3.0,
        ended_at=ended,
    )


def began(id="run_1"):
    return RunStarted(id)


def ended(run):
    return RunEnded(run, run_id=run.id)


def asked(number=1, model="openai:gpt-5.2", run_id="run_1"):
    return TurnStarted(number, model, run_id=run_id)


def answered(turn=None, run_id="run_1"):
    return TurnEnded(turn or a_turn(), run_id=run_id)


def said(text, run_id="run_1"):
    return TextDelta(text, run_id=run_id)


def call_began(run_id="run_1", **kwargs):
    return ToolStarted(a_call(attempts=0, **kwargs), run_id=run_id)


def call_ended(status, run_id="run_1", **kwargs):
    return ToolFinished(a_call(status, **kwargs), run_id=run_id)


def question_of(answer, run_id="run_1", **kwargs):
    """The question for a yes to a call, and its end."""
    call = a_call(attempts=0, **kwargs)
    return [ApprovalRequested(call, run_id=run_id), ApprovalEnded(call, answer, run_id=run_id)]


def straggler_ended(error=None):
    return StragglerEnded("run_1", HANGING, None if error else "late", error)


def whole_run(run, *, status=CallStatus.COMPLETED):
    """A run of one turn with one tool call, which ends as *run*."""
    return [
        began(run.id),
        asked(run_id=run.id),
        said("the secret plan", run_id=run.id),
        call_began(run_id=run.id),
        call_ended(status, run_id=run.id),
        answered(run_id=run.id),
        ended(run),
    ]


def cut_in_chat(run):
    """A run that ends while its first reply arrives."""
    turn = a_turn(whole=False, usage=Usage(None, None, is_partial=True))
    return [began(), asked(), said("the secret"), answered(turn), ended(run)]


def cut_in_tool(run, status=CallStatus.INTERRUPTED, *, ended_at=None):
    """A run that ends while its first tool runs."""
    return [began(), asked(), call_began(), call_ended(status, ended_at=ended_at), answered(), ended(run)]
