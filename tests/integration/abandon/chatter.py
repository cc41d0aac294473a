"""A victim that goes on with one stored conversation; what it was told, and what its tool did, are noted outside."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import loopctl.store  # noqa: F401 - once, and not in each victim
from loopctl import Agent, RunEnded, RunStarted, ToolContext, ToolFinished, ToolStarted, tool
from loopctl.testing import ScriptedModel, call, say

OPENING, ASKED, CALLED, ANSWERED, TOLD = 1, 2, 3, 4, 5
"""The store is opened; a run was started; its tool was called; its tool has ended; its end was told."""


def append(file: Path, line: str) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


def work(mark, folder: Path, number: int) -> None:
    asyncio.run(_chat(mark, folder, number))


async def _chat(mark, folder: Path, number: int) -> None:
    @tool
    async def send(ctx: ToolContext) -> str:
        """Send."""
        append(folder / "sent.txt", ctx.idempotency_key)
        await asyncio.sleep(0.002)
        return "sent"

    mark(OPENING)
    replies = [[say("I send it."), call("send", {})], "It is sent."]
    session = Agent(ScriptedModel(*replies * 1000), [send]).session(store=folder / "store.db", id="chat")
    await session.open()
    if session.runs and session.runs[-1].outcome == "interrupted":
        session.adopt(session.runs[-1])
    for turn in range(1000):
        handle = session.start(f"{number}/{turn}")
        async for event in handle:
            match event:
                case RunStarted():
                    mark(ASKED)
                case ToolStarted():
                    mark(CALLED)
                    if turn % 3 == 2:
                        handle.cancel("not this one")
                case ToolFinished():
                    mark(ANSWERED)
                case RunEnded(run):
                    append(folder / "told.txt", f"{run.id} {run.outcome}")
                    mark(TOLD)
