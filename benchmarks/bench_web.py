"""Measures the server: from a stop over HTTP to the run's end, many streams at once, and what a thousand runs leave.

The server is a process of its own; the client is this one, with plain asyncio streams, so that it costs little itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NamedTuple

from benchmarks import Row

STOPS = 100
STOP_BOUND = 0.020
STREAMS = 200
ALL_BOUND = 1.0
WARM, RUNS = 700, 1000
"""The first are enough to fill what the server remembers; what grows after them grows for ever."""
GROWTH = 8 << 20
"""Bytes of resident memory that a thousand runs may add: the allocator's own ups and downs."""

SERVER = """
import asyncio, gc, os
from starlette.responses import JSONResponse
from starlette.routing import Route
from loopctl import Agent, RunConfig, run
from loopctl.testing import ScriptedModel, pause, say
from loopctl.web import create_app, serve

def reply(request):
    if request.messages[-1].text == "short":
        return [say("word ") for _ in range(20)]
    return [step for _ in range(2000) for step in (say("word "), pause(0.05))]

async def left(_):
    gc.collect()
    pages = int(open("/proc/self/statm").read().split()[1])
    return JSONResponse({
        "tasks": len(asyncio.all_tasks()), "memory": pages * os.sysconf("SC_PAGESIZE"),
        "descriptors": len(os.listdir("/proc/self/fd")),
    })

model = ScriptedModel(*[reply] * 4000)
app = create_app(Agent(model))
app.router.routes.append(Route("/left", left))

async def main():
    await serve(app, port=0, on_ready=lambda url: print(url, flush=True))

run(main())
"""


class Peer(NamedTuple):
    """Where the server is."""

    port: int

    @asynccontextmanager
    async def ask(self, method: str, path: str, value: Any = None) -> AsyncIterator[asyncio.StreamReader]:
        """Send a request; what is read is the answer, its head and all."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 24)
        content = b"" if value is None else json.dumps(value).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        writer.write(head.encode() + content)
        try:
            yield reader
        finally:
            writer.close()
            await writer.wait_closed()

    async def get(self, path: str) -> Any:
        """Give the JSON at *path*."""
        async with self.ask("GET", path) as reader:
            return _json(await reader.read())

    async def stop(self, run: str) -> tuple[float, Any]:
        """Give when the run had ended, by the clock of the machine, and its record."""
        began = time.time()
        async with self.ask("POST", f"/runs/{run}/cancel", {}) as reader:
            receipt = _json(await reader.read())
        assert receipt["state"] == "ended", receipt
        return receipt["run"]["ended_at"] - began, receipt["run"]


def begin(run: str, text: str = "long") -> dict[str, Any]:
    return {"threadId": run, "runId": run, "messages": [{"id": "m", "role": "user", "content": text}]}


@contextmanager
def server() -> Iterator[Peer]:
    """Run the server."""
    process = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    assert process.stdout is not None
    try:
        found = re.search(r":(\d+)/", process.stdout.readline())
        assert found is not None
        yield Peer(int(found[1]))
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


async def stops(peer: Peer) -> Row:
    """Stop runs one after the other, each in mid-reply."""
    took = []
    for number in range(STOPS):
        async with peer.ask("POST", "/runs", begin(f"stop-{number}")) as stream:
            await stream.readuntil(b"TEXT_MESSAGE_CONTENT")
            seconds, _ = await peer.stop(f"stop-{number}")
            took.append(seconds)
            await stream.read()
    median = statistics.median(took)
    name = f"stop over HTTP to the run's end, median of {STOPS} (worst {max(took) * 1e3:.1f} ms)"
    return Row(name, f"{median * 1e3:.2f} ms", f"<= {STOP_BOUND * 1e3:.0f} ms", median <= STOP_BOUND)


async def crowd(peer: Peer) -> list[Row]:
    """Read many streams at once, see that each stays live, and stop them all."""
    gaps: list[float] = []
    ends: list[float] = []
    live = asyncio.Semaphore(0)

    async def read(number: int) -> None:
        async with peer.ask("POST", "/runs", begin(f"crowd-{number}")) as stream:
            last = None
            while line := await stream.readline():
                if b"TEXT_MESSAGE_CONTENT" in line:
                    now = time.perf_counter()
                    if last is None:
                        live.release()
                    else:
                        gaps.append(now - last)
                    last = now
            ends.append(time.perf_counter())

    async with asyncio.TaskGroup() as tasks:
        for number in range(STREAMS):
            tasks.create_task(read(number))
        for _ in range(STREAMS):
            await live.acquire()
        await asyncio.sleep(2.0)
        began = time.perf_counter()
        await asyncio.gather(*(peer.stop(f"crowd-{number}") for number in range(STREAMS)))
    took = max(ends) - began
    gap = statistics.quantiles(gaps, n=100)[98]
    return [
        Row(
            f"{STREAMS} streams at once: 99 of 100 words, 50 ms apart, come within",
            f"{gap * 1e3:.0f} ms",
            "<= 500 ms",
            gap <= 0.5,
        ),
        Row(
            f"{STREAMS} streams at once: all stopped and ended",
            f"{took:.2f} s",
            f"<= {ALL_BOUND:.0f} s",
            took <= ALL_BOUND,
        ),
    ]


async def growth(peer: Peer) -> list[Row]:
    """Do many short runs and see what is left of them."""

    async def do(first: int, count: int) -> None:
        for number in range(first, first + count):
            async with peer.ask("POST", "/runs", begin(f"grow-{number % 50}-{number}", "short")) as stream:
                assert b"RUN_FINISHED" in await stream.read()

    await do(0, WARM)
    before = await peer.get("/left")
    await do(WARM, RUNS)
    after = await peer.get("/left")
    grown = after["memory"] - before["memory"]
    rows = [
        Row(
            f"memory after {RUNS} runs more", f"{grown / (1 << 20):+.1f} MiB", f"<= {GROWTH >> 20} MiB", grown <= GROWTH
        )
    ]
    for what in ("tasks", "descriptors"):
        more = after[what] - before[what]
        rows.append(Row(f"{what} after {RUNS} runs more", f"{more:+d}", "<= 0", more <= 0))
    return rows


async def measure(peer: Peer) -> list[Row]:
    """Give the rows."""
    return [await stops(peer), *await crowd(peer), *await growth(peer)]


def _json(answer: bytes) -> Any:
    return json.loads(answer.partition(b"\r\n\r\n")[2])


def main() -> list[Row]:
    """Give the figures."""
    with server() as peer:
        return asyncio.run(measure(peer))
