"""The two streams through which the SDK talks with the process of a server: lines of JSON, both ways.

Rules: nothing here waits to write; what comes is read only as fast as it is taken, so that a server that floods fills
its own pipe and not our memory; what is no message is dropped, as servers like to print.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, ErrorData, JSONRPCError, JSONRPCNotification, jsonrpc_message_adapter

from loopctl.concurrency import breathe

__all__ = ["Incoming", "Outgoing"]

_HIGH, _LOW = 256, 64
"""Lines that wait to be taken, at which reading stops and goes on."""
_LONGEST = 64 * 1024 * 1024
"""Bytes of one message."""
_SLOW = 1024 * 1024
"""Bytes that the other side has not taken, from which on it is told no news, only answers."""


class Incoming:
    """What the server says."""

    def __init__(self, hold: Callable[[bool], None], on_end: Callable[[], object] = lambda: None) -> None:
        """Call *hold* with True when no more should be read for now, with False when it may go on.

        *on_end* is called when all that came was taken, and nothing more comes.
        """
        self._hold = hold
        self._on_end = on_end
        self._is_held = False
        self._lines: deque[bytes] = deque()
        self._rest = bytearray()
        self._taken = 0
        self._is_ended = False
        self._is_closed = False
        self._waiter: asyncio.Future[None] | None = None

    def take(self, portion: bytes) -> None:
        """Take what the server wrote.

        Raises:
            ValueError: It writes a line without an end.
        """
        if self._is_closed:
            return
        self._rest += portion
        if len(self._rest) > _LONGEST:
            raise ValueError(f"it sent a message of more than {_LONGEST >> 20} MiB")
        if b"\n" not in portion:
            return
        *lines, rest = self._rest.split(b"\n")
        self._rest = bytearray(rest)
        self._lines.extend(bytes(line) for line in lines if line.strip())
        if len(self._lines) > _HIGH and not self._is_held:
            self._is_held = True
            self._hold(True)
        self._wake()

    def end(self) -> None:
        """Say that nothing more comes."""
        self._is_ended = True
        self._wake()

    def close(self) -> None:
        """Take nothing any more; what comes is dropped, so that the server can end."""
        self._is_closed = True
        self._lines.clear()
        self._let_go(0)
        self._wake()

    async def receive(self) -> SessionMessage | Exception:
        """Give the next message.

        Raises:
            anyio.EndOfStream: The server has ended.
            anyio.ClosedResourceError: The stream was closed.

        Cancellation:
            Nothing is lost.
        """
        while True:
            while self._lines:
                message = _parse(self._lines.popleft())
                self._let_go(_LOW)
                self._taken += 1
                if self._taken % _LOW == 0:
                    await breathe()  # a flood is no reason to hold up the loop
                if message is not None:
                    return message
            if self._is_closed:
                raise anyio.ClosedResourceError
            if self._is_ended:
                self._on_end()
                raise anyio.EndOfStream
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    async def aclose(self) -> None:
        """Close the stream.

        Cancellation:
            Never waits.
        """
        self.close()

    def __aiter__(self) -> Incoming:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Incoming:
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def _let_go(self, at: int) -> None:
        if self._is_held and len(self._lines) <= at:
            self._is_held = False
            self._hold(False)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Outgoing:
    """What is said to the server."""

    def __init__(self, write: Callable[[bytes], None], backlog: Callable[[], int] = lambda: 0) -> None:
        """Write by *write*, which never waits; *backlog* counts the bytes that were not taken yet."""
        self._write = write
        self._backlog = backlog
        self._is_closed = False

    async def send(self, item: SessionMessage, /) -> None:
        """Write *item*.

        Raises:
            anyio.ClosedResourceError: The stream was closed.

        Cancellation:
            Never waits.
        """
        if self._is_closed:
            raise anyio.ClosedResourceError
        if isinstance(item.message, JSONRPCNotification) and self._backlog() > _SLOW:
            return
        self._write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")

    async def aclose(self) -> None:
        """Close the stream.

        Cancellation:
            Never waits.
        """
        self._is_closed = True

    async def __aenter__(self) -> Outgoing:
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._is_closed = True


def _parse(line: bytes) -> SessionMessage | None:
    with suppress(ValueError):
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    with suppress(ValueError, RecursionError):
        return _mend(json.loads(line.decode(errors="replace")))
    return None


def _mend(value: Any) -> SessionMessage | None:
    """Make a message of one that is not strict: with half of a surrogate pair, where a server has cut a text."""
    text = json.dumps(value, ensure_ascii=False).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    with suppress(ValueError):
        return SessionMessage(jsonrpc_message_adapter.validate_json(text, by_name=False))
    if not isinstance(value, dict) or "method" in value or not isinstance(value.get("id"), int | str):
        return None
    wrong = ErrorData(code=INVALID_REQUEST, message="its answer cannot be read, so what came of it is unknown")
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=value["id"], error=wrong))  # else it would be waited for
