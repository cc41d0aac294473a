"""The socket of a process, through which its runs are listed and cancelled.

Rules:

1. It has an event loop on a thread of its own: it answers, and a cancel fires, while the program's own loop is blocked.
2. It keeps nothing waiting and holds nothing: a connection is for one question and one answer, each in a bounded time,
   and so many at once, of which the one that has kept us waiting for longest makes room for a new one.
3. Only processes of the same user are answered.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Coroutine, Iterable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from loopctl.cancel import CancelToken
from loopctl.concurrency import SideLoop, breathe, race
from loopctl.control._folder import BACKLOG, Folder, entering, folders, peer_of
from loopctl.control._live import LiveRuns, Pressed
from loopctl.control._receipt import Receipt
from loopctl.control._wire import LONGEST_WAIT, QUESTION, Answer, CancelRun, ListRuns, Told, decode, encode
from loopctl.driver import Agent
from loopctl.errors import Cancelled, LoopError, UsageError
from loopctl.record import RunStatus

__all__ = ["Listener", "listen"]

T = TypeVar("T")

_LONGEST = 64 * 1024
"""Bytes of a question, at most."""
_LONGEST_NAME = 200
_MOST = 64
"""Connections at once."""
_TURNS = 10
"""Turns of the loop that are more than a connection needs to begin, or to end."""
_PATIENCE = 5.0
"""Seconds for a question to be said, and for its answer to be read."""


class Listener:
    """What `listen` gives: close it, or use it with `with` or `async with`."""

    def __init__(self, agents: Iterable[Agent], command: str) -> None:
        """Answer for the runs of *agents*, as *command*.

        Raises:
            UsageError: There can be no socket.
        """
        self._lives = {id(agent): LiveRuns(agent) for agent in agents}
        self._command = command[:_LONGEST_NAME]
        self._pid = os.getpid()
        self._open = 0
        self._idle: dict[asyncio.StreamWriter, None] = {}
        """Who is waited for, to ask or to read, the longest first."""
        with ExitStack() as made:
            self._folder: Folder = made.enter_context(entering(folders()[0], make=True))
            self._socket, self._name = self._folder.listen()
            made.callback(self._leave)
            made.callback(self._remove)
            made.callback(self._socket.close)
            try:
                made.callback(SideLoop(self._serve, "loopctl control").close)
            except RuntimeError as error:
                raise UsageError(f"there is no thread for a socket: {error}") from error
            self._made = made.pop_all()

    @property
    def path(self) -> Path:
        """The socket."""
        return self._folder.path / self._name

    def add(self, agent: Agent) -> None:
        """Answer for the runs of *agent* too, from now on."""
        if id(agent) not in self._lives:
            self._lives = {**self._lives, id(agent): LiveRuns(agent)}

    def close(self) -> None:
        """Answer no more, and take the socket away; again changes nothing. What was cancelled stays cancelled."""
        self._made.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        """Enter a block in which it answers.

        Cancellation:
            Never suspends.
        """
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Leave it.

        Cancellation:
            Never suspends.
        """
        self.close()

    def _leave(self) -> None:
        for live in self._lives.values():
            live.close()

    def _remove(self) -> None:
        if os.getpid() == self._pid:  # in a fork it is the parent's
            self._folder.remove(self._name)

    async def _serve(self, over: CancelToken) -> None:
        server = await asyncio.start_unix_server(
            partial(self._converse, over), sock=self._socket, limit=_LONGEST, backlog=BACKLOG
        )
        await over.notified()
        # Nobody is let in any more, who has just been has to begin, and all end by `over`: asyncio on 3.11 trips over a
        # connection that begins after its server's end, and complains of a server's task that was cancelled.
        asyncio.get_running_loop().remove_reader(self._socket)
        left = _TURNS
        while left:
            await breathe()
            left = _TURNS if self._open else left - 1
        server.close()

    async def _converse(self, over: CancelToken, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._is_admitted(writer):
            _drop(writer)
            return
        self._open += 1
        self._idle[writer] = None
        try:
            question = await _within(_PATIENCE, reader.readline(), over)
            self._idle.pop(writer, None)
            if question:
                await self._answer(question, writer, over)
                writer.close()
                self._idle[writer] = None
                await _within(_PATIENCE, writer.wait_closed(), over)
        except (Cancelled, ValueError, OSError):  # nothing was said, or too much, or nobody reads the answer
            return
        finally:
            self._open -= 1
            self._idle.pop(writer, None)
            _drop(writer)

    def _is_admitted(self, writer: asyncio.StreamWriter) -> bool:
        connected: socket.socket = writer.get_extra_info("socket")
        peer = peer_of(connected)
        if peer is not None and peer[1] != os.geteuid():
            return False
        if self._open < _MOST:
            return True
        longest = next(iter(self._idle), None)
        if longest is not None:
            self._idle.pop(longest)
            _drop(longest)
        return longest is not None

    async def _answer(self, line: bytes, writer: asyncio.StreamWriter, over: CancelToken) -> None:
        """Write the answer, and before the receipt of a run that has not ended one that says so."""
        try:
            match decode(line, QUESTION):
                case ListRuns():
                    writer.write(encode(Answer(command=self._command, runs=self._runs())))
                case CancelRun() as asked:
                    pressed = self._press(asked)
                    writer.write(encode(Answer(receipt=Told.of(pressed.receipt))))
                    if pressed.receipt.is_open and asked.wait != 0:
                        with suppress(Cancelled):  # this process may end with the run: then what is known now is told
                            await _within(LONGEST_WAIT, pressed.wait(asked.wait), over)
                        writer.write(encode(Answer(receipt=Told.of(pressed.now()))))
        except LoopError as error:
            writer.write(encode(Answer(error=str(error))))

    def _runs(self) -> tuple[RunStatus, ...]:
        return tuple(handle.status for live in self._lives.values() for handle in live.active)

    def _press(self, asked: CancelRun) -> Pressed:
        pressed = (live.press(asked.run_id, asked.reason, asked.urgency) for live in self._lives.values())
        unknown = Pressed(Receipt(asked.run_id, "unknown"))
        return next((found for found in pressed if found.receipt.state != "unknown"), unknown)


def _drop(writer: asyncio.StreamWriter) -> None:
    """Hang up, unless that is done: asyncio on 3.11 cannot abort what is closed."""
    transport = writer.transport
    if not transport.is_closing() or transport.get_write_buffer_size():
        transport.abort()


async def _within(seconds: float, step: Coroutine[Any, Any, T], over: CancelToken) -> T:
    """Do *step*.

    Raises:
        Cancelled: It takes longer than *seconds*, or all is over.
    """
    signal = over.child()
    with signal.cancel_after(seconds):
        return await race(step, signal, grace=0)


def listen(*agents: Agent, command: str = "") -> Listener:
    """Let this process's runs be listed and cancelled by other processes of the same user, until `close`.

    A thread of its own answers, so it does while the event loop is blocked: a cancel fires at once then, too, and its
    receipt says where the loop hangs. Needs no running event loop.

    Args:
        agents: Whose runs; more can be added later.
        command: What to call this process in a list; empty takes the name of the program.

    Returns:
        What listens: close it, or use it with `with` or `async with`.

    Raises:
        UsageError: There can be no socket: its folder cannot be trusted, or this system has none.
    """
    if not hasattr(socket, "AF_UNIX"):
        raise UsageError("this system has no sockets between processes: nobody else can list or cancel runs here")
    return Listener(agents, command or Path(sys.argv[0]).name or "python")
