"""Owns one connection of the OpenAI-compatible test server: reads requests, sends scripted answers, records both.

While it answers it keeps reading, so that a client's leaving is seen at once, also while nothing is being sent.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.peers import openai_replies
from tests.peers.openai_replies import Reply

__all__ = ["Connection", "Record"]

_POLL = 0.002
_BURST_EVENTS = 64


@dataclass
class Record:
    """What the server saw of one request. Moments are `time.monotonic()` seconds; None: it did not happen."""

    index: int
    path: str
    headers: dict[str, str]
    body: Any
    """The decoded JSON body; the bytes if it was not JSON."""
    connection: int
    """Which of the server's connections it came by, from 1."""
    opened: float
    answered: float | None = None
    """When the status line was sent."""
    finished: float | None = None
    """When the last byte was sent."""
    disconnected: float | None = None
    """When the client was seen to leave before that."""
    tokens: list[float] = field(default_factory=list)
    """When each event with content was sent."""

    @property
    def is_open(self) -> bool:
        """Neither finished nor left."""
        return self.finished is None and self.disconnected is None

    @property
    def tokens_after_disconnect(self) -> int:
        """How many events were sent after the client had left."""
        return 0 if self.disconnected is None else self.tokens_since(self.disconnected)

    def tokens_since(self, moment: float) -> int:
        """Count the events sent after *moment* (`time.monotonic()`)."""
        return sum(1 for sent in self.tokens if sent > moment)


class Server(Protocol):
    """What a connection needs of its server."""

    records: list[Record]
    connections: int
    connections_total: int

    def reply_for(self, record: Record) -> Reply: ...

    def changed(self) -> None: ...


class Connection:
    """One TCP connection: requests one after the other, each watched for its client's leaving."""

    def __init__(self, server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._server = server
        self._reader = reader
        self._writer = writer
        self._early = b""
        server.connections += 1
        server.connections_total += 1
        self._number = server.connections_total
        server.changed()

    async def serve(self) -> None:
        try:
            while (record := await self._read_request()) is not None and await self._answer(record):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._server.connections -= 1
            self._writer.close()
            self._server.changed()

    async def _read_request(self) -> Record | None:
        head = self._early
        while b"\r\n\r\n" not in head:
            more = await self._reader.read(65536)
            if not more:
                return None
            head += more
        head, _, body = head.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = int(headers.get("content-length", "0"))
        body += await self._reader.readexactly(max(0, length - len(body)))
        body, self._early = body[:length], body[length:]
        method, path, _ = first.split(" ", 2)
        try:
            decoded = json.loads(body)
        except ValueError:
            decoded = body
        record = Record(len(self._server.records), path, headers, decoded, self._number, time.monotonic())
        if method == "POST":
            self._server.records.append(record)
            self._server.changed()
        return record

    async def _answer(self, record: Record) -> bool:
        """Send the scripted answer; False if the connection is over."""
        answer = asyncio.get_running_loop().create_task(self._send(record))
        watch = asyncio.get_running_loop().create_task(self._watch())
        try:
            await asyncio.wait({answer, watch}, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            record.disconnected = time.monotonic()
            return False
        except ConnectionError:
            record.disconnected = time.monotonic()
            return False
        finally:
            answer.cancel()
            watch.cancel()
            await asyncio.gather(answer, watch, return_exceptions=True)
            self._server.changed()

    async def _watch(self) -> None:
        """Return when the client has left; keep what it sends early."""
        try:
            while data := await self._reader.read(65536):
                self._early += data
        except ConnectionError:
            return

    async def _send(self, record: Record) -> bool:
        if record.path == "/records":
            shown = [vars(other) for other in self._server.records]
            return await self._send_body(record, Reply(body=json.dumps(shown, default=str).encode()))
        reply = self._server.reply_for(record)
        if reply.is_never:
            await asyncio.Event().wait()
        if reply.body is None and isinstance(record.body, dict) and record.body.get("stream"):
            return await self._send_stream(record, reply)
        return await self._send_body(record, reply)

    async def _send_body(self, record: Record, reply: Reply) -> bool:
        body = reply.body
        if body is None:
            await self._hold(reply, reply.gate_at)
            body = openai_replies.completion_bytes(reply, record.body["model"])
        is_cut = reply.stall_at is not None or reply.drop_at is not None
        await self._write(record, _head(reply, reply.content_type, f"Content-Length: {len(body)}"))
        await self._write(record, body[: len(body) // 2] if is_cut else body)
        if reply.stall_at is not None:
            await asyncio.Event().wait()
        return self._finish(record, is_cut=is_cut)

    async def _send_stream(self, record: Record, reply: Reply) -> bool:
        await self._write(record, _head(reply, "text/event-stream", "Transfer-Encoding: chunked"))
        if reply.is_one_write:
            whole = b"".join(event for event, _ in _events(record, reply))
            record.tokens += [time.monotonic()] * len(reply.deltas)
            await self._write(record, _chunk(whole) + _chunk(b""))
            return self._finish(record)
        for number, (event, is_token) in enumerate(_events(record, reply)):
            if number == reply.stall_at:
                await asyncio.Event().wait()
            if number == reply.drop_at:
                await self._write(record, _chunk(event)[: len(event) // 2])
                return self._finish(record, is_cut=True)
            await self._hold(reply, number)
            if is_token:
                record.tokens.append(time.monotonic())
            await self._write(record, _chunk(event))
            if number % _BURST_EVENTS == 0:
                await asyncio.sleep(0)
        await self._write(record, _chunk(b""))
        return self._finish(record)

    async def _hold(self, reply: Reply, number: int) -> None:
        while reply.gate is not None and number >= reply.gate_at and not reply.gate.is_set():
            await asyncio.sleep(_POLL)
        if reply.delay:
            await asyncio.sleep(reply.delay)

    async def _write(self, record: Record, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()
        if record.answered is None:
            record.answered = time.monotonic()
        self._server.changed()

    def _finish(self, record: Record, *, is_cut: bool = False) -> bool:
        record.finished = time.monotonic()
        self._server.changed()
        return not is_cut and record.headers.get("connection", "").lower() != "close"


def _head(reply: Reply, content_type: str, framing: str) -> bytes:
    extra = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in reply.headers.items())
    return f"HTTP/1.1 {reply.status} Scripted\r\nContent-Type: {content_type}\r\n{extra}{framing}\r\n\r\n".encode()


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _events(record: Record, reply: Reply) -> Iterator[tuple[bytes, bool]]:
    """Give the stream's events, and whether each is one of the script's."""
    if reply.pieces is not None:
        yield from ((piece, True) for piece in reply.pieces)
        return
    model, deltas = record.body["model"], reply.deltas
    while True:
        yield from ((openai_replies.event_bytes(model, delta), True) for delta in deltas)
        if not reply.is_endless:
            break
    is_usage_wanted = bool((record.body.get("stream_options") or {}).get("include_usage"))
    for event in openai_replies.closing_bytes(reply, model, is_usage_wanted=is_usage_wanted):
        yield event, False
