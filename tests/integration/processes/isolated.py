"""Tools with a process of their own, for the tests: a module that the worker can import."""

from __future__ import annotations

import asyncio
import ctypes
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loopctl import ToolContext, ToolError, tool

LINES: list[str] = []


@dataclass
class Size:
    """An argument and a result of a type of our own."""

    width: int
    height: int


class Unreadable(Exception):
    """Can be pickled, and not read again."""

    def __init__(self, left: str, right: str) -> None:
        super().__init__(left + right)


@tool(isolation="process")
def double(size: Size) -> Size:
    """Double a size."""
    return Size(size.width * 2, size.height * 2)


@tool(isolation="process")
async def where(ctx: ToolContext) -> dict[str, Any]:
    """Say where it runs."""
    await asyncio.sleep(0)
    print("printed by the tool")
    print("and to stderr", file=sys.stderr)
    ctx.progress("half", 0.5)
    return {"pid": os.getpid(), "key": ctx.idempotency_key, "call": ctx.call_id, "is_cancelled": ctx.is_cancelled()}


@tool(isolation="process")
def misbehave(how: str, path: str = "") -> Any:
    """Fail in one of many ways."""
    match how:
        case "raise":
            raise ValueError("no such luck")
        case "tool error":
            raise ToolError("try another day")
        case "unreadable":
            raise Unreadable("left", "right")
        case "unpicklable":
            return threading.Lock()
        case "exit":
            print("last words", file=sys.stderr)
            os._exit(7)
        case "segfault":
            ctypes.string_at(0)
        case "thread":
            threading.Thread(target=time.sleep, args=(1000,)).start()
        case "child":
            return subprocess.Popen(["sleep", "1000"]).pid
        case "descriptors":
            return sorted(os.listdir("/proc/self/fd"))
    return "fine"


@tool(isolation="process")
def spin_in_c(path: str) -> str:
    """Hold the interpreter lock for good."""
    Path(path).write_text(str(os.getpid()))
    return str(sum(range(10**15)))


@tool(isolation="process")
def tidy(path: str) -> str:
    """Wait, and tidy up on the way out."""
    Path(path).write_text(str(os.getpid()))
    try:
        time.sleep(1000)
    finally:
        Path(path + ".tidied").write_text("yes")
    return "never"


@tool(isolation="process")
def poll(path: str, ctx: ToolContext) -> str:
    """Wait for the cancel, and say why it came."""
    Path(path).write_text(str(os.getpid()))
    ctx.signal.wait()
    return f"stopped: {ctx.reason}"


@tool(isolation="process")
async def unwind(path: str, ctx: ToolContext) -> str:
    """Sleep, and write the reason on the way out."""
    Path(path).write_text(str(os.getpid()))
    try:
        await asyncio.sleep(1000)
    finally:
        Path(path + ".tidied").write_text(str(ctx.reason))
    return "never"


@tool(isolation="process")
async def what_is_absent(ctx: ToolContext) -> list[str]:
    """Use what is in the other process."""
    said = []
    try:
        await ctx.run_process(["true"])
    except Exception as error:
        said.append(str(error))
    try:
        ctx.once("key", print)
    except Exception as error:
        said.append(str(error))
    (ctx.temp_dir / "file").write_text("x")
    with ctx.atomic_write(ctx.temp_dir / "other") as file:
        file.write("y")
    return [*said, str(ctx.temp_dir)]


class Counter:
    """Something with a method that is a tool."""

    def __init__(self, start: int) -> None:
        self.start = start

    def add(self, number: int) -> int:
        """Add."""
        return self.start + number


add = tool(Counter(40).add, isolation="process")
