"""Ask the other processes of this user: which runs are there, and cancel one.

Rules: all are asked side by side, each for a bounded time, so that one that hangs holds nobody up; it is named. A
socket that refuses is of a dead process, and is taken away.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import sys
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from loopctl.cancel import CancelSignal
from loopctl.concurrency import check_seconds, race, sleep, together
from loopctl.control._folder import Folder, entering, folders, peer_of, pid_in
from loopctl.control._receipt import Receipt
from loopctl.control._wire import (
    ANSWER,
    LONGEST_WAIT,
    Answer,
    CancelRun,
    ListRuns,
    NotUnderstood,
    Question,
    decode,
    encode,
)
from loopctl.errors import Cancelled, UsageError
from loopctl.record import CancelReason, RunStatus, Urgency

__all__ = ["LiveProcess", "cancel", "list_processes", "list_runs", "requester"]

T = TypeVar("T")

_PATIENCE = 2.0
"""Seconds that a process has to say its first word."""
_AT_ONCE = 64
_NOBODY = -1
"""The user at the other end of what is not connected."""
_PAUSE = 0.05
_LONGEST = 16 * 1024 * 1024
"""Bytes of an answer, at most."""


@dataclass(frozen=True, slots=True)
class LiveProcess:
    """A process of this user that can be asked."""

    pid: int
    """0 if the system does not say."""
    command: str = ""
    """What it runs, as far as it says."""
    runs: tuple[RunStatus, ...] = ()
    problem: str = ""
    """Why nothing is known of its runs; empty if it has answered."""


async def list_processes() -> list[LiveProcess]:
    """Give the processes of this user on this machine that listen, with the runs that go on in them.

    Returns:
        Also those that do not answer within 2 s: their `problem` says so.

    Raises:
        UsageError: The folder of their sockets cannot be trusted.

    Cancellation:
        Leaves the questions.
    """
    with _doors() as doors:
        found = await together([partial(_look, door) for door in doors], limit=_AT_ONCE, name="loopctl control")
    return sorted((process for process in found if process is not None), key=lambda process: process.pid)


async def list_runs() -> list[RunStatus]:
    """Give the runs that go on in the processes of this user on this machine, as far as those answer.

    Raises:
        UsageError: The folder of their sockets cannot be trusted.

    Cancellation:
        Leaves the questions.
    """
    return [run for process in await list_processes() for run in process.runs]


async def cancel(
    run_id: str,
    reason: CancelReason | str | None = None,
    urgency: Urgency = Urgency.STOP,
    *,
    wait: float | None = None,
) -> Receipt:
    """Cancel a run in whatever process of this user on this machine it is, and say what that did.

    Args:
        run_id: The run's id, the whole of it.
        reason: Why; None and a text mean that the user asked. Who asked is filled in if it is not said.
        urgency: How hard.
        wait: Seconds to wait for the run's end, 60 at most; None is the grace of the run and one more.

    Returns:
        The receipt. `unknown` names the processes that did not answer within 2 s, if there are any: the run may be in
        one of them, and is cancelled then when that goes on.

    Raises:
        UsageError: *reason*, *urgency* or *wait* is none, or the folder of the sockets cannot be trusted.

    Cancellation:
        Ends the wait. What was cancelled stays cancelled.
    """
    asked = CancelRun(
        run_id=run_id,
        reason=_named(CancelReason.of(reason)),
        urgency=Urgency(urgency),
        wait=None if wait is None else check_seconds("wait", wait),
    )
    found = CancelSignal()
    with _doors() as doors:
        works = [partial(_press, door, asked, found) for door in doors]
        answers = await together(works, limit=_AT_ONCE, name="loopctl control")
    receipts = [answer for answer in answers if isinstance(answer, Receipt)]
    silent = sorted(answer for answer in answers if isinstance(answer, int))
    return receipts[0] if receipts else Receipt(run_id, "unknown", silent=tuple(silent))


def requester(program: str) -> str:
    """Say who asks: *program*, its process, its user."""
    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        user = f"user {os.geteuid()}"
    return f"{program} (pid {os.getpid()}, {user})"


def _named(reason: CancelReason) -> CancelReason:
    program = Path(sys.argv[0]).name or "python"
    return reason if reason.requested_by else replace(reason, requested_by=requester(program))


@dataclass(frozen=True, slots=True)
class _Door:
    """One socket."""

    folder: Folder
    name: str


@contextmanager
def _doors() -> Iterator[list[_Door]]:
    """Give every socket there is; good for the block."""
    with ExitStack() as entered:
        doors: list[_Door] = []
        for place, path in enumerate(folders()):
            try:
                folder = entered.enter_context(entering(path))
            except FileNotFoundError:
                continue
            except UsageError:
                if not place:
                    raise
                continue  # none of ours would have listened there
            doors += [_Door(folder, name) for name in folder.names()]
        yield doors


class _Dead(Exception):
    """Nobody is behind the socket any more."""


class _Silent(Exception):
    """It does not answer."""

    def __init__(self, pid: int, why: str) -> None:
        super().__init__(why)
        self.pid = pid


class _Line:
    """A connection with one question on it."""

    def __init__(self, door: _Door) -> None:
        self._door = door
        self._writer: asyncio.StreamWriter | None = None
        self._reader: asyncio.StreamReader | None = None
        self.pid: int = pid_in(door.name)

    async def ask(self, question: Question, unless: CancelSignal | None = None) -> Answer:
        """Ask, and give the first answer.

        Raises:
            Cancelled: *unless* fired.
            _Dead: Nobody is there; the socket was taken away.
            _Silent: There is no answer in time, or none that can be understood.
        """
        try:
            return await _within(_PATIENCE, self._ask_twice(question), unless)
        except (ConnectionRefusedError, FileNotFoundError) as error:
            self._door.folder.remove(self._door.name)
            raise _Dead from error
        except TimeoutError as error:
            if self._is_of_the_dead():
                self._door.folder.remove(self._door.name)
                raise _Dead from error
            raise _Silent(self.pid, f"it has not answered for {_PATIENCE:g} s") from error
        except (NotUnderstood, OSError, ValueError) as error:
            raise _Silent(self.pid, str(error)) from error

    async def hear(self, seconds: float) -> Answer:
        """Give the next answer.

        Raises:
            TimeoutError, OSError, ValueError, NotUnderstood: There is none.
        """
        return await _within(seconds, self._hear(), None)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()

    async def _ask_twice(self, question: Question) -> Answer:
        """Ask, and once more if it hangs up without a word: it may have been about to end, and is gone now."""
        try:
            return await self._ask(question)
        except (ConnectionResetError, BrokenPipeError):
            self.close()
            return await self._ask(question)

    async def _ask(self, question: Question) -> Answer:
        peer = await self._connect()
        while peer is not None and peer[1] == _NOBODY:  # its backlog is full: asyncio takes that for connected
            self.close()
            await sleep(_PAUSE, CancelSignal())
            peer = await self._connect()
        if peer is not None:
            self.pid = peer[0] or self.pid
            if peer[1] != os.geteuid():
                raise NotUnderstood(f"it is of the user {peer[1]}")
        assert self._writer is not None
        self._writer.write(encode(question))
        return await self._hear()

    async def _connect(self) -> tuple[int, int] | None:
        self._reader, self._writer = await asyncio.open_unix_connection(
            self._door.folder.address(self._door.name), limit=_LONGEST
        )
        return peer_of(self._writer.get_extra_info("socket"))

    async def _hear(self) -> Answer:
        assert self._reader is not None
        line = await self._reader.readline()
        if not line:
            raise ConnectionResetError("it has hung up")
        answer = decode(line, ANSWER)
        if answer.error:
            raise NotUnderstood(answer.error)
        return answer

    def _is_of_the_dead(self) -> bool:
        """True if who made the socket is gone, and a fork of it has kept it open."""
        try:
            os.kill(self.pid, 0) if self.pid else None
        except ProcessLookupError:
            return True
        except OSError:
            return False
        return False


async def _look(door: _Door) -> LiveProcess | None:
    line = _Line(door)
    try:
        answer = await line.ask(ListRuns())
    except _Dead:
        return None
    except _Silent as silence:
        return LiveProcess(silence.pid, problem=str(silence))
    finally:
        line.close()
    runs = (replace(run, pid=line.pid, command=answer.command) for run in answer.runs)
    return LiveProcess(line.pid, answer.command, tuple(runs))


async def _press(door: _Door, asked: CancelRun, found: CancelSignal) -> Receipt | int | None:
    """Give a receipt; or the process if it does not answer; or nothing if the run is not there."""
    line = _Line(door)
    try:
        told = (await line.ask(asked, found)).receipt
        if told is None or told.state == "unknown":
            return None
        found.cancel()  # the others need not answer any more
        if told.receipt().is_open and asked.wait != 0:
            with suppress(TimeoutError, OSError, ValueError, NotUnderstood):  # then this is all that is known
                longest = LONGEST_WAIT if asked.wait is None else asked.wait
                told = (await line.hear(longest + _PATIENCE)).receipt or told
        return told.receipt()
    except (_Dead, Cancelled):
        return None
    except _Silent as silence:
        return silence.pid
    finally:
        line.close()


async def _within(seconds: float, step: Coroutine[Any, Any, T], unless: CancelSignal | None) -> T:
    """Do *step*.

    Raises:
        TimeoutError: It takes longer than *seconds*.
        Cancelled: *unless* fired.
    """
    signal = CancelSignal() if unless is None else unless.child()
    with signal.cancel_after(seconds):
        try:
            return await race(step, signal, grace=0)
        except Cancelled as stop:
            if stop.reason.origin == "deadline":
                raise TimeoutError from stop
            raise
