"""The writing side of one session: what is to be written is owed until it is on disk, and written in its order.

Rules: a write that failed is owed on, and done with the next one; the session is claimed while it is open, so that no
other process goes on with it.
"""

from __future__ import annotations

import functools
import gc
import logging
import os
import sqlite3
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

from loopctl.cancel import CancelSignal, CancelToken
from loopctl.concurrency import Ending, FinishGrace, Grace, Patience, ThreadWork, describe, epoch, supervise
from loopctl.errors import SessionBusy, StoreError, UsageError
from loopctl.messages import Message, find_problems
from loopctl.record import Checkpoint, Run, ToolCallRecord, Turn, Urgency
from loopctl.store._claims import Claim, hold, is_held
from loopctl.store._shared import Debt, SharedFile
from loopctl.store._stored import interrupted_run
from loopctl.store._tables import (
    SessionRow,
    StartRow,
    add_messages,
    adopt,
    built,
    messages_of,
    read_calls,
    read_runs,
    read_session,
    read_turns,
    title_of,
    write_call,
    write_end,
    write_late,
    write_session,
    write_start,
    write_title,
    write_turn,
)

__all__ = ["Journal", "Kept"]

_log = logging.getLogger("loopctl")

_WITHIN, _SHORTLY = 5.0, 0.2
"""Seconds that the last word of a run may take; and of one in which nothing had been begun."""
_PATIENT, _LAST, _BRIEF = 30.0, 4.5, 0.0
"""Seconds for which others may lock the file: while a run begins; when it has ended; when nobody waits."""

_Step: TypeAlias = Callable[[sqlite3.Connection], object]


@dataclass(frozen=True, slots=True)
class Kept:
    """What a store had of a session when it was opened."""

    history: tuple[Message, ...] = ()
    runs: tuple[Run, ...] = ()
    """The last runs, oldest first; one whose process died is `interrupted`."""
    late: tuple[ToolCallRecord, ...] = ()
    """What abandoned calls of the last run came to after it."""
    adopted: str | None = None
    """The id of the last run, if it was adopted."""


