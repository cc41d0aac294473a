"""Owns the OpenAI-compatible test server: chat completions on loopback, scripted, that records when its client left.

It is plain HTTP/1.1 on `asyncio.start_server`, in a thread with a loop of its own, so a client's going away is seen
at once also while an answer is held back. Standard library only. `python -m tests.peers.openai_server` runs it as a
process; `GET /records` there shows what it recorded.

```python
with OpenAIServer([text("Hello", " world"), never()]) as server:
    OpenAIModel("test", base_url=server.url, api_key="k")
    server.wait_for(lambda s: s.open == 1)
```
"""

from __future__ import annotations

import argparse
import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self, TypeAlias

from tests.peers.openai_pairing import find_fault
from tests.peers.openai_replies import (
    Reply,
    burst,
    calls,
    dropped,
    endless,
    error,
    html,
    never,
    not_json,
    prepared,
    raw,
    raw_stream,
    stalled,
    text,
    truncated,
    words,
)
from tests.peers.openai_wire import Connection, Record

__all__ = [
    "OpenAIServer",
    "Record",
    "Reply",
    "burst",
    "calls",
    "dropped",
    "endless",
    "error",
    "html",
    "never",
    "not_json",
    "prepared",
    "raw",
    "raw_stream",
    "stalled",
    "text",
    "truncated",
    "words",
]

_POLL = 0.002


Script: TypeAlias = Reply | Sequence[Reply] | Callable[[Record], Reply]


class OpenAIServer:
    """A chat-completions server on 127.0.0.1. A context manager: it serves inside the `with`.

    Args:
        script: What it answers: one reply for every request, a list with one for each (the last one repeats), or
            a callable that is given the request's record. It is called on the server's thread.
        port: 0 takes a free one.
        api_key: If given, other keys are refused with 401, as OpenAI does.
        validate: Refuse conversations that the real providers refuse (a call without its result, for one).
    """

    def __init__(
        self, script: Script | None = None, *, port: int = 0, api_key: str | None = None, validate: bool = True
    ) -> None:
        """Take the script; nothing is opened yet."""
        self._script: Script = text("Hello", "!") if script is None else script
        self._port = port
        self._api_key = api_key
        self._validate = validate
        self._changed = threading.Condition()
        self._ready = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.records: list[Record] = []
        """One for each chat request, in their order."""
        self.connections = 0
        """TCP connections open now."""
        self.connections_total = 0
        self.url = ""
        """The base url, with `/v1`."""

    @property
    def open(self) -> int:
        """Requests that are neither finished nor left."""
        return sum(1 for record in self.records if record.is_open)

    @property
    def disconnects(self) -> int:
        """Requests whose client left before their end."""
        return sum(1 for record in self.records if record.disconnected is not None)

    @property
    def finished(self) -> int:
        """Requests that were answered to the end."""
        return sum(1 for record in self.records if record.finished is not None)

    @property
    def bodies(self) -> list[Any]:
        """The request bodies, in their order."""
        return [record.body for record in self.records]

    def wait_for(self, condition: Callable[[OpenAIServer], object], timeout: float = 20.0) -> None:
        """Block this thread until *condition* is true; AssertionError with what was recorded after *timeout* s."""
        with self._changed:
            if not self._changed.wait_for(lambda: condition(self), timeout):
                raise AssertionError(f"not within {timeout} s: {self!r}")

    async def until(self, condition: Callable[[OpenAIServer], object], timeout: float = 20.0) -> None:
        """Do as `wait_for`, leaving the caller's loop free."""
        deadline = time.monotonic() + timeout
        while not condition(self):
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {timeout} s: {self!r}")
            await asyncio.sleep(_POLL)

    def __repr__(self) -> str:
        """Show the counts."""
        return (
            f"<OpenAIServer {self.url} requests={len(self.records)} open={self.open} finished={self.finished} "
            f"disconnects={self.disconnects} connections={self.connections}>"
        )

    def __enter__(self) -> Self:
        """Start the thread; return when it listens."""
        self._thread = threading.Thread(target=lambda: asyncio.run(self.serve()), name="openai-peer", daemon=True)
        self._thread.start()
        if not self._ready.wait(10):
            raise AssertionError("the test server did not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close every connection and join the thread."""
        assert self._loop is not None
        assert self._stop is not None
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
        assert not self._thread.is_alive(), "the test server did not stop"

    async def serve(self) -> None:
        """Serve until stopped; `with` does this in its thread."""
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        listener = await asyncio.start_server(self._accept, "127.0.0.1", self._port, backlog=1024)
        self.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1"
        self._ready.set()
        try:
            await self._stop.wait()
        finally:
            listener.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(Connection(self, reader, writer).serve())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def reply_for(self, record: Record) -> Reply:
        """Choose the answer to a request."""
        if self._api_key is not None and record.headers.get("authorization") != f"Bearer {self._api_key}":
            return error(401, "Incorrect API key provided: test.", kind="invalid_request_error")
        if not record.path.endswith("/v1/chat/completions"):
            return error(404, f"Invalid URL (POST {record.path})", kind="invalid_request_error")
        fault = find_fault(record.body) if self._validate else None
        if fault is not None:
            return error(400, fault, kind="invalid_request_error")
        if callable(self._script):
            return self._script(record)
        if isinstance(self._script, Reply):
            return self._script
        return self._script[min(record.index, len(self._script) - 1)]

    def changed(self) -> None:
        """Wake who waits for something."""
        with self._changed:
            self._changed.notify_all()


def _main() -> None:
    named = {"text": words(50, delay=0.02), "endless": endless(0.02), "never": never(), "burst": prepared(burst())}
    parser = argparse.ArgumentParser(description="An OpenAI-compatible test server on loopback.")
    parser.add_argument("--port", type=int, default=8123)
    parser.add_argument("--script", choices=sorted(named), default="text")
    options = parser.parse_args()
    with OpenAIServer(named[options.script], port=options.port) as server:
        print(server.url, flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    _main()
