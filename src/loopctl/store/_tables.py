"""Sessions, runs, turns, calls and messages as rows: what is written of them, and how it is read back.

Rules: what is written again replaces what was written before, so that a transaction may be done twice; a text that
people or models wrote is kept as JSON, which can hold what SQLite's text cannot.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from loopctl.concurrency import describe, epoch, quote
from loopctl.errors import LoopError
from loopctl.messages import Message, message_from_json, message_to_json
from loopctl.record import Run, ToolCallRecord, Turn

__all__ = [
    "CallRow",
    "RunRow",
    "SessionRow",
    "StartRow",
    "add_messages",
    "adopt",
    "built",
    "ids_from",
    "messages_of",
    "read_calls",
    "read_run",
    "read_runs",
    "read_session",
    "read_sessions",
    "read_turns",
    "title_of",
    "write_call",
    "write_end",
    "write_late",
    "write_session",
    "write_start",
    "write_title",
    "write_turn",
]

T = TypeVar("T")

_RUN = "number, id, session_id, state, claim, pid, started_at, ended_at, input, record, adopted"
_SESSION = "id, created_at, used_at, model, title, claim, pid"
_TITLE = 80
"""Characters of the first input that name a session."""


@dataclass(frozen=True, slots=True)
class SessionRow:
    """One session."""

    id: str
    created_at: float
    used_at: float
    model: str
    title: str
    claim: int
    pid: int


@dataclass(frozen=True, slots=True)
class StartRow:
    """A run that begins."""

    id: str
    session_id: str
    claim: int
    pid: int
    started_at: float
    input: str


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run."""

    number: int
    id: str
    session_id: str
    state: str
    """`running`, or how it ended."""
    claim: int
    pid: int
    started_at: float
    ended_at: float | None
    input: str
    record: dict[str, Any] | None
    """What `Run.to_json` gave; None before the end."""
    adopted: int


@dataclass(frozen=True, slots=True)
class CallRow:
    """One tool call: as its run knew it, and what it came to after the run."""

    record: ToolCallRecord
    late: ToolCallRecord | None


def title_of(text: str) -> str:
    """Shorten what a person said to what names a session."""
    line = " ".join(text.encode("utf-8", "replace").decode().split())
    return line if len(line) <= _TITLE else f"{line[: _TITLE - 1]}…"


def _dumps(value: Any) -> str:
    return json.dumps(value, default=quote)


def write_session(connection: sqlite3.Connection, row: SessionRow) -> None:
    """Write that the session is open by a claim; the rest of one that is there stays."""
    connection.execute(
        f"INSERT INTO sessions ({_SESSION}) VALUES (?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - names of ours
        " ON CONFLICT (id) DO UPDATE SET claim = excluded.claim, pid = excluded.pid, model = excluded.model",
        (row.id, row.created_at, row.used_at, row.model, row.title, row.claim, row.pid),
    )


def write_title(connection: sqlite3.Connection, session_id: str, title: str) -> None:
    """Name a session, if it has no name, and note that it is used."""
    query = "UPDATE sessions SET used_at = ?, title = CASE title WHEN '' THEN ? ELSE title END WHERE id = ?"
    connection.execute(query, (epoch(), title, session_id))


def write_start(connection: sqlite3.Connection, row: StartRow) -> None:
    """Write that a run has begun; of one that is there already, nothing."""
    query = (
        "INSERT INTO runs (id, session_id, state, claim, pid, started_at, input)"
        " VALUES (?, ?, 'running', ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING"
    )
    connection.execute(query, (row.id, row.session_id, row.claim, row.pid, row.started_at, _dumps(row.input)))


def write_end(connection: sqlite3.Connection, run: Run, messages: Iterable[Message]) -> None:
    """Write how a run ended, and what it adds to the history."""
    query = "UPDATE runs SET state = ?, ended_at = ?, record = ? WHERE id = ?"
    connection.execute(query, (run.outcome, run.ended_at, _dumps(run.to_json()), run.id))
    for call in run.tool_calls:
        write_call(connection, run.id, call)
    connection.execute("DELETE FROM turns WHERE run_id = ?", (run.id,))  # the record has them
    connection.execute("UPDATE sessions SET used_at = ? WHERE id = ?", (run.ended_at, run.session_id))
    add_messages(connection, run.session_id, run.id, messages)


def write_turn(connection: sqlite3.Connection, run_id: str, turn: Turn) -> None:
    """Write a turn of a run that goes on."""
    query = "INSERT OR REPLACE INTO turns (run_id, number, turn) VALUES (?, ?, ?)"
    connection.execute(query, (run_id, turn.number, _dumps(turn.to_json())))


def write_call(connection: sqlite3.Connection, run_id: str, call: ToolCallRecord) -> None:
    """Write what is known of a call; one that has no end yet is being run."""
    query = (
        "INSERT INTO calls (run_id, id, record) VALUES (?, ?, ?)"
        " ON CONFLICT (run_id, id) DO UPDATE SET record = excluded.record"
    )
    connection.execute(query, (run_id, call.id, _dumps(call.to_json())))


def write_late(connection: sqlite3.Connection, run_id: str, call: ToolCallRecord) -> None:
    """Write what an abandoned call came to after its run."""
    query = (
        "INSERT INTO calls (run_id, id, record, late) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (run_id, id) DO UPDATE SET late = excluded.late"
    )
    text = _dumps(call.to_json())
    connection.execute(query, (run_id, call.id, text, text))


