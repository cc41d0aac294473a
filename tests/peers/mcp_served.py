"""Tools of ours for the tests of the MCP server; what happens to them is written into the file `MCP_LOG` names."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from loopctl import Agent, ToolContext, tool
from loopctl.record import Event, RunEnded
from loopctl.testing import ScriptedModel, call


def log(line: str) -> None:
    """Tell the test what happened."""
    with Path(os.environ["MCP_LOG"]).open("a") as file:
        file.write(line + "\n")


log(f"pid {os.getpid()}")


@tool(read_only=True)
def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first.
        b: The second.
    """
    print("what a tool prints is no message")
    return a + b


@tool
async def slow(name: str) -> str:
    """Wait for ever."""
    log(f"begun {name}")
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        log(f"cancelled {name}")
        raise
    return "never"


@tool
def plain(name: str, ctx: ToolContext) -> str:
    """Wait for ever on a thread."""
    log(f"begun {name}")
    ctx.signal.wait()
    log(f"told {name}: {ctx.reason}")
    return "told"


@tool
async def steps(ctx: ToolContext) -> str:
    """Tell of progress."""
    ctx.progress("half", 0.5)
    await ctx.sleep(0.3)
    ctx.progress("all", 1.0)
    await ctx.sleep(0.3)
    return "done"


@tool
async def held(name: str, path: str) -> str:
    """Wait for a file."""
    log(f"begun {name}")
    while not Path(path).exists():
        await asyncio.sleep(0.02)
    log(f"finished {name}")
    return "finished"


@tool
async def lasting(beats: int, seconds: float, ctx: ToolContext) -> str:
    """Tell of progress so many times, with so many seconds after each."""
    for beat in range(beats):
        ctx.progress(f"beat {beat}", beat / beats)
        await asyncio.sleep(seconds)
    return "done"


@tool
async def flood(ctx: ToolContext) -> str:
    """Tell of progress at length, for ever."""
    log("begun flood")
    try:
        while True:
            ctx.progress("x" * 200_000)
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        log("cancelled flood")
        raise


@tool
def big() -> str:
    """Give a lot."""
    return "x" * 1_000_000


@tool
def fail() -> str:
    """Fail."""
    raise ValueError("the disk is full")


@tool(approval=True)
def wipe() -> str:
    """Do what needs a yes."""
    return "wiped"


def _log_run(event: Event) -> None:
    if isinstance(event, RunEnded) and event.run.stop is not None:
        reason = event.run.stop.reason
        log(f"run {event.run.outcome} {reason.origin} {reason.requested_by}")


_SCRIPT = ScriptedModel(call("add", {"a": 1, "b": 2}), "It is 3.", call("slow", {"name": "inner"}))
expert = Agent(_SCRIPT, [add, slow], observers=[_log_run])