class Journal:
    """What a session writes to its store."""

    def __init__(self, path: str | os.PathLike[str], session_id: str, model: str, keep_runs: int) -> None:
        """Prepare to write; nothing is opened.

        Args:
            path: The file.
            session_id: The session.
            model: What answers in it, for a person to read.
            keep_runs: Runs that are read when it is opened.

        Raises:
            UsageError: *path* is not the path of a file.
        """
        self._file = SharedFile.of(path)
        self._session_id = session_id
        self._model = model
        self._keep_runs = keep_runs
        self._lane = self._file.lane
        self._unopened: list[Debt] = []
        """What is owed since before it was open."""
        self._claim: Claim | None = None
        self._taken: Claim | None = None
        """What is being taken."""
        self._dropped: weakref.finalize[[Claim, SharedFile], Journal] | None = None
        self._was_open = False
        self.given: tuple[Message, ...] = ()
        """The history that the session was made with."""
        self.kept: Kept | None = None
        """What was read; None until it is open."""

    @property
    def is_open(self) -> bool:
        """True while this process has the session."""
        return self._claim is not None

    async def open_session(self, token: CancelToken, grace: Grace) -> Ending:
        """Claim the session and read what is kept of it.

        Cancellation:
            The checkpoint `SETUP`.
        """
        work = self._work(functools.partial(self._open, token))
        return await supervise(work, token, grace=grace, at=Checkpoint.SETUP)

    async def begin_run(self, run_id: str, started_at: float, input: str, token: CancelToken, grace: Grace) -> Ending:
        """Write that a run begins, and all that is owed, before anything is done in it.

        Cancellation:
            The checkpoint `SETUP`.
        """
        debt = self._owe(functools.partial(self._start, run_id, started_at, input))
        work = self._work(functools.partial(self._pay, debt, token, _PATIENT))
        return await supervise(work, token, grace=grace, at=Checkpoint.SETUP)

    async def begin_call(self, run_id: str, call: ToolCallRecord, token: CancelToken, grace: Grace) -> Ending:
        """Write that a tool is about to be run. That it could not be written is logged, and stops nothing.

        Cancellation:
            The checkpoint `TOOL_CALL`.
        """
        debt = self._owe(functools.partial(write_call, run_id=run_id, call=call))
        work = self._work(functools.partial(self._try, debt, token, _LAST))
        return await supervise(work, token, grace=grace, at=Checkpoint.TOOL_CALL)

    async def end_run(
        self, run: Run, messages: tuple[Message, ...], *, has_begun: bool
    ) -> tuple[StoreError | None, Ending | None]:
        """Write how *run* ended, and the *messages* that it adds to the history.

        Args:
            run: The record.
            messages: Not empty if it completed.
            has_begun: False if it ended before its beginning was written: there is nothing to lose then, and what
                keeps the store busy is waited for no longer.

        Returns:
            Why it is not on disk, or None; and how the wait ended. If the session could not be opened nobody waits.

        Cancellation:
            Waits for the end of it, at most 5 s; an error of the host is in the ending.
        """
        if not self.is_open:
            self.note_end(run, messages)
            return None, None
        debt = self._owe(self._ended(run, messages))
        if not has_begun:
            return None, await self._finish(functools.partial(self._try, debt, None, _BRIEF), _SHORTLY)
        ending = await self._finish(functools.partial(self._pay, debt, None, _LAST))
        if ending.straggler is not None:
            text = f"the store {self._file.path} did not take it within {_WITHIN:g} s; it is written when that can be"
            return StoreError(f"{run.id} ended ({run.outcome}), and is not stored: {text}"), ending
        if ending.error is None:
            return None, ending
        failure = StoreError(f"{run.id} ended ({run.outcome}), and is not stored: {_said(ending.error)}")
        return failure, ending

    def note_end(self, run: Run, messages: tuple[Message, ...]) -> None:
        """Have written how *run* ended; nobody waits for it."""
        self._post(self._ended(run, messages))

    def note_turn(self, run_id: str, turn: Turn) -> None:
        """Have a turn of a run that goes on written; nobody waits for it."""
        self._post(functools.partial(write_turn, run_id=run_id, turn=turn))

    def note_call(self, run_id: str, call: ToolCallRecord) -> None:
        """Have what is known of a call written; nobody waits for it."""
        self._post(functools.partial(write_call, run_id=run_id, call=call))

    def note_late(self, run_id: str, call: ToolCallRecord) -> None:
        """Have the late end of an abandoned call written; nobody waits for it."""
        self._post(functools.partial(write_late, run_id=run_id, call=call))

    def note_adopted(self, run: Run, messages: tuple[Message, ...]) -> None:
        """Have written what was adopted; nobody waits for it, and the next run begins after it."""
        self._post(functools.partial(adopt, run=run, messages=messages))

    async def close_session(self) -> None:
        """Write what is owed, and let others have the session.

        Cancellation:
            Waits for the end of it, at most 5 s; then goes on to the host.
        """
        if self._claim is not None:
            ending = await self._finish(self._close)
            ending.raise_if_stopped()

    def _work(self, step: Callable[[], object]) -> ThreadWork:
        return ThreadWork(step, self._lane.name, can_unwind=True, lane=self._lane)

    async def _finish(self, step: Callable[[], object], within: float = _WITHIN) -> Ending:
        """Wait for *step*, whoever is cancelled, for as long as the last word of a run may take."""
        work = ThreadWork(step, self._lane.name, can_unwind=False, lane=self._lane)
        grace = FinishGrace(Grace(0), within, lambda: True)
        return await supervise(work, CancelSignal().token, grace=grace, patience=Patience(within))

    def _open(self, token: CancelToken) -> None:
        if self._claim is not None:
            return
        take = functools.partial(self._file.transact, self._take, functools.partial(_check, token), _PATIENT)
        try:
            try:
                kept = take()
            except SessionBusy:  # perhaps by a `Session` that was dropped, and waits for the collector
                gc.collect()
                kept = take()
        except BaseException:
            self._let_go()
            raise
        assert self._taken is not None
        self.kept = self.kept or kept
        self._claim, self._was_open = self._taken, True
        self._gather()
        self._file.enter()
        self._dropped = weakref.finalize(self, _leave, self._claim, self._file)
        self._dropped.atexit = False  # the lock falls with the process

    def _take(self, connection: sqlite3.Connection) -> Kept:
        self._let_go()  # of a try that was rolled back
        found = read_session(connection, self._session_id)
        if found is not None and is_held(self._file.holders, found.claim):
            is_here = found.pid == os.getpid()
            where = f"this process ({found.pid}) already" if is_here else f"process {found.pid}"
            raise SessionBusy(f"{self._session_id} is open in {where}: close it there, or end that process")
        self._taken = hold(self._file.holders, CancelSignal().token)
        now = epoch()
        row = SessionRow(self._session_id, now, now, self._model, "", self._taken.number, os.getpid())
        write_session(connection, row)
        if found is None:
            add_messages(connection, self._session_id, None, self.given)
            return Kept(self.given)
        return self._read(connection)

    def _read(self, connection: sqlite3.Connection) -> Kept:
        history = messages_of(connection, self._session_id)
        problems = find_problems(history)
        if problems:
            raise StoreError(
                f"the history of {self._session_id} in {self._file.path} is damaged: {'; '.join(problems)}"
            )
        if history[: len(self.given)] != self.given:
            raise UsageError(f"{self._session_id} is in {self._file.path} with another history: leave out history=")
        rows = read_runs(connection, self._keep_runs, where={"session_id": self._session_id})
        runs = tuple(
            built(f"what is stored of the run {row.id}", row.record, Run.from_json)
            if row.record is not None
            else interrupted_run(row, read_turns(connection, row.id), read_calls(connection, row.id))
            for row in reversed(rows)
        )
        if not rows:
            return Kept(history)
        calls = read_calls(connection, rows[0].id).values()
        late = tuple(call.late for call in calls if call.late is not None)
        return Kept(history, runs, late, rows[0].id if rows[0].adopted else None)

    def _let_go(self) -> None:
        claim, self._taken = self._taken, None
        if claim is not None:
            claim.let_go()

    def _start(self, run_id: str, started_at: float, input: str, connection: sqlite3.Connection) -> None:
        claim = 0 if self._claim is None else self._claim.number
        row = StartRow(run_id, self._session_id, claim, os.getpid(), started_at, input)
        write_start(connection, row)
        write_title(connection, self._session_id, title_of(input))

    def _ended(self, run: Run, messages: tuple[Message, ...]) -> _Step:
        def step(connection: sqlite3.Connection) -> None:
            self._start(run.id, run.started_at, run.input.text, connection)
            write_end(connection, run, messages)

        return step

    def _owe(self, step: _Step) -> Debt:
        debt = Debt(step)
        (self._file.debts if self._was_open else self._unopened).append(debt)
        return debt

    def _pay(self, debt: Debt, token: CancelToken | None, patience: float) -> None:
        """Write all that is owed to the file.

        Raises:
            StoreError: *debt* is not written.
        """
        self._gather()
        self._file.pay(functools.partial(_check, token), patience)
        if debt.error is not None:
            raise debt.error

    def _gather(self) -> None:
        while self._unopened:
            self._file.debts.append(self._unopened.pop(0))

    def _try(self, debt: Debt, token: CancelToken | None, patience: float) -> None:
        try:
            self._pay(debt, token, patience)
        except StoreError as error:
            _log.warning("a record of %s is not stored yet, and is written with the next: %s", self._session_id, error)

    def _post(self, step: _Step) -> None:
        debt = self._owe(step)
        if self._was_open:
            with suppress(RuntimeError):  # the system has no thread for us
                self._lane.do(functools.partial(self._try, debt, None, _BRIEF))

    def _close(self) -> None:
        try:
            self._gather()
            self._file.pay(functools.partial(_check, None), _LAST)
        except StoreError as error:
            _log.warning("%s is closed, and its last records are not stored: %s", self._session_id, error)
        finally:
            claim, self._claim = self._claim, None
            if claim is not None and self._dropped is not None and self._dropped.detach() is not None:
                claim.let_go()
                self._file.leave()


def _leave(claim: Claim, file: SharedFile) -> None:
    """Let go of what a session held that was dropped without being closed."""
    claim.let_go()
    with suppress(RuntimeError):  # the system has no thread for us
        file.lane.do(file.leave)


def _said(error: BaseException) -> str:
    return str(error) if isinstance(error, StoreError) else describe(error)


def _check(token: CancelToken | None) -> None:
    if token is not None:
        token.raise_if_cancelled(Urgency.STOP)