def add_messages(
    connection: sqlite3.Connection, session_id: str, run_id: str | None, messages: Iterable[Message]
) -> None:
    """Add what a run says to the history of its session."""
    connection.execute("DELETE FROM messages WHERE session_id = ? AND run_id IS ?", (session_id, run_id))
    query = "INSERT INTO messages (session_id, run_id, message) VALUES (?, ?, ?)"
    rows = [(session_id, run_id, _dumps(message_to_json(message))) for message in messages]
    connection.executemany(query, rows)


def adopt(connection: sqlite3.Connection, run: Run, messages: Iterable[Message]) -> None:
    """Add what had happened in a run that did not complete to the history of its session."""
    connection.execute("UPDATE runs SET adopted = 1 WHERE id = ?", (run.id,))
    add_messages(connection, run.session_id, run.id, messages)


def messages_of(connection: sqlite3.Connection, session_id: str) -> tuple[Message, ...]:
    """Read the history of a session."""
    query = "SELECT message FROM messages WHERE session_id = ? ORDER BY number"
    what = f"the history of {session_id}"
    return tuple(_decoded(what, text, message_from_json) for (text,) in connection.execute(query, (session_id,)))


def read_session(connection: sqlite3.Connection, session_id: str) -> SessionRow | None:
    """Read one session."""
    found = connection.execute(f"SELECT {_SESSION} FROM sessions WHERE id = ?", (session_id,)).fetchone()  # noqa: S608
    return None if found is None else SessionRow(*found)


def read_sessions(connection: sqlite3.Connection, limit: int) -> list[SessionRow]:
    """Read the sessions that were used last, newest first."""
    query = f"SELECT {_SESSION} FROM sessions ORDER BY used_at DESC, number DESC LIMIT ?"  # noqa: S608 - names of ours
    return [SessionRow(*found) for found in connection.execute(query, (limit,))]


def read_run(connection: sqlite3.Connection, run_id: str) -> RunRow | None:
    """Read one run."""
    found = connection.execute(f"SELECT {_RUN} FROM runs WHERE id = ?", (run_id,)).fetchone()  # noqa: S608
    return None if found is None else _run_row(found)


def ids_from(connection: sqlite3.Connection, beginning: str) -> list[str]:
    """Read the ids of the runs that begin with *beginning*, two at most, an equal one alone."""
    query = "SELECT id FROM runs WHERE substr(id, 1, ?) = ? ORDER BY length(id) LIMIT 2"
    found = [str(run_id) for (run_id,) in connection.execute(query, (len(beginning), beginning))]
    return found[:1] if beginning in found else found


def read_runs(
    connection: sqlite3.Connection, limit: int, *, before: int | None = None, where: Mapping[str, str] | None = None
) -> list[RunRow]:
    """Read the newest runs, newest first.

    Args:
        connection: To the store.
        limit: How many.
        before: Only those that are older than the run of this number.
        where: What columns have to be.
    """
    conditions = [f"{column} = ?" for column in where or {}]
    values: list[Any] = list((where or {}).values())
    if before is not None:
        conditions.append("number < ?")
        values.append(before)
    having = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    query = f"SELECT {_RUN} FROM runs{having} ORDER BY number DESC LIMIT ?"  # noqa: S608 - names of ours
    return [_run_row(found) for found in connection.execute(query, (*values, limit))]


def _run_row(found: Iterable[Any]) -> RunRow:
    row = RunRow(*found)
    what = f"what is stored of the run {row.id}"
    record = None if row.record is None else _decoded(what, str(row.record), _object)
    return replace(row, input=_decoded(what, row.input, str), record=record)


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"not an object: {value!r}")
    return value


def read_turns(connection: sqlite3.Connection, run_id: str) -> tuple[Turn, ...]:
    """Read the turns of a run whose end was never written."""
    query = "SELECT turn FROM turns WHERE run_id = ? ORDER BY number"
    what = f"a turn of the run {run_id}"
    return tuple(_decoded(what, text, Turn.from_json) for (text,) in connection.execute(query, (run_id,)))


def read_calls(connection: sqlite3.Connection, run_id: str) -> dict[str, CallRow]:
    """Read the calls of a run, by their ids, in the order in which they were first written."""
    query = "SELECT id, record, late FROM calls WHERE run_id = ? ORDER BY rowid"
    return {
        call_id: CallRow(_call(record), None if late is None else _call(late))
        for call_id, record, late in connection.execute(query, (run_id,))
    }


def _call(text: str) -> ToolCallRecord:
    return _decoded("a tool call", text, ToolCallRecord.from_json)


def _decoded(what: str, text: str, make: Callable[[Any], T]) -> T:
    return built(what, text, lambda text: make(json.loads(text)))


def built(what: str, value: Any, make: Callable[[Any], T]) -> T:
    """Make of what is stored what it was written from.

    Raises:
        DatabaseError: It was not written by us, which whoever reads the file says with its path.
    """
    try:
        return make(value)
    except (ValueError, LookupError, TypeError, AttributeError, LoopError) as error:
        raise sqlite3.DatabaseError(
            f"{what} is damaged ({describe(error)}). Move the file away, with what is beside it, and put a copy in its"
            " place"
        ) from error
