"""Measures what one streamed token costs: the provider against httpx2 lines and `json.loads` on the same bytes.

A server in a process of its own sends 2000 tokens in one write; both sides read it over loopback, in turn, and the
best of several rounds counts. The bound of the provider alone is 1.5 times the floor.
"""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

from benchmarks import Row
from loopctl.messages import UserMessage
from loopctl.model import ModelRequest, TextPart
from loopctl.providers.openai import OpenAIModel

TOKENS = 2000
ROUNDS = 15
BOUND = 1.5
BODY = {
    "model": "bench",
    "messages": [{"role": "user", "content": "go"}],
    "stream": True,
    "stream_options": {"include_usage": True},
}
REQUEST = ModelRequest("", (UserMessage("go"),))


async def floor(client: httpx2.AsyncClient, url: str) -> int:
    """Read the lines, decode each with `json.loads`, take the text out: nothing else."""
    count = 0
    async with client.stream("POST", f"{url}/chat/completions", json=BODY) as response:
        async for line in response.aiter_lines():
            if line.startswith("data: ") and line != "data: [DONE]":
                choices = json.loads(line[6:])["choices"]
                if choices and choices[0]["delta"].get("content"):
                    count += 1
    return count


async def ours(model: OpenAIModel) -> int:
    """Read the same reply through the provider."""
    count = 0
    async for delta in model.stream(REQUEST):
        if type(delta) is TextPart:
            count += 1
    return count


async def timed(read: Callable[[], Awaitable[int]]) -> float:
    """Give the seconds of one read, and check that it saw every token."""
    gc.collect()
    began = time.perf_counter()
    count = await read()
    took = time.perf_counter() - began
    assert count == TOKENS, count
    return took


async def measure(url: str) -> tuple[float, float]:
    """Give the best seconds of the floor and of the provider."""
    model = OpenAIModel("bench", base_url=url)
    floors, times = [], []
    async with httpx2.AsyncClient(timeout=None, trust_env=False) as client:
        for _ in range(ROUNDS):
            floors.append(await timed(lambda: floor(client, url)))
            times.append(await timed(lambda: ours(model)))
    await model.aclose()
    return min(floors), min(times)


@contextmanager
def served(script: str) -> Iterator[str]:
    """Run the peer with *script* in a process of its own, and give its address."""
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.peers.openai_server", "--port", "0", "--script", script],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent.parent,
    )
    try:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
    finally:
        server.terminate()
        server.communicate()


def main() -> list[Row]:
    """Give the two figures and their ratio."""
    with served("burst") as url:
        least, took = asyncio.run(measure(url))
    ratio = took / least
    return [
        Row("a token of a 2000-token burst, httpx2 lines and json.loads", f"{least / TOKENS * 1e6:.2f} us"),
        Row("the same token, OpenAIModel.stream", f"{took / TOKENS * 1e6:.2f} us"),
        Row("OpenAIModel.stream / httpx2 lines and json.loads", ratio, BOUND, ratio <= BOUND),
    ]
