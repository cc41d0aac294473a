"""A server of ours on loopback, on a thread and a loop of its own, and a client that reads its streams."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2

from loopctl import Agent, CancelReason, CancelSignal
from loopctl.web import WebApp, create_app, serve

__all__ = ["Served", "Stream", "body", "served", "until"]

PATIENCE = 20.0


class Served:
    """A server that runs; `client` asks it."""

    def __init__(self, agent: Agent, serving: dict[str, Any], **settings: Any) -> None:
        self.agent = agent
        self.signal = CancelSignal()
        self.app: WebApp = create_app(agent, **settings)
        self.url = ""
        self._serving = serving
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert self._ready.wait(PATIENCE)
        self.client = httpx2.Client(base_url=self.url, timeout=PATIENCE)

    def _run(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        self.loop = asyncio.get_running_loop()
        try:
            await serve(self.app, port=0, signal=self.signal, on_ready=self._tell, **self._serving)
        finally:
            await self.agent.aclose()

    def _tell(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._ready.set()

    def close(self) -> None:
        self.client.close()
        self.signal.cancel(CancelReason("shutdown", "the test is over"))
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the server did not end"

    def post(self, path: str, value: Any = None) -> httpx2.Response:
        return self.client.post(path, json={} if value is None else value)

    @contextmanager
    def run(self, text: str = "hi", thread: str = "t", run: str = "r", query: str = "") -> Iterator[Stream]:
        """Begin a run and read its stream."""
        with self.client.stream("POST", f"/runs{query}", json=body(text, thread, run)) as response:
            yield Stream(response)

    @contextmanager
    def join(self, run_id: str, after: int | None = None) -> Iterator[Stream]:
        headers = {} if after is None else {"Last-Event-ID": str(after)}
        with self.client.stream("GET", f"/runs/{run_id}/events", headers=headers) as response:
            yield Stream(response)

    def outcome(self, run_id: str) -> str:
        return self.client.get(f"/runs/{run_id}").json()["outcome"]


class Stream:
    """What one client reads of one run."""

    def __init__(self, response: httpx2.Response) -> None:
        self.response = response
        self.lines = response.iter_lines()
        self.text: list[str] = []
        self.last = 0
        if response.status_code != 200:
            response.read()

    @property
    def run_id(self) -> str:
        return self.response.headers["x-run-id"]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for line in self.lines:
            self.text.append(line)
            if line.startswith("id: "):
                self.last = int(line[4:])
            if line.startswith("data: "):
                yield json.loads(line[6:])

    def until(self, name: str) -> list[dict[str, Any]]:
        """Read to the next event of that type, or of that name of ours, and give what was read."""
        found = []
        for event in self:
            found.append(event)
            if name in {event["type"], event.get("name")}:
                return found
        raise AssertionError(f"{name} did not come: {[event['type'] for event in found]}")

    def rest(self) -> list[dict[str, Any]]:
        return list(self)


def body(text: str = "hi", thread: str = "t", run: str = "r") -> dict[str, Any]:
    return {"threadId": thread, "runId": run, "messages": [{"id": "m", "role": "user", "content": text}]}


@contextmanager
def served(agent: Agent, serving: dict[str, Any] | None = None, **settings: Any) -> Iterator[Served]:
    """Serve *agent* in the block."""
    server = Served(agent, serving or {}, **settings)
    try:
        yield server
    finally:
        server.close()


def until(condition: Callable[[], object]) -> None:
    """Wait until *condition* holds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.005)
