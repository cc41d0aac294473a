"""Measures what one token costs a whole run with a reader, against httpx2 lines and `json.loads`.

A server in a process of its own sends 2000 tokens in one write; both sides read the same bytes over loopback, in turn.
"""

from __future__ import annotations

import asyncio

import httpx2

from benchmarks import Row
from benchmarks.bench_openai_stream import TOKENS, floor, served, timed
from loopctl import Agent, TextDelta
from loopctl.providers.openai import OpenAIModel

ROUNDS = 15
BOUND = 3.0


async def ours(agent: Agent) -> int:
    """Read the reply as a user's program does."""
    count = 0
    async with agent.session().start("go") as handle:
        async for event in handle:
            if type(event) is TextDelta:
                count += 1
    return count


async def measure(url: str) -> tuple[float, float]:
    """Give the best seconds of the floor and of a run."""
    agent = Agent(OpenAIModel("bench", base_url=url))
    floors, times = [], []
    async with httpx2.AsyncClient(timeout=None, trust_env=False) as client:
        for _ in range(ROUNDS):
            floors.append(await timed(lambda: floor(client, url)))
            times.append(await timed(lambda: ours(agent)))
    await agent.aclose()
    return min(floors), min(times)


def main() -> list[Row]:
    """Give the two figures and their ratio."""
    with served("burst") as url:
        least, took = asyncio.run(measure(url))
    ratio = took / least
    return [
        Row("a token of a 2000-token burst, httpx2 lines and json.loads", f"{least / TOKENS * 1e6:.2f} us"),
        Row("the same token, a run with a reader", f"{took / TOKENS * 1e6:.2f} us"),
        Row("run with a reader / httpx2 lines and json.loads", ratio, BOUND, ratio <= BOUND),
    ]
