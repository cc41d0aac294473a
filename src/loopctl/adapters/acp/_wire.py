"""Carries the protocol's messages, one JSON object a line, for the SDK's connection.

It stands in for the SDK's own transport because that one waits for ever once the client has stopped reading, and cannot
be asked which request is which.

Rules:

1. What is written keeps its order. `send` waits for room; once the client is gone it waits for nothing, and what nobody
   can read is dropped.
2. The end of the input, and a client that reads no more, are told once by `on_end`: in a later turn of the loop, after
   the first step of everything that had been received before.
3. `$/cancel_request`, which the SDK does not route, is told by `on_cancel_request` in the same order.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any, BinaryIO

from loopctl.cancel import CancelSignal
from loopctl.concurrency import race
from loopctl.errors import Cancelled, UsageError

__all__ = ["REQUEST", "Wire"]

REQUEST = "loopctl_request"
"""The key in the `_meta` of a request's parameters under which its id is handed through the SDK."""
_NAMED = frozenset({"session/new", "session/prompt"})
"""The requests that may be cancelled by their id."""
_LONGEST = 64 * 1024 * 1024
"""Bytes of one message: a prompt may hold files."""
_FLUSH = 1.0
"""Seconds in which a client may take the last answers."""
_CANCEL_REQUEST = "$/cancel_request"
_INVALID_REQUEST = -32600
_PARSE_ERROR = -32700
_log = logging.getLogger("loopctl.adapters.acp")


class _Outlet(asyncio.BaseProtocol):
    """Knows whether there is room for more output, and whether anybody can read it."""

    def __init__(self, on_lost: Callable[[], None]) -> None:
        self.room = asyncio.Event()
        self.room.set()
        self.lost = asyncio.Event()
        self._on_lost = on_lost

    def pause_writing(self) -> None:
        self.room.clear()

    def resume_writing(self) -> None:
        self.room.set()

    def connection_lost(self, _: Exception | None) -> None:
        self.room.set()
        self.lost.set()
        self._on_lost()


class Wire:
    """A transport of the SDK, made by `open`."""

    def __init__(self) -> None:
        """Begin without streams."""
        self.on_end: Callable[[str], None] = _nobody
        self.on_cancel_request: Callable[[Any], None] = _nobody
        self.questions: dict[str, Any] = {}
        """The ids of the open permission requests, by the id of the tool call."""
        self._loop = asyncio.get_running_loop()
        self._reader = asyncio.StreamReader(limit=_LONGEST)
        self._outlet = _Outlet(lambda: self._end("it reads no more"))
        self._input: asyncio.BaseTransport | None = None
        self._output: asyncio.WriteTransport | None = None
        self._is_ended = False
        self._waits = True

    async def open(self, stdin: BinaryIO, stdout: BinaryIO) -> None:
        """Carry messages by *stdin* and *stdout*, which are closed with the wire.

        Raises:
            UsageError: They are no pipes, sockets or terminals; then nothing is left open of them.

        Cancellation:
            Leaves it half open: `close` it.
        """
        try:
            inlet = asyncio.StreamReaderProtocol(self._reader)
            self._input, _ = await self._loop.connect_read_pipe(lambda: inlet, stdin)
            self._output, _ = await self._loop.connect_write_pipe(lambda: self._outlet, stdout)
        except (ValueError, OSError) as error:
            if self._input is not None:
                self._input.close()
            raise UsageError(
                f"the protocol needs pipes, which an editor makes when it starts the command ({error})"
            ) from error

    async def receive(self) -> dict[str, Any] | None:
        """Give the next message for the SDK; None at the end of the input.

        Cancellation:
            Nothing is lost but a message that was being read.
        """
        while not self._is_ended:
            try:
                line = await self._reader.readline()
            except ValueError:  # it is longer than that; its rest comes as lines that are no JSON
                self._refuse(_INVALID_REQUEST, "Invalid request: it is too long")
                continue
            except OSError:  # the other end broke
                line = b""
            if not line:
                self._end("it closed its end")
                break
            message = self._read(line)
            if message is not None:
                return message
        return None

    async def send(self, message: dict[str, Any]) -> None:
        """Write *message*, and wait until there is room for more.

        Cancellation:
            The message is written whole anyway.
        """
        self.post(message)
        if self._waits:
            await self._outlet.room.wait()

    def post(self, message: dict[str, Any]) -> None:
        """Write *message* and wait for nothing."""
        if message.get("method") == "session/request_permission":
            self.questions[message["params"]["toolCall"]["toolCallId"]] = message["id"]
        if self._output is not None and not self._outlet.lost.is_set() and not self._output.is_closing():
            self._output.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    def withdraw(self, tool_call_id: str) -> None:
        """Tell the client that the question about a tool call is no longer asked."""
        request = self.questions.pop(tool_call_id, None)
        if request is not None:
            self.post({"jsonrpc": "2.0", "method": _CANCEL_REQUEST, "params": {"requestId": request}})

    def release(self) -> None:
        """Wait for no room from now on: a client that reads nothing must not hold up an end."""
        self._waits = False
        self._outlet.room.set()

    async def close(self) -> None:
        """Close both streams, after a bounded time in which the client may read what was written.

        Cancellation:
            They are closed at once.
        """
        self.release()
        self._is_ended = True
        if self._input is not None:
            self._input.close()
        if self._output is None:
            return
        self._output.close()
        patience = CancelSignal()
        try:
            with patience.cancel_after(_FLUSH):
                await race(self._outlet.lost.wait(), patience, grace=0)
        except Cancelled:
            _log.debug("the client has not taken its last messages")
        finally:
            if not self._outlet.lost.is_set():
                self._output.abort()

    def _read(self, line: bytes) -> dict[str, Any] | None:
        """Give what the SDK is to see of one line, if anything."""
        if not line.strip():
            return None
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            self._refuse(_PARSE_ERROR, "Parse error")
            return None
        if not isinstance(message, dict):
            self._refuse(_INVALID_REQUEST, "Invalid request: it is no object")
            return None
        if "method" not in message and not _is_response(message):
            self._refuse(_INVALID_REQUEST, "Invalid request: it is neither a request nor a response")
            return None
        params = message.get("params")
        if message.get("method") == _CANCEL_REQUEST:
            if isinstance(params, dict):
                self._loop.call_soon(self.on_cancel_request, params.get("requestId"))
            return None
        if message.get("method") in _NAMED and isinstance(params, dict):
            params["_meta"] = {REQUEST: message.get("id")}  # the only way by which the SDK hands it on
        return message

    def _refuse(self, code: int, text: str) -> None:
        self.post({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": text}})

    def _end(self, how: str) -> None:
        if not self._is_ended:
            self._is_ended = True
            self._loop.call_soon(self.on_end, how)


def _is_response(message: dict[str, Any]) -> bool:
    """Say whether the SDK can take *message* as an answer; its reading ends with anything else."""
    return isinstance(message.get("id"), int | str) and isinstance(message.get("error"), dict | None)


def _nobody(_: object) -> None:
    """Stand in for a listener."""
