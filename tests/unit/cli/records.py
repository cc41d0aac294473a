"""Hand-made records of runs."""

from __future__ import annotations

from loopctl.errors import Cancelled, ModelError
from loopctl.messages import AssistantMessage, Text, Usage, UserMessage
from loopctl.record import (
    CallStatus,
    CancelReason,
    Checkpoint,
    Run,
    Stop,
    StragglerRecord,
    ToolCallRecord,
    Turn,
)

CTRL_C = CancelReason("user", "Ctrl-C", "SIGINT")
SIGTERM = CancelReason("shutdown", "asked to terminate", "SIGTERM")


def call(name: str, status: CallStatus, **more: object) -> ToolCallRecord:
    """Give a call."""
    return ToolCallRecord(f"id_{name}", name, more.pop("arguments", {}), status, **more)


def turn(text: str = "", *, is_whole: bool = False) -> Turn:
    """Give a turn that said *text*."""
    reply = AssistantMessage((Text(text),) if text else ())
    return Turn(1, "m", reply, is_whole, "stop" if is_whole else None, Usage(), 0.0, 1.0)


def run(outcome="completed", *, stop=None, error=None, turns=(), calls=(), stragglers=(), usage=None) -> Run:
    """Give a run."""
    return Run(
        id="run_1",
        session_id="session_1",
        outcome=outcome,
        input=UserMessage("hi"),
        output=None,
        partial_text="",
        stop=stop,
        turns=tuple(turns),
        tool_calls=tuple(calls),
        stragglers=tuple(stragglers),
        usage=usage or Usage(),
        error=error,
        started_at=0.0,
        ended_at=1.5,
    )


def stopped(reason=CTRL_C, checkpoint=Checkpoint.STREAM_EVENT, latency=0.0031, **more) -> Run:
    """Give a cancelled run."""
    stop = Stop(reason, checkpoint, latency)
    return run("cancelled", stop=stop, error=Cancelled(reason, checkpoint), **more)


def failed(text="the server said no", **more) -> Run:
    """Give a failed run."""
    return run("failed", error=ModelError(text), **more)


def straggler(name="save", where="/x/tools.py:12") -> StragglerRecord:
    """Give a straggler."""
    return StragglerRecord("thread", name, f"id_{name}", 0.31, where)
