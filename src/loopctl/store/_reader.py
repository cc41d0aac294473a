"""The reading side of a store: runs and sessions, for whoever shows them.

Rule: a run that was read as running is called interrupted only if it was read so again after its claim had fallen: the
last word of a run is written before its claim falls.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, replace

from loopctl.errors import UsageError
from loopctl.messages import Message
from loopctl.record import Turn
from loopctl.store._claims import is_held
from loopctl.store._file import StoreFile
from loopctl.store._stored import StoredOutcome, StoredRun, StoredSession, stored_run
from loopctl.store._tables import (
    CallRow,
    RunRow,
    SessionRow,
    ids_from,
    messages_of,
    read_calls,
    read_run,
    read_runs,
    read_session,
    read_sessions,
    read_turns,
)

__all__ = ["Store"]

_PAGE = 200
"""Runs that are read at once when one kind is looked for."""


class Store:
    """The sessions and runs in a file, to be looked at; everything here blocks. A file that is not there is empty."""

    __slots__ = ("_file",)

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Look at the file *path*; it is opened by each question, and never made.

        Raises:
            UsageError: *path* is not the path of a file.
        """
        self._file = StoreFile(path)

    @property
    def path(self) -> str:
        """The file."""
        return str(self._file.path)

    def runs(
        self,
        limit: int = 100,
        *,
        session: str | None = None,
        outcome: StoredOutcome | None = None,
        before: str | None = None,
    ) -> list[StoredRun]:
        """Give the newest runs, newest first.

        Args:
            limit: How many, at most.
            session: Only those of the session of this id.
            outcome: Only those that ended so, or are `running`.
            before: Only those that began before the run of this id.

        Raises:
            UsageError: *before* is no run of the store.
            StoreError: The file cannot be used.
        """
        found: list[StoredRun] = []
        number = None if before is None else self._number(before)
        size = limit if outcome is None else max(limit, _PAGE)
        while size > 0:
            page = self._page(size, session, number)
            runs = [run for _, run in page]
            found += [run for run in runs if outcome is None or run.outcome == outcome]
            if len(page) < size or len(found) >= limit:
                break
            number = page[-1][0]
        return found[:limit]

    def run(self, run_id: str) -> StoredRun | None:
        """Give one run; None if there is none of this id.

        Raises:
            StoreError: The file cannot be used.
        """

        def rows(connection: sqlite3.Connection) -> list[RunRow]:
            row = read_run(connection, run_id)
            return [] if row is None else [row]

        return next((run for _, run in self._read(rows)), None)

    def find(self, beginning: str) -> StoredRun | None:
        """Give the run whose id begins so; None if there is none.

        Raises:
            UsageError: There are several.
            StoreError: The file cannot be used.
        """
        found = self._file.read(lambda connection: ids_from(connection, beginning)) or []
        if len(found) > 1:
            raise UsageError(f"several runs begin with {beginning!r}: give more of the id, {found[0]} for one")
        return self.run(found[0]) if found else None

    def sessions(self, limit: int = 100) -> list[StoredSession]:
        """Give the sessions that were used last, newest first.

        Raises:
            StoreError: The file cannot be used.
        """
        read = self._file.read(
            lambda connection: [(row, _count(connection, row.id)) for row in read_sessions(connection, limit)]
        )
        return [StoredSession.of(row, count, is_open=self._is_held(row.claim)) for row, count in read or ()]

    def session(self, session_id: str) -> StoredSession | None:
        """Give one session with its messages; None if there is none of this id.

        Raises:
            StoreError: The file cannot be used.
        """
        read = self._file.read(lambda connection: _whole(connection, session_id))
        if read is None:
            return None
        row, count, messages = read
        return replace(StoredSession.of(row, count, is_open=self._is_held(row.claim)), messages=messages)

    def _number(self, run_id: str) -> int:
        row = self._file.read(lambda connection: read_run(connection, run_id))
        if row is None:
            raise UsageError(f"there is no run {run_id!r} in {self.path}")
        return row.number

    def _page(self, size: int, session: str | None, before: int | None) -> list[tuple[int, StoredRun]]:
        where = None if session is None else {"session_id": session}
        return self._read(lambda connection: read_runs(connection, size, before=before, where=where))

    def _read(self, rows: Callable[[sqlite3.Connection], list[RunRow]]) -> list[tuple[int, StoredRun]]:
        def read(connection: sqlite3.Connection) -> list[_Known]:
            return [_known(connection, row) for row in rows(connection)]

        known = self._file.read(read) or []
        running = {one.row.claim for one in known if one.row.state == "running"}
        dead = {claim for claim in running if not self._is_held(claim)}
        if dead:
            known = self._file.read(read) or []
        return [
            (
                one.row.number,
                stored_run(one.row, one.turns, one.calls, is_alive=one.is_last and one.row.claim not in dead),
            )
            for one in known
        ]

    def _is_held(self, claim: int) -> bool:
        return is_held(self._file.holders, claim)

    def __repr__(self) -> str:
        """Give the path."""
        return f"<Store {self.path}>"


@dataclass(frozen=True, slots=True)
class _Known:
    """The rows of one run."""

    row: RunRow
    turns: tuple[Turn, ...]
    calls: dict[str, CallRow]
    is_last: bool
    """True if its session has begun none after it."""


def _known(connection: sqlite3.Connection, row: RunRow) -> _Known:
    is_open = row.state == "running"
    turns = read_turns(connection, row.id) if is_open else ()
    is_last = is_open and read_runs(connection, 1, where={"session_id": row.session_id})[0].id == row.id
    return _Known(row, turns, read_calls(connection, row.id), is_last)


def _whole(connection: sqlite3.Connection, session_id: str) -> tuple[SessionRow, int, tuple[Message, ...]] | None:
    row = read_session(connection, session_id)
    return None if row is None else (row, _count(connection, session_id), messages_of(connection, session_id))


def _count(connection: sqlite3.Connection, session_id: str) -> int:
    (count,) = connection.execute("SELECT count(*) FROM runs WHERE session_id = ?", (session_id,)).fetchone()
    return int(count)
