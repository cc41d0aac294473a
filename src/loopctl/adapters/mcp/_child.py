"""The process of a server: led by a warden, as every command of ours, so that it never outlives us.

Rules: a polite end closes its standard input and gives it a moment; any other end is TERM at once and KILL soon after.
Its standard error is kept, the end of it, for what is to be said of its death.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from loopctl.adapters.mcp._streams import Incoming, Outgoing
from loopctl.cancel import CancelSignal
from loopctl.concurrency import (
    Command,
    Ending,
    ForeignWork,
    Grace,
    OutputStream,
    Patience,
    ProcessEnd,
    ProcessWork,
    spawn,
    supervise,
)

__all__ = ["Child", "command_of", "resolve", "wait_for"]

_GRACE = 1.0
"""Seconds from TERM to the end; KILL comes at 80 % of them."""
_POLITE = 2.0
"""Seconds that it gets to end by itself once its standard input is closed."""
_MOMENT = 0.3
"""Seconds from the end of its output to its own, if it is ending; else it is mute, and of no use."""
_WORDS = 2000
"""Bytes of its standard error that are kept."""


class Child:
    """One server's process."""

    def __init__(self, command: Command) -> None:
        """Prepare to run *command*."""
        self._command = command
        self._words = b""
        self._stop = CancelSignal()
        self._ending: Ending | None = None
        self._is_mute = False
        self._is_leaving = False
        self._is_left = False
        self._incoming = Incoming(self._hold)
        self._work = ProcessWork(command, _GRACE, self._take, is_fed=True)
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done once the process has ended, or says nothing more."""

    @asynccontextmanager
    async def open(self) -> AsyncIterator[tuple[Incoming, Outgoing]]:
        """Run it, and give the streams.

        Cancellation:
            The process is ended, and waited for: at most a second.
        """
        loop = asyncio.get_running_loop()
        started: asyncio.Future[None] = loop.create_future()
        lead = spawn(self._lead(started), loop, f"loopctl mcp {self._command}")
        is_polite = False
        try:
            await started
            yield self._incoming, Outgoing(self._work.send)
            is_polite = True
        finally:
            self._is_leaving = True
            self._incoming.close()
            try:
                if is_polite:
                    self._work.end_input()
                    await wait_for(lead, _POLITE)
            finally:
                self._stop.cancel()
                await wait_for(lead, 2 * _GRACE)

    def why(self) -> str:
        """Say how it ended; empty if it has not, or was ended by us."""
        if self._is_mute:
            return "closed its output"
        if self._ending is None or self._is_left:
            return ""
        match self._ending.error, self._ending.value:
            case FileNotFoundError() | PermissionError() as error, _:
                return f"cannot be started: {error}"
            case Exception() as error, _:
                how = f"was stopped: {error}"
            case _, ProcessEnd(returncode=code) if code < 0:
                how = f"was killed by signal {-code}"
            case _, ProcessEnd(returncode=code):
                how = f"ended with exit code {code}"
            case _:
                how = "was stopped"
        words = self._words.decode(errors="replace").strip().splitlines()
        return f"{how} ({words[-1][:300]})" if words else how

    async def _lead(self, started: asyncio.Future[None]) -> None:
        # The work begins before `supervise` waits for the first time.
        asyncio.get_running_loop().call_soon(resolve, started)
        ending = await supervise(self._work, self._stop.token, grace=Grace(_GRACE))
        self._ending = ending
        self._is_left = self._is_leaving
        self._incoming.end()
        resolve(self.ended)
        if ending.host_error is not None:
            raise ending.host_error

    def _take(self, stream: OutputStream, portion: bytes) -> None:
        if stream == "stdout" and not portion:
            asyncio.get_running_loop().call_later(_MOMENT, self._end_mute)
        elif stream == "stdout":
            self._incoming.take(portion)
        else:
            self._words = (self._words + portion)[-_WORDS:]

    def _end_mute(self) -> None:
        if self._ending is None and not self._is_leaving:
            self._is_mute = True
            self._incoming.end()
            resolve(self.ended)
            self._stop.cancel()

    def _hold(self, is_held: bool) -> None:  # noqa: FBT001 - a callback
        self._work.hold_output("stdout", is_held=is_held)


async def wait_for(future: asyncio.Future[Any], seconds: float) -> bool:
    """Wait for the end of *future*, and leave it alone.

    Returns:
        True if it has ended.

    Cancellation:
        Leaves the wait.
    """
    never = CancelSignal().token
    ending = await supervise(ForeignWork(future), never, grace=Grace(0), patience=Patience(total=seconds))
    if ending.host_error is not None:
        raise ending.host_error
    return future.done()


def command_of(argv: tuple[str, ...], env: dict[str, str], cwd: str | None) -> Command:
    """Describe the process."""
    return Command(
        tuple(map(os.fsencode, argv)),
        {os.fsencode(name): os.fsencode(value) for name, value in env.items()},
        None if cwd is None else os.fsencode(cwd),
    )


def resolve(future: asyncio.Future[None]) -> None:
    """Say that what *future* waits for has happened, also if that was said."""
    if not future.done():
        future.set_result(None)
