"""What a store knows of a run and of a session, as frozen data, also of a run whose process died.

Rules: `running` is said of what lives and of nothing else; of a run that was interrupted only that is said which was
written before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from loopctl.errors import LoopError
from loopctl.messages import Message, Usage, UserMessage, message_to_json
from loopctl.record import CallStatus, Outcome, Run, ToolCallRecord, Turn
from loopctl.store._tables import CallRow, RunRow, SessionRow

__all__ = ["StoredCall", "StoredOutcome", "StoredRun", "StoredSession", "interrupted_run", "stored_run"]

StoredOutcome: TypeAlias = Outcome | Literal["running"]
"""How a stored run ended, or `running`."""


@dataclass(frozen=True, slots=True)
class StoredCall:
    """A tool call, as far as the store knows it."""

    id: str
    name: str
    arguments: Mapping[str, Any]
    status: str
    """A `CallStatus`, or `running`. `interrupted` of a call whose process died in the middle of it."""
    result: str | None
    attempts: int
    started_at: float | None
    """Epoch seconds."""
    ended_at: float | None
    """Epoch seconds."""
    is_late: bool = False
    """True if it was abandoned, and ended after its run: this is what it came to."""

    def to_json(self) -> dict[str, Any]:
        """The call as a JSON object."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run in a store."""

    id: str
    session_id: str
    outcome: StoredOutcome
    started_at: float
    """Epoch seconds."""
    ended_at: float | None
    """Epoch seconds; None while it runs, and if it was interrupted: nobody saw that."""
    input: str
    """What the person said."""
    pid: int
    """The process that ran it."""
    calls: tuple[StoredCall, ...]
    """The tool calls, as they are known now; those of `record` as they were at the run's end."""
    record: Mapping[str, Any] | None
    """What `Run.to_json` gave; None while it runs, and if it was interrupted."""
    is_adopted: bool = False
    """True if it did not complete, and was taken into the history nevertheless."""

    def to_json(self) -> dict[str, Any]:
        """The run as a JSON object."""
        calls = [call.to_json() for call in self.calls]
        value = {name: getattr(self, name) for name in self.__slots__}
        return {**value, "calls": calls, "record": None if self.record is None else dict(self.record)}


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session in a store."""

    id: str
    title: str
    """The first input, shortened; empty before the first run."""
    model: str
    """The model of the agent that used it last."""
    created_at: float
    """Epoch seconds."""
    used_at: float
    """Epoch seconds: when its last run began or ended."""
    pid: int | None
    """The process that has it open; None if nobody has."""
    run_count: int
    messages: tuple[Message, ...] | None = None
    """The history; None in a list of sessions."""

    def to_json(self) -> dict[str, Any]:
        """The session as a JSON object."""
        messages = None if self.messages is None else [message_to_json(message) for message in self.messages]
        return {**{name: getattr(self, name) for name in self.__slots__}, "messages": messages}

    @classmethod
    def of(cls, row: SessionRow, run_count: int, *, is_open: bool) -> StoredSession:
        """Make it of what was read."""
        pid = row.pid if is_open else None
        return cls(row.id, row.title, row.model, row.created_at, row.used_at, pid, run_count)


def stored_run(row: RunRow, turns: tuple[Turn, ...], calls: Mapping[str, CallRow], *, is_alive: bool) -> StoredRun:
    """Say what is known of a run.

    Args:
        row: The run.
        turns: What it wrote of its turns.
        calls: What it wrote of its calls.
        is_alive: Whether its process has it in hands.
    """
    is_open = row.state == "running"
    outcome: Any = row.state if not is_open or is_alive else "interrupted"
    known = {name: call.record for name, call in calls.items()}
    records = _all_calls(turns, known) if is_open else tuple(known.values())
    return StoredRun(
        id=row.id,
        session_id=row.session_id,
        outcome=outcome,
        started_at=row.started_at,
        ended_at=row.ended_at,
        input=row.input,
        pid=row.pid,
        calls=tuple(_call(record, calls.get(record.id), is_running=is_open and is_alive) for record in records),
        record=row.record,
        is_adopted=bool(row.adopted),
    )


def _call(record: ToolCallRecord, row: CallRow | None, *, is_running: bool) -> StoredCall:
    late = row.late if row is not None else None
    now = late or record
    is_open = is_running and now.status is CallStatus.INTERRUPTED and now.ended_at is None
    status = "running" if is_open else now.status.value
    return StoredCall(
        now.id,
        now.name,
        now.arguments,
        status,
        now.result,
        now.attempts,
        now.started_at,
        now.ended_at,
        late is not None,
    )


def _all_calls(turns: tuple[Turn, ...], known: Mapping[str, ToolCallRecord]) -> tuple[ToolCallRecord, ...]:
    """Give a record for each call that was asked for; of one that nothing was written of, nothing was begun."""
    return tuple(
        known.get(call.id) or ToolCallRecord(call.id, call.name, call.arguments, CallStatus.NOT_STARTED)
        for turn in turns
        for call in turn.reply.tool_calls
    )


def interrupted_run(row: RunRow, turns: tuple[Turn, ...], calls: Mapping[str, CallRow]) -> Run:
    """Give the record of a run whose process died, as far as it was written."""
    records = _all_calls(turns, {name: call.late or call.record for name, call in calls.items()})
    usage = Usage()
    for turn in turns:
        usage += turn.usage
    moments = [turn.ended_at for turn in turns] + [record.ended_at or row.started_at for record in records]
    error = LoopError(
        f"{row.id} was interrupted: its process {row.pid} ended in the middle of it. Its effects are in its tool_calls;"
        " session.adopt(run) tells the model of them"
    )
    run = Run(
        id=row.id,
        session_id=row.session_id,
        outcome="interrupted",
        input=UserMessage(row.input),
        output=None,
        partial_text="",
        stop=None,
        turns=turns,
        tool_calls=records,
        stragglers=(),
        usage=replace(usage, is_partial=True),
        error=error,
        started_at=row.started_at,
        ended_at=max(moments, default=row.started_at),  # the last that is known of it
    )
    error.run = run
    return run
